import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { askAround, isDamagedRecord } from "../../core/damaged-record.ts";
import { type Duration, durationMs } from "../../core/duration.ts";
import { isNevertwiceError, messageOf } from "../../core/errors.ts";
import { printInput, toFingerprint } from "../../core/fingerprint.ts";
import { DEEPEST_JSON, isTooDeep } from "../../core/foreign-json.ts";
import { deriveKey } from "../../core/key.ts";
import { expired, type LedgerRecord, type Payload, type State } from "../../core/record.ts";
import { sealer } from "../../core/seal.ts";
import { storableText } from "../../core/storable-text.ts";
import { instantOf, type Store } from "../../core/store.ts";
import { type LedgerEvent, transition } from "../../core/transition.ts";
import type { Command, Context } from "../command.ts";
import { EXIT, UsageError } from "../exit.ts";
import { plural } from "../format.ts";
import { type PlacedRow, type Row, rowsOf } from "../import-rows.ts";
import { openLedger } from "../ledger.ts";
import { endProgress, showProgress } from "../progress.ts";
import { encryptOf, secretOf } from "../secret-flags.ts";
import { oneLine } from "../text.ts";

export const importLedger: Command = {
  name: "import",
  summary: "bring a ledger of your own in: JSON lines, JSON or CSV",
  usage: [
    "<file> --action <name> [--key <column>] [flags]",
    "<file> --action <name> --fields <columns> [flags]",
    "<file> --action-column <column> [flags]",
  ],
  about:
    "For what was guarded by hand before: a JSONL file with a line per action, or a table exported as CSV or JSON. Each row becomes a record, so that nevertwice does not do again what is done.\nWith --key (or a column called idempotency_key, key or event_id) a row guards nt.once(action, [key], …). With --fields it guards an action whose key is those fields.\nDone, sent, completed and the like become confirmed, with the row's result; failed becomes failed; in_progress, pending and the like may have happened and become unknown, for you to settle. A row without a status is done. The last row of a key counts. Importing twice changes nothing.",
  flags: {
    action: { takes: "value", value: "name", about: "the action the rows belong to" },
    "action-column": { takes: "value", value: "column", about: "or the column that says so: action_type" },
    key: { takes: "value", value: "column", about: "the column that held your key" },
    fields: { takes: "values", value: "columns", about: "instead: the fields that are the action's key, with commas" },
    "status-column": { takes: "value", value: "column", about: "status unless given" },
    keep: { takes: "value", value: "duration", about: "how long the records guard: forever unless given" },
    "secret-env": { takes: "value", value: "variable", about: "the environment variable with nevertwice({ secret })" },
    "encrypt-env": {
      takes: "value",
      value: "variable",
      about: "the environment variable with nevertwice({ encrypt }): a key, or several with commas, the newest first",
    },
    "dry-run": { takes: "nothing", about: "say what would be imported, and write nothing" },
  },
  operands: 1,
  examples: [
    ["import action-ledger.jsonl --action publish_blog_post", "a ledger of lines with key, ts and status"],
    ["import agent_actions.csv --action-column action_type", "a table with idempotency_key and action_type"],
    ["import sends.csv --action send_followup --fields lead_id,template,day", "a table whose columns are the key"],
  ],
  run,
};

/** What a row's status says about its effect. */
const STATUSES: ReadonlyMap<string, "done" | "failed" | "doubt"> = new Map([
  ...words(
    "done completed complete sent success succeeded processed confirmed delivered published ok true t 1",
    "done",
  ),
  ...words("failed failure error dead cancelled canceled", "failed"),
  ...words(
    "in_progress in-progress pending claimed processing running sending started in_flight queued false f 0",
    "doubt",
  ),
]);

function words(list: string, meaning: "done" | "failed" | "doubt"): [string, "done" | "failed" | "doubt"][] {
  return list.split(" ").map((word) => [word, meaning]);
}

const KEY_COLUMNS = ["idempotency_key", "key", "event_id"];
const TIME_COLUMNS = [
  "completed_at",
  "processed_at",
  "finished_at",
  "ts",
  "updated_at",
  "created_at",
  "started_at",
  "started",
];
const BATCH = 200;
const FIRST_FENCE = 1;

interface Plan {
  readonly record: LedgerRecord;
  readonly as: State;
}

interface Counts {
  imported: number;
  known: number;
  past: number;
  /** There, and cannot be read. */
  damaged: number;
  states: Record<string, number>;
}

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const [file] = args.operands;
  if (file === undefined) throw new UsageError("import needs a file: nevertwice import ledger.jsonl --action publish");
  const rows = rowsOf(readText(resolve(io.cwd, file), file), file);
  const store = openLedger(args.text("store"), io);
  try {
    const plans = lastOfEach(rows.map((row) => planned(context, row, file, store)));
    const counts = await write(context, plans, store);
    if (args.on("json")) context.json({ file, rows: rows.length, dryRun: args.on("dry-run"), ...counts });
    else tell(context, counts, rows.length);
    return EXIT.ok;
  } finally {
    await store.close();
  }
}

function readText(path: string, file: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function planned(context: Context, { place, row }: PlacedRow, file: string, store: Store): Plan {
  try {
    return recordOf(context, row, store);
  } catch (error) {
    if (!(error instanceof UsageError) && !isNevertwiceError(error)) throw error;
    throw new UsageError(`${file}, row ${place}: ${error.message} Nothing was imported.`, { cause: error });
  }
}

function recordOf(context: Context, row: Row, store: Store): Plan {
  const { args } = context;
  const action = actionOf(context, row);
  const { parts, input } = intentOf(context, row);
  const secret = secretOf(context);
  const keys = encryptOf(context);
  const seals = keys === undefined ? null : sealer(keys);
  const tenant = args.text("tenant") ?? "";
  const { steady, epoch, now } = instantOf(store);
  const at = { now: timeOf(row) ?? now, steady, epoch };
  const payload: Payload | null = input === undefined ? null : { json: JSON.stringify(input) };
  const key = deriveKey({ tenant, action, version: 1, scope: null, parts, secret });
  const keyed = seals === null ? undefined : { keys: seals.digestKeys, intent: key };
  const sealed = (plain: Payload | null, field: "input" | "result") =>
    plain === null || seals === null ? plain : seals.seal(plain, { tenant, key, field, fence: FIRST_FENCE });
  const intent = {
    key,
    tenant,
    action,
    version: 1,
    scope: null,
    fingerprint: toFingerprint(printInput(input, [], secret, keyed)),
    input: sealed(payload, "input"),
    keepMs: keepOf(args.text("keep")),
  };
  const claim = { type: "claim", intent, to: "sent", holder: "import", leaseMs: 0, newRound: true } as const;
  const claimed = applied(null, claim, at);
  const hold = { fence: claimed.fence, holder: "import" };
  const status = statusOf(context, row);
  const ends: Record<typeof status, LedgerEvent> = {
    done: { type: "confirm", hold, result: sealed(resultOf(row), "result") },
    failed: {
      type: "not-sent",
      hold,
      error: { name: "Imported", message: storableText(errorOf(row)) },
      retryAt: null,
      final: false,
    },
    doubt: { type: "doubt", hold, why: "imported while it was under way: it may have happened", error: null },
  };
  const record = applied(claimed, ends[status], at);
  return { record, as: record.state };
}

/** By the state machine itself: an imported record is one that the rules could have made. */
function applied(record: LedgerRecord | null, event: LedgerEvent, at: Parameters<typeof transition>[2]): LedgerRecord {
  const change = transition(record, event, at);
  if (change.ok) return change.record;
  throw new Error(`import: ${event.type} was refused: ${change.refusal}`);
}

function actionOf({ args }: Context, row: Row): string {
  const [name, column] = [args.text("action"), args.text("action-column")];
  if ((name === undefined) === (column === undefined))
    throw new UsageError(
      "import needs --action <name>, or --action-column <column> where the rows say it, one of the two.",
    );
  if (name !== undefined) return name;
  const value = row[column as string];
  if (typeof value === "string" && value.trim() !== "") return value;
  throw new UsageError(`the column ${oneLine(column as string)} is missing or blank.`);
}

function intentOf({ args }: Context, row: Row): { parts: unknown[]; input: Record<string, unknown> | undefined } {
  const fields = args.list("fields");
  if (fields.length > 0) {
    if (args.on("key"))
      throw new UsageError("--key and --fields are two ways to say what the key is. Give one of them.");
    const input = Object.fromEntries(fields.map((field) => [field, present(row, field)]));
    return { parts: Object.values(input), input };
  }
  const column = args.text("key") ?? KEY_COLUMNS.find((name) => name in row);
  if (column === undefined)
    throw new UsageError(
      `there is no column ${KEY_COLUMNS.join(", ")}. Name yours: --key <column>, or --fields <columns>.`,
    );
  return { parts: [present(row, column)], input: undefined };
}

function present(row: Row, column: string): unknown {
  const value = row[column];
  if (value !== undefined && value !== null && value !== "") return value;
  throw new UsageError(`the column ${oneLine(column)} is missing or blank, and it is part of the key.`);
}

function statusOf({ args }: Context, row: Row): "done" | "failed" | "doubt" {
  const column = args.text("status-column") ?? "status";
  const value = row[column];
  if (value === undefined && !args.on("status-column")) return "done";
  const known = STATUSES.get(String(value).trim().toLowerCase());
  if (known !== undefined) return known;
  throw new UsageError(
    `the ${oneLine(column)} ${JSON.stringify(value)} says nothing about whether it happened. Known are: ${[...STATUSES.keys()].join(", ")}.`,
  );
}

/** The result as it was kept; without a column of that name, the rest of the row. */
function resultOf(row: Row): Payload | null {
  if ("result" in row) {
    const { result } = row;
    if (result === null || result === "") return null;
    if (typeof result !== "string") return { json: JSON.stringify(result) };
    if (isTooDeep(result)) throw new UsageError(`the result is nested more than ${DEEPEST_JSON} levels deep.`);
    return { json: isJson(result) ? result : JSON.stringify(result) };
  }
  const { key: _key, status: _status, ts: _ts, idempotency_key: _other, ...rest } = row;
  return Object.keys(rest).length === 0 ? null : { json: JSON.stringify(rest) };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function errorOf(row: Row): string {
  const error = row.error ?? row.error_detail ?? row.error_message;
  return typeof error === "string" && error !== "" ? error : "it failed before it was imported";
}

function timeOf(row: Row): number | null {
  for (const column of TIME_COLUMNS) {
    const value = row[column];
    if (value === undefined || value === null || value === "") continue;
    const number = typeof value === "number" ? value : /^\d+(\.\d+)?$/.test(String(value)) ? Number(value) : null;
    // Seconds until the year 5138, milliseconds from 1973 on.
    const ms = number === null ? Date.parse(String(value)) : number < 1e11 ? number * 1_000 : number;
    if (Number.isFinite(ms)) return Math.round(ms);
    throw new UsageError(`the ${column} ${JSON.stringify(value)} is not a time.`);
  }
  return null;
}

function keepOf(keep: string | undefined): number | null {
  return keep === undefined || keep === "forever" ? null : durationMs(keep as Duration, "--keep");
}

/** A plain ledger has a line when it begins and a line when it ends. */
function lastOfEach(plans: readonly Plan[]): Plan[] {
  return [...new Map(plans.map((plan) => [plan.record.key, plan])).values()];
}

async function write({ args, io }: Context, plans: readonly Plan[], store: Store): Promise<Counts> {
  const counts: Counts = { imported: 0, known: 0, past: 0, damaged: 0, states: {} };
  const now = store.now();
  const live = plans.filter(({ record }) => !expired(record, now));
  counts.past = plans.length - live.length;
  for (let from = 0; from < live.length; from += BATCH) {
    const batch = live.slice(from, from + BATCH);
    // Looked at first: a batch with a damaged record in it would be written and refused at once.
    const keyOf = ({ record }: Plan) => record.key;
    const seen = await askAround(batch, keyOf, (some) => store.read(some.map(keyOf)));
    const sound = batch.filter((_, i) => !isDamagedRecord(seen[i]));
    counts.damaged += batch.length - sound.length;
    const results = args.on("dry-run")
      ? seen.filter((one) => !isDamagedRecord(one)).map((found) => ({ ok: found === null }))
      : await store.write(sound.map(({ record }) => ({ record, expected: null })));
    results.forEach(({ ok }, i) => {
      if (!ok) counts.known += 1;
      else {
        const { as } = sound[i] as Plan;
        counts.imported += 1;
        counts.states[as] = (counts.states[as] ?? 0) + 1;
      }
    });
    showProgress(io, `${from + batch.length} of ${live.length} …`);
  }
  endProgress(io);
  return counts;
}

function tell(context: Context, { imported, known, past, damaged, states }: Counts, rows: number): void {
  const dry = context.args.on("dry-run");
  const parts = Object.entries(states).map(([state, count]) => `${count} ${state}`);
  context.line(
    `${plural(rows, "row")}: ${plural(imported, "record")} ${dry ? "would be imported" : "imported"}${parts.length === 0 ? "" : ` (${parts.join(", ")})`}.`,
  );
  if (known > 0)
    context.line(
      `${plural(known, "record was", "records were")} there already, and ${known === 1 ? "stays" : "stay"} as ${known === 1 ? "it is" : "they are"}.`,
    );
  if (damaged > 0)
    context.line(
      `${plural(damaged, "record is", "records are")} there and cannot be read: left as ${damaged === 1 ? "it is" : "they are"}. See: ${context.suggest("doctor")}`,
    );
  if (past > 0) context.line(`${plural(past, "row is", "rows are")} past --keep: left out.`);
  if ((states.unknown ?? 0) > 0 && !dry)
    context.line(`\nSettle what may have happened:\n  ${context.suggest("ls --doubt")}`);
}
