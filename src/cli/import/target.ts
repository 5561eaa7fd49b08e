/** Where rows are imported to, and which intent a row is: by an action of the program, or by the columns of the key. */

import { existsSync } from "node:fs";
import { ownName } from "../../core/entry-name.ts";
import type { Store } from "../../core/store.ts";
import { OWN_NAME } from "../../engine/definition.ts";
import { PAST, type PastAccess, type PastIntent } from "../../engine/past.ts";
import { type Nevertwice, nevertwice } from "../../nevertwice.ts";
import { ledgerFile } from "../../open-store.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { Context } from "../command.ts";
import { findLedger, openLedger } from "../ledger/open.ts";
import { encryptOf, secretOf } from "../ledger/secret-flags.ts";
import { loadActions } from "../load-actions.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import type { SourceFile } from "./file.ts";
import type { Preset } from "./presets.ts";
import type { Reading } from "./reading.ts";
import { columnsOf, type PlacedRow, type Row } from "./row.ts";
import { fieldsOf, SchemaTypes } from "./schema.ts";
import { ColumnGuesses, type ColumnType, converted, typesOf } from "./types.ts";

export interface RowIntent {
  readonly action: string;
  readonly intent: PastIntent;
  /** The columns that say which intent it is: the action, and the key or the input. */
  readonly columns: readonly string[];
}

export interface Target {
  readonly store: Store;
  /** False in a dry run where there is no ledger yet: there is nothing to read. */
  readonly exists: boolean;
  /** The types of columns, as far as they were given. */
  readonly types: ReadonlyMap<string, ColumnType>;
  intentOf(row: PlacedRow): Promise<RowIntent>;
  /** Of a row whose pattern is known (--as). */
  intentOfReading(reading: Reading): Promise<PastIntent>;
  /** Called when all rows were read once: throws where the type of a column is not known. */
  checkTypes(): void;
  close(): Promise<void>;
}

const KEY_COLUMNS = ["idempotency_key", "key", "event_id"];
const EMPTIES = ["null", "absent", "text"];

export async function openTarget(context: Context, source: SourceFile, preset: Preset | null): Promise<Target> {
  const { args } = context;
  if (args.on("action") && args.on("action-column"))
    throw new UsageError("--action and --action-column are two ways to say which action it is. Give one of them.");
  if (preset === null && !args.on("action") && !args.on("action-column"))
    throw new UsageError(
      "import needs --action <name>, or --action-column <column> where the rows say it, one of the two.",
    );
  if (args.on("key") && args.on("fields"))
    throw new UsageError("--key and --fields are two ways to say what the key is. Give one of them.");
  const empty = args.text("empty");
  if (empty !== undefined && !EMPTIES.includes(empty))
    throw new UsageError(`--empty ${oneLine(empty)}: it takes one of ${EMPTIES.join(", ")}.`);
  const values = new Values(context, source);
  const module = args.text("actions");
  if (module === undefined) return plainTarget(context, values, source.name);
  if (preset !== null && ["s1-drip", "s1-events"].includes(preset.name))
    throw new UsageError(
      `--actions and --as ${preset.name} do not go together: no action of your module has these records. Name the ledger with --store, and --secret-env and --encrypt-env where your program has them.`,
    );
  return moduleTarget(context, values, { file: module, source: source.name, preset });
}

/** The values of a row's columns, with their types. */
class Values {
  readonly types: Map<string, ColumnType>;
  readonly guesses = new ColumnGuesses();
  /** Columns of --types that no row has had yet. */
  readonly #unseen: Set<string>;
  readonly #csv: boolean;
  readonly #empty: string | undefined;

  constructor({ args }: Context, { format }: SourceFile) {
    this.types = typesOf(args.list("types"));
    this.#unseen = new Set(this.types.keys());
    this.#csv = format === "csv";
    this.#empty = args.text("empty");
  }

  seen(row: Row): void {
    for (const column of this.#unseen) if (Object.hasOwn(row, column)) this.#unseen.delete(column);
  }

  checkTypes(file: string): void {
    const [unseen] = this.#unseen;
    if (unseen !== undefined)
      throw new UsageError(
        `${file}: --types names the column ${oneLine(unseen)}, and no row has it. Nothing was imported.`,
      );
    this.guesses.refuseUnknown(file);
  }

  /** Whether the file says nothing about the type of this value. */
  isOpen(column: string, value: unknown): value is string {
    return this.#csv && !this.types.has(column) && typeof value === "string" && value !== "";
  }

  /** Undefined: the field is absent. */
  read(row: Row, column: string): unknown {
    const value = Object.hasOwn(row, column) ? row[column] : undefined;
    if (value === undefined && this.#csv)
      throw new UsageError(`there is no column ${oneLine(column)}. ${columnsOf(row)}`);
    if (value === undefined || value === null) return value;
    if (this.#csv && value === "") return this.#emptyField(column);
    const type = this.types.get(column);
    return type === undefined ? value : converted(value, type, column);
  }

  #emptyField(column: string): unknown {
    if (this.#empty === undefined)
      throw new UsageError(
        `the column ${oneLine(column)} is empty, and CSV does not say what that is. Add --empty null, --empty absent (the field is left out) or --empty text (an empty text).`,
      );
    return this.#empty === "null" ? null : this.#empty === "text" ? "" : undefined;
  }

  /** Of a column that is part of the key. */
  part(row: Row, column: string, place: number): unknown {
    const given = Object.hasOwn(row, column) ? row[column] : undefined;
    if (given === undefined && this.#csv)
      throw new UsageError(`there is no column ${oneLine(column)}. ${columnsOf(row)}`);
    if (given === undefined || given === null || given === "")
      throw new ProblemError(`the column ${oneLine(column)} is missing or blank, and it is part of the key.`);
    if (this.types.get(column) === "date")
      throw new UsageError(
        `--types ${oneLine(column)}=date makes a Date of it, and a key takes no Date. Add --types ${oneLine(column)}=text if your program's key has the text of this column, ${oneLine(column)}=timestamp if it has at.toISOString(), or --actions <module> if its key function has day(at) or another window.`,
      );
    if (this.isOpen(column, given)) this.guesses.note(column, given, place);
    return this.read(row, column);
  }
}

function actionNameOf(context: Context, row: Row): string {
  const name = givenName(context, row);
  const why = ownName(name);
  if (why === null) return name;
  // A row's name is wrong for that row, a flag's for all of them.
  const problem = `${JSON.stringify(oneLine(name))}: ${why}.`;
  throw context.args.on("action") ? new UsageError(`--action ${problem}`) : new ProblemError(problem);
}

function givenName({ args }: Context, row: Row): string {
  const column = args.text("action-column");
  if (column === undefined) return args.text("action") as string;
  const value = Object.hasOwn(row, column) ? row[column] : undefined;
  if (typeof value === "string" && value.trim() !== "") return value;
  if (value === undefined)
    throw new UsageError(`there is no column ${oneLine(column)} (--action-column). ${columnsOf(row)}`);
  throw new ProblemError(`the column ${oneLine(column)} is blank, and it names the action.`);
}

function accessOf(action: unknown): PastAccess | undefined {
  return (action as { [PAST]?: PastAccess })[PAST];
}

/** Without the program's code: the key is a column, as for nt.once(), or some fields. */
function plainTarget(context: Context, values: Values, source: string): Target {
  const { args, io } = context;
  const [secret, encrypt, tenant] = [secretOf(context), encryptOf(context), args.text("tenant")];
  const ledger = args.on("dry-run") ? findLedger(args.text("store"), io) : null;
  const exists = ledger === null || ledger.exists;
  const store = ledger === null ? openLedger(args.text("store"), io) : ledger.exists ? ledger.store : memoryStore();
  const nt = nevertwice({
    store,
    sweep: false,
    onWarning: () => {},
    ...(tenant !== undefined && { tenant }),
    ...(secret !== undefined && { secret }),
    ...(encrypt !== undefined && { encrypt }),
  });
  const fields = args.list("fields");
  const actionColumn = args.all("action-column");
  const actions = new Map<string, PastAccess>();
  let parts: readonly unknown[] = [];
  // A preset may import the steps of a sequence, whose names are the ledger's own.
  const own = args.text("as") === undefined ? {} : { [OWN_NAME]: true as const };
  const define = (name: string): PastAccess => {
    const key = fields.length > 0 ? fields : () => parts;
    const access = accessOf(
      nt.action<Record<string, unknown>, void>(name, { key, run: () => {}, ...own }),
    ) as PastAccess;
    actions.set(name, access);
    return access;
  };
  return {
    store,
    exists,
    types: values.types,
    async intentOf({ row, place }) {
      values.seen(row);
      const action = actionNameOf(context, row);
      const access = actions.get(action) ?? define(action);
      if (fields.length === 0) {
        const column = keyColumnOf(context, row);
        parts = [values.part(row, column, place)];
        // As nt.once() has it: the parts are all there is, and the input is undefined.
        return { action, intent: await access.intentOf(undefined, {}), columns: [...actionColumn, column] };
      }
      const input = Object.fromEntries(fields.map((field) => [field, values.part(row, field, place)]));
      return { action, intent: await access.intentOf(input, {}), columns: [...actionColumn, ...fields] };
    },
    async intentOfReading({ action, parts, input, as, agent }) {
      const access = actions.get(action) ?? define(action);
      return access.intentOfParts(parts, as === "done" ? undefined : input, agent === undefined ? {} : { agent });
    },
    checkTypes: () => values.checkTypes(source),
    close: () => nt.close(),
  };
}

function keyColumnOf({ args }: Context, row: Row): string {
  const column = args.text("key") ?? KEY_COLUMNS.find((name) => Object.hasOwn(row, name));
  if (column !== undefined) return column;
  throw new UsageError(
    `no column is named ${KEY_COLUMNS.join(" or ")}. ${columnsOf(row)} Name the one with your key: --key <column>, or --fields <columns>.`,
  );
}

/** With the program's actions: key, schema, secret and encryption are theirs, and so is the ledger. */
async function moduleTarget(
  context: Context,
  values: Values,
  { file, source, preset }: { readonly file: string; readonly source: string; readonly preset: Preset | null },
): Promise<Target> {
  const { args, io } = context;
  const own = ["store", "secret-env", "encrypt-env", ...(preset === null ? ["key"] : [])];
  const taken = own.find((flag) => args.on(flag));
  if (taken !== undefined)
    throw new UsageError(
      `--${taken} and --actions do not go together: the module's own nevertwice() and its actions say it.`,
    );
  const { actions, owner } = await loadActions(file, io.cwd);
  const known = new Map<string, ModuleAction>();
  const find = (name: string) => {
    const action = actions.find(({ actionName }) => actionName === name);
    if (action !== undefined) return action;
    throw new UsageError(
      `${file} exports no action named ${JSON.stringify(oneLine(name))}; it has: ${actions.map(({ actionName }) => oneLine(actionName)).join(", ")}.`,
    );
  };
  const open = (name: string): ModuleAction => {
    const opened = new ModuleAction(find(name), values, args.list("fields"));
    known.set(name, opened);
    return opened;
  };
  const tenant = args.text("tenant");
  const options = tenant === undefined ? {} : { tenant };
  return {
    store: owner.store,
    exists: !args.on("dry-run") || isThere(owner, context),
    types: values.types,
    async intentOf(placed) {
      values.seen(placed.row);
      const action = actionNameOf(context, placed.row);
      const opened = known.get(action) ?? open(action);
      const intent = await opened.intentOf(placed, options);
      return { action, intent, columns: [...args.all("action-column"), ...opened.fields] };
    },
    async intentOfReading({ action, parts, input, as, agent }) {
      const named = agent === undefined ? options : { ...options, agent };
      const access = moduleAccess(find(action));
      const { keyFields } = access;
      const isOldKey = keyFields?.length === 1 && input?.[keyFields[0] as string] === parts[0];
      // Of an outbox row the whole input is known: the action itself says its key, and its schema whether a worker can run it.
      if (input !== undefined && !(as === "done" && isOldKey)) return access.intentOf(input, named);
      requireOnePart(access, action);
      return access.intentOfParts(parts, undefined, named);
    },
    checkTypes: () => values.checkTypes(source),
    close: () => owner.close(),
  };
}

function moduleAccess(action: { readonly actionName: string }): PastAccess {
  const access = accessOf(action);
  if (typeof access?.intentOfParts === "function") return access;
  throw new UsageError(
    `the action ${oneLine(action.actionName)} was made by another release of nevertwice than this command. Run the command of that release: npx nevertwice, in the module's folder.`,
  );
}

/** The rows have one column with the whole key: an action whose key is several fields would never ask for it. */
function requireOnePart({ keyFields }: PastAccess, action: string): void {
  if (keyFields === null || keyFields.length === 1) return;
  throw new UsageError(
    `the key of ${oneLine(action)} is ${keyFields.length} fields (${keyFields.map(oneLine).join(", ")}), and the rows have your old key in one column: its calls would not find them. Give it the old key as its one part: key: (input) => [oldKey(input)].`,
  );
}

class ModuleAction {
  readonly #access: PastAccess;
  readonly #values: Values;
  readonly fields: readonly string[];
  readonly #types: SchemaTypes | null;
  /** Whether the fields are the schema's: a file need not have all of them. */
  readonly #bySchema: boolean;

  constructor(action: { readonly actionName: string }, values: Values, given: readonly string[]) {
    const access = moduleAccess(action);
    const { schema } = access;
    const fields = given.length > 0 ? given : fieldsOf(schema);
    if (fields === null)
      throw new UsageError(
        `which columns are the input of ${oneLine(action.actionName)} cannot be read from its schema. Name them, for example: --fields lead_id,template.`,
      );
    this.#access = access;
    this.#values = values;
    this.fields = fields;
    this.#bySchema = given.length === 0;
    this.#types = schema === undefined ? null : new SchemaTypes(access, schema, values.guesses);
  }

  async intentOf({ row, place }: PlacedRow, options: { tenant?: string }): Promise<PastIntent> {
    const input: Record<string, unknown> = {};
    for (const field of this.fields) {
      if (this.#bySchema && !Object.hasOwn(row, field)) continue;
      const value = this.#values.read(row, field);
      if (value !== undefined) input[field] = value;
    }
    const open = this.fields.filter((field) => this.#values.isOpen(field, input[field]));
    if (this.#types !== null) return this.#access.intentOf(await this.#types.typed(input, open, place), options);
    for (const field of open) this.#values.guesses.note(field, input[field] as string, place);
    return this.#access.intentOf(input, options);
  }
}

/** A dry run makes no ledger: where its file is not there, nothing is read. */
function isThere({ store }: Nevertwice, { io }: Context): boolean {
  try {
    const file = ledgerFile(store.name, "--store", { ...io, uid: process.getuid?.() });
    return file === null || existsSync(file.path);
  } catch {
    return true;
  }
}
