/**
 * A lone caller's write: a statement as one would write it by hand, no arrays and no join. Its text follows from how each
 * column is said; there are few such shapes, and each text is made once.
 *
 * What is as usual stands in the text, and a first claim has one time for four columns: half of its nineteen columns
 * need no parameter, and each costs a microsecond between here and there.
 */
import { type LedgerRecord, STATES } from "../../../core/record.ts";
import { COLUMNS, FIXED, SAME_MARK, SETTLED, type SqlText } from "./row.ts";
import { quoteText } from "./schema.ts";
import {
  type Columns,
  isAttention,
  isUnsure,
  type PlannedPut,
  REPLACED_FROM,
  type Statement,
  textAt,
  type Way,
} from "./write.ts";

// Texts that are kept; a program knows a dozen shapes.
const MOST_TEXTS = 200;

// How a column is said: not at all, as NULL, by a parameter, as usual, by the parameter of the creation; and from there
// on, the state by its name. Booleans stand in the text too, since a driver that knows the type would take "f" for true.
const [LEFT_OUT, NOTHING, GIVEN, USUAL, AS_CREATED, STATE] = [0, 1, 2, 3, 4, 5];
// A shape is a number to this base, a digit for each column: in two halves, which are exact.
const BASE = STATE + STATES.length;
const HALF = 15;

const USUALLY: Readonly<Record<string, string>> = {
  tenant: "",
  attempt: "1",
  fence: "1",
  tries: "1",
  sent_mark: SAME_MARK,
};
const OFTEN_THE_CREATION = ["updated_at", "first_sent_at", "last_sent_at"];
const CREATED_AT = COLUMNS.findIndex(({ name }) => name === "created_at");

// What an update finds its row by: the last of its parameters.
const FOUND_BY: Columns = [...FIXED.slice(0, 2), { name: "rev", type: "bigint" }];

/** How the columns of a statement may be said, by their places. */
interface Sayings {
  readonly columns: Columns;
  readonly isBoolean: readonly boolean[];
  readonly usually: readonly (string | undefined)[];
  readonly isState: readonly boolean[];
  readonly mayBeCreation: readonly boolean[];
}

const SAYINGS: Record<Way, Sayings> = {
  insert: sayings(COLUMNS, true),
  settle: sayings(SETTLED, false),
  replace: sayings(COLUMNS.slice(REPLACED_FROM), false),
};

function sayings(columns: Columns, withCreation: boolean): Sayings {
  return {
    columns,
    isBoolean: columns.map(({ type }) => type === "boolean"),
    usually: columns.map(({ name }) => USUALLY[name]),
    isState: columns.map(({ name }) => name === "state"),
    mayBeCreation: columns.map(({ name }) => withCreation && OFTEN_THE_CREATION.includes(name)),
  };
}

interface Dialect {
  readonly table: string;
  /** What makes of a parameter the text that it is; a microsecond each, where a client need not be told. */
  readonly cast: "" | "::text";
}

export class SingleWrites {
  readonly #dialect: Dialect;
  readonly #texts: Record<Way, Map<number, Map<number, string>>> = {
    insert: new Map(),
    settle: new Map(),
    replace: new Map(),
  };

  /** `typed`: the client sends texts as they are, whatever the type of a parameter. */
  constructor(table: string, { typed = false } = {}) {
    this.#dialect = { table, cast: typed ? "" : "::text" };
  }

  statement(planned: PlannedPut, now: number): Statement {
    const { way, put, hex } = planned;
    const said = SAYINGS[way];
    const size = said.columns.length;
    const created = way === "insert" ? textAt(CREATED_AT, planned, now) : null;
    const values: SqlText[] = [];
    let [head, tail] = [0, 0];
    for (let at = 0; at < size; at += 1) {
      const isLeft = way === "settle" && isLeftAlone(planned, at, now);
      const text = isLeft ? null : textOf(planned, at, now);
      const how = isLeft || (way === "insert" && text === null) ? LEFT_OUT : howSaid(said, at, text, created);
      if (how === GIVEN) values.push(text);
      if (at < HALF) head = head * BASE + how;
      else tail = tail * BASE + how;
    }
    if (way !== "insert") {
      const { tenant } = put.record;
      tail = tail * BASE + (tenant === USUALLY.tenant ? USUAL : GIVEN);
      values.push(hex);
      if (tenant !== USUALLY.tenant) values.push(tenant);
      values.push(String(put.expected));
    }
    return { text: this.#textOf(way, head, tail), values };
  }

  #textOf(way: Way, head: number, tail: number): string {
    const alike = this.#texts[way].get(head);
    const known = alike?.get(tail);
    if (known !== undefined) return known;
    const text = way === "insert" ? insertText(this.#dialect, head, tail) : updateText(this.#dialect, way, head, tail);
    const kept = alike ?? new Map<number, string>();
    if (alike === undefined && this.#texts[way].size < MOST_TEXTS) this.#texts[way].set(head, kept);
    if (kept.size < MOST_TEXTS) kept.set(tail, text);
    return text;
  }
}

function howSaid(said: Sayings, at: number, text: SqlText, created: SqlText): number {
  if (said.isBoolean[at]) return text === "t" ? USUAL : NOTHING;
  if (text === null) return NOTHING;
  if (said.isState[at]) return STATE + STATES.indexOf(text as LedgerRecord["state"]);
  if (text === said.usually[at]) return USUAL;
  return said.mayBeCreation[at] && text === created ? AS_CREATED : GIVEN;
}

/** By the place of a column among those of its way. */
function textOf(planned: PlannedPut, at: number, now: number): SqlText {
  if (planned.way === "settle") return settledAt(at).text(planned.put.record, now);
  return textAt(planned.way === "insert" ? at : at + REPLACED_FROM, planned, now);
}

/** The row holds it already. */
function isLeftAlone({ put, before }: PlannedPut, at: number, now: number): boolean {
  const { name, differs } = settledAt(at);
  if (isAttention(name) && isUnsure(put, now)) return false;
  return !differs(before as LedgerRecord, put.record, now);
}

function settledAt(at: number) {
  return SETTLED[at] as (typeof SETTLED)[number];
}

/** The digits of a shape, one for each of `size` columns. */
function digits(size: number, head: number, tail: number): number[] {
  const first = Math.min(size, HALF);
  return [...digitsOf(head, first), ...digitsOf(tail, size - first)];
}

function digitsOf(number: number, size: number): number[] {
  const found: number[] = [];
  for (let rest = number, left = size; left > 0; left -= 1) {
    found.unshift(rest % BASE);
    rest = Math.floor(rest / BASE);
  }
  return found;
}

interface Assignments {
  readonly names: readonly string[];
  readonly values: readonly string[];
  readonly parameters: number;
}

/** The columns that a shape names, what each is set to, and how many parameters that takes. */
function assignments(columns: Columns, hows: readonly number[], cast: Dialect["cast"]): Assignments {
  const [names, values]: [string[], string[]] = [[], []];
  let parameters = 0;
  let created = 0;
  for (const [at, { name, type }] of columns.entries()) {
    const how = hows[at] as number;
    if (how === LEFT_OUT) continue;
    names.push(name);
    if (how === GIVEN) {
      parameters += 1;
      if (name === "created_at") created = parameters;
    }
    values.push(isGiven(how) ? parameter(how === GIVEN ? parameters : created, type, cast) : constant(how, name, type));
  }
  return { names, values, parameters };
}

function isGiven(how: number): boolean {
  return how === GIVEN || how === AS_CREATED;
}

function constant(how: number, name: string, type: string): string {
  if (type === "boolean") return how === USUAL ? "true" : "false";
  if (how === NOTHING) return "NULL";
  return how === USUAL ? usualText(name, type) : quoteText(STATES[how - STATE] as string);
}

function usualText(name: string, type: string): string {
  const text = USUALLY[name] as string;
  return type === "text" ? quoteText(text) : text;
}

function parameter(number: number, type: string, cast: Dialect["cast"]): string {
  if (type === "bytea") return `decode($${number}::text, 'hex')`;
  return type === "text" ? `$${number}::text` : `$${number}${cast}::${type}`;
}

function insertText({ table, cast }: Dialect, head: number, tail: number): string {
  const { names, values } = assignments(COLUMNS, digits(COLUMNS.length, head, tail), cast);
  return `INSERT INTO ${table} (${names.join(", ")}) VALUES (${values.join(", ")}) ON CONFLICT (key, tenant) DO NOTHING`;
}

function updateText({ table, cast }: Dialect, way: Way, head: number, tail: number): string {
  const { columns } = SAYINGS[way];
  // Behind the columns, how the tenant is said.
  const hows = digits(columns.length + 1, head, tail);
  const { names, values, parameters } = assignments(columns, hows, cast);
  const assigned = names.map((name, at) => `${name} = ${values[at]}`);
  const set = (way === "settle" ? ["rev = rev + 1", ...assigned] : assigned).join(", ");
  let number = parameters;
  const found = FOUND_BY.map(({ name, type }) => {
    if (name === "tenant" && hows[columns.length] === USUAL) return `${name} = ${usualText(name, type)}`;
    number += 1;
    return `${name} = ${parameter(number, type, cast)}`;
  });
  return `UPDATE ${table} SET ${set} WHERE ${found.join(" AND ")}`;
}
