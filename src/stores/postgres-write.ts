/**
 * Compare-and-swap, one statement for a batch. A batch's statement is parsed and planned when it comes: what is null in
 * every new row, or as before in every settled one, is left out of it.
 */
import type { Put } from "../core/store.ts";
import { Parameters } from "./postgres-arrays.ts";
import { CLOCK } from "./postgres-migrate.ts";
import { FIXED, fixedValues, MOVING, movingValues, type Row, type SqlText, YOUNG_MS } from "./postgres-row.ts";

/** How a put is carried out: `settle` leaves alone what the row is known to hold. */
type Way = "insert" | "settle" | "replace";

export interface PlannedPut {
  readonly put: Put;
  readonly way: Way;
  readonly hex: string;
  readonly rev: number;
  readonly fixed: readonly SqlText[];
  readonly moving: readonly SqlText[];
  /** What the row held of MOVING before; null where that is not known. */
  readonly before: readonly SqlText[] | null;
}

export interface PutFacts {
  readonly hex: string;
  readonly now: number;
  /** Known where all of FIXED is as before. */
  readonly before: readonly SqlText[] | null;
}

export function planPut(put: Put, { hex, now, before }: PutFacts): PlannedPut {
  const { record, expected } = put;
  const way = expected === null ? "insert" : before === null ? "replace" : "settle";
  const rev = expected === null ? firstRevision(now) : expected + 1;
  const fixed = way === "settle" ? [] : fixedValues(record, hex);
  return { put, way, hex, rev, fixed, moving: movingValues(record, rev, now), before };
}

/** One that no earlier row of this key can have had, also after a sweep: time in ms, times 4096, plus chance. */
function firstRevision(now: number): number {
  return Math.floor(now) * 4_096 + Math.floor(Math.random() * 4_096);
}

export interface Statement {
  readonly text: string;
  readonly values: readonly SqlText[];
}

type Columns = readonly { readonly name: string; readonly type: string }[];

const ALL: Columns = [...FIXED, ...MOVING];
// FIXED begins with what names a row.
const NAMING: Columns = FIXED.slice(0, 2);
const REPLACED: Columns = [...FIXED.slice(2), ...MOVING];
const EXPECTED = { name: "expected", type: "bigint" };
const ATTENTION = MOVING.findIndex(({ name }) => name === "attention");

/** By the place of a column in ALL. */
function insertValue({ fixed, moving }: PlannedPut, at: number): SqlText {
  return (at < FIXED.length ? fixed[at] : moving[at - FIXED.length]) as SqlText;
}

/** By the place of a column in REPLACED. */
function replaceValue(put: PlannedPut, at: number): SqlText {
  return insertValue(put, at + NAMING.length);
}

/** The columns of MOVING that differ from before in any of the rows. */
function changes(puts: readonly PlannedPut[], now: number): number[] {
  const changed: number[] = [];
  for (let at = 0; at < MOVING.length; at += 1) {
    const differs = puts.some(({ moving, before }) => moving[at] !== before?.[at]);
    // The sweep marks claims that are no longer young, behind our back.
    const unsure =
      (at === ATTENTION || at === ATTENTION + 1) && puts.some(({ put }) => put.record.createdAt < now - YOUNG_MS);
    if (differs || unsure) changed.push(at);
  }
  return changed;
}

/** Booleans stand in the text: a driver that knows the type would take the text "f" for true. */
function value(parameters: Parameters, type: string, text: SqlText): string {
  if (text === null) return "NULL";
  if (type === "boolean") return text === "t" ? "true" : "false";
  const parameter = parameters.add(text);
  if (type === "bytea") return `decode(${parameter}, 'hex')`;
  return type === "text" ? parameter : `${parameter}::${type}`;
}

/** A lone caller pays for a statement as one would write it by hand: no arrays, no join, one of a few texts. */
export function singleWrite(table: string, planned: PlannedPut, now: number): Statement {
  const parameters = new Parameters();
  if (planned.way === "insert") {
    const set = [...ALL.keys()].filter((at) => insertValue(planned, at) !== null);
    const values = set.map((at) => value(parameters, ALL[at]?.type as string, insertValue(planned, at)));
    return {
      text: `INSERT INTO ${table} (${set.map((at) => ALL[at]?.name).join(", ")}) VALUES (${values.join(", ")}) ON CONFLICT (key, tenant) DO NOTHING`,
      values: parameters.values,
    };
  }
  const { put, hex, way } = planned;
  const columns: Columns = way === "settle" ? MOVING : REPLACED;
  const set = way === "settle" ? changes([planned], now) : [...columns.keys()];
  const assign = set.map((at) => {
    const { name, type } = columns[at] as Columns[number];
    const text = way === "settle" ? (planned.moving[at] as SqlText) : replaceValue(planned, at);
    return `${name} = ${value(parameters, type, text)}`;
  });
  const [key, tenant, rev] = [
    value(parameters, "bytea", hex),
    value(parameters, "text", put.record.tenant),
    value(parameters, "bigint", String(put.expected)),
  ];
  return {
    text: `UPDATE ${table} SET ${assign.join(", ")} WHERE key = ${key} AND tenant = ${tenant} AND rev = ${rev}`,
    values: parameters.values,
  };
}

/** The same, with the server's clock on the way back. */
export function timed({ text, values }: Statement): Statement {
  return { text: `${text} RETURNING ${CLOCK} AS clock`, values };
}

/**
 * The batch comes sorted by key, and rows are locked in that order: first the new ones, then the existing ones, so that
 * two batches never wait for each other in a circle. It answers with the keys that won only where not all did, and with
 * the table's size. One text for batches of all sizes: it is prepared.
 */
export function batchWrite(table: string, puts: readonly PlannedPut[], now: number): Statement {
  const parameters = new Parameters();
  const of = (way: Way) => puts.filter((put) => put.way === way);
  const parts: string[] = [];
  const inserts = of("insert");
  if (inserts.length > 0) parts.push(`inserted AS (${insertAll(table, parameters, inserts)} RETURNING r.key)`);
  const update = (name: string, rows: readonly PlannedPut[], columns: Columns, value: ValueOf) => {
    if (rows.length === 0) return;
    const after = parts.length === 0 ? "" : ` AND (SELECT count(*) FROM ${parts.at(-1)?.split(" ")[0]}) >= 0`;
    parts.push(`${name} AS (${updateAll(table, parameters, rows, columns, value)}${after} RETURNING r.key)`);
  };
  const settles = of("settle");
  const changed = changes(settles, now);
  update(
    "settled",
    settles,
    changed.map((at) => MOVING[at] as Columns[number]),
    ({ moving }, at) => moving[changed[at] as number] as SqlText,
  );
  update("replaced", of("replace"), REPLACED, replaceValue);
  const size = parameters.add(String(puts.length));
  const all = parts.map((part) => `SELECT key FROM ${part.split(" ")[0]}`).join(" UNION ALL ");
  return {
    text: `WITH ${parts.join(", ")}, won AS (${all})
SELECT ${CLOCK} AS clock, count(*)::text AS c1, CASE WHEN count(*) < ${size}::bigint THEN string_agg(encode(key, 'hex'), ',') END AS c2, pg_relation_size('${table.replaceAll("'", "''")}')::text AS c3 FROM won`,
    values: parameters.values,
  };
}

type ValueOf = (put: PlannedPut, column: number) => SqlText;

function insertAll(table: string, parameters: Parameters, puts: readonly PlannedPut[]): string {
  const set: number[] = [];
  for (let at = 0; at < ALL.length; at += 1) if (puts.some((put) => insertValue(put, at) !== null)) set.push(at);
  const columns = set.map((at) => ALL[at] as Columns[number]);
  const source = parameters.rows(columns, puts.length, (row, column) =>
    insertValue(puts[row] as PlannedPut, set[column] as number),
  );
  const names = columns.map(({ name }) => name).join(", ");
  const values = columns.map(({ name }) => source.column(name)).join(", ");
  return `INSERT INTO ${table} AS r (${names}) SELECT ${values} FROM ${source.from} ON CONFLICT (key, tenant) DO NOTHING`;
}

// What an update finds its row by, before what it sets.
const FOUND_BY: Columns = [...NAMING, EXPECTED];

function updateAll(
  table: string,
  parameters: Parameters,
  puts: readonly PlannedPut[],
  columns: Columns,
  value: ValueOf,
): string {
  const { from, column } = parameters.rows([...FOUND_BY, ...columns], puts.length, (row, at) => {
    const planned = puts[row] as PlannedPut;
    if (at === 0) return planned.hex;
    if (at === 1) return planned.put.record.tenant;
    return at === 2 ? String(planned.put.expected) : value(planned, at - FOUND_BY.length);
  });
  const set = columns.map(({ name }) => `${name} = ${column(name)}`).join(", ");
  return `UPDATE ${table} r SET ${set} FROM ${from} WHERE r.key = i.key AND r.tenant = ${column("tenant")} AND r.rev = ${column("expected")}`;
}

/** Who won, by hexadecimal key; null: everybody. */
export function winners({ c1, c2 }: Row, size: number): ReadonlySet<string> | null {
  return Number(c1) === size ? null : new Set((c2 ?? "").split(","));
}
