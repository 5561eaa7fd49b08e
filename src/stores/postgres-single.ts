/**
 * A lone caller's write: a statement as one would write it by hand, no arrays and no join. Its text follows from which
 * columns are set and which of them to nothing; there are few such shapes, and each text is made once.
 */
import type { LedgerRecord } from "../core/record.ts";
import { FIXED, movingDiffers, movingText, type SqlText } from "./postgres-row.ts";
import {
  ALL,
  type Columns,
  insertValue,
  isAttention,
  isUnsure,
  type PlannedPut,
  REPLACED,
  replaceValue,
  SETTLED,
  type Statement,
  type Way,
} from "./postgres-write.ts";

// Texts that are kept; a program knows a dozen shapes.
const MOST_TEXTS = 200;

// What a shape, a number to the base of three, says of a column. Booleans stand in the text, since a driver that knows
// the type would take the text "f" for true: false counts as nothing, true as something.
const [LEFT_OUT, NOTHING, SOMETHING, STATES] = [0, 1, 2, 3];

// What an update finds its row by: the last of its parameters.
const FOUND_BY: Columns = [...FIXED.slice(0, 2), { name: "rev", type: "bigint" }];
const COLUMNS_OF: Record<Way, Columns> = { insert: ALL, settle: SETTLED, replace: REPLACED };

export class SingleWrites {
  readonly #table: string;
  readonly #texts: Record<Way, Map<number, string>> = { insert: new Map(), settle: new Map(), replace: new Map() };

  constructor(table: string) {
    this.#table = table;
  }

  statement(planned: PlannedPut, now: number): Statement {
    const { way, put, hex } = planned;
    const columns = COLUMNS_OF[way];
    const values: SqlText[] = [];
    let shape = 0;
    for (let at = 0; at < columns.length; at += 1) {
      const isLeft = way === "settle" && isLeftAlone(planned, at, now);
      const text = isLeft ? null : textAt(planned, at, now);
      let state = text === null ? NOTHING : SOMETHING;
      if (isLeft || (way === "insert" && text === null)) state = LEFT_OUT;
      else if (columns[at]?.type === "boolean") state = text === "t" ? SOMETHING : NOTHING;
      else if (text !== null) values.push(text);
      shape = shape * STATES + state;
    }
    if (way !== "insert") values.push(hex, put.record.tenant, String(put.expected));
    return { text: this.#textOf(way, shape), values };
  }

  #textOf(way: Way, shape: number): string {
    const texts = this.#texts[way];
    let text = texts.get(shape);
    if (text === undefined) {
      text = way === "insert" ? insertText(this.#table, shape) : updateText(this.#table, COLUMNS_OF[way], shape);
      if (texts.size < MOST_TEXTS) texts.set(shape, text);
    }
    return text;
  }
}

function textAt(planned: PlannedPut, at: number, now: number): SqlText {
  if (planned.way === "settle") return movingText(settledName(at), planned.put.record, now);
  return planned.way === "insert" ? insertValue(planned, at) : replaceValue(planned, at);
}

/** The row holds it already. */
function isLeftAlone({ put, before }: PlannedPut, at: number, now: number): boolean {
  const name = settledName(at);
  if (isAttention(name) && isUnsure(put, now)) return false;
  return !movingDiffers(name, before as LedgerRecord, put.record, now);
}

function settledName(at: number) {
  return (SETTLED[at] as (typeof SETTLED)[number]).name;
}

interface Assignments {
  readonly names: readonly string[];
  readonly values: readonly string[];
  readonly parameters: number;
}

/** The columns that a shape names, what each is set to, and how many parameters that takes. */
function assignments(columns: Columns, shape: number): Assignments {
  const states = shape.toString(STATES).padStart(columns.length, "0");
  const [names, values]: [string[], string[]] = [[], []];
  let parameters = 0;
  for (const [at, { name, type }] of columns.entries()) {
    const state = Number(states[at]);
    if (state === LEFT_OUT) continue;
    names.push(name);
    if (type === "boolean") values.push(state === SOMETHING ? "true" : "false");
    else if (state === NOTHING) values.push("NULL");
    else {
      parameters += 1;
      values.push(parameter(parameters, type));
    }
  }
  return { names, values, parameters };
}

function parameter(number: number, type: string): string {
  if (type === "bytea") return `decode($${number}::text, 'hex')`;
  return type === "text" ? `$${number}::text` : `$${number}::text::${type}`;
}

function insertText(table: string, shape: number): string {
  const { names, values } = assignments(ALL, shape);
  return `INSERT INTO ${table} (${names.join(", ")}) VALUES (${values.join(", ")}) ON CONFLICT (key, tenant) DO NOTHING`;
}

function updateText(table: string, columns: Columns, shape: number): string {
  const { names, values, parameters } = assignments(columns, shape);
  const assigned = names.map((name, at) => `${name} = ${values[at]}`);
  const set = (columns === SETTLED ? ["rev = rev + 1", ...assigned] : assigned).join(", ");
  const found = FOUND_BY.map(({ name, type }, at) => `${name} = ${parameter(parameters + 1 + at, type)}`).join(" AND ");
  return `UPDATE ${table} SET ${set} WHERE ${found}`;
}
