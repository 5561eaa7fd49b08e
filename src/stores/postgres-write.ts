/**
 * Compare-and-swap, one statement for a batch. A batch's statement is parsed and planned when it comes: what is null in
 * every new row, or as before in every settled one, is left out of it.
 */
import type { LedgerRecord } from "../core/record.ts";
import type { Put } from "../core/store.ts";
import { Parameters } from "./postgres-arrays.ts";
import { CLOCK } from "./postgres-migrate.ts";
import { FIXED, fixedValues, MOVING, movingValues, type Row, SETTLED, type SqlText, YOUNG_MS } from "./postgres-row.ts";

/** How a put is carried out: `settle` leaves alone what the row is known to hold. */
export type Way = "insert" | "settle" | "replace";

export interface PlannedPut {
  readonly put: Put;
  readonly way: Way;
  readonly hex: string;
  readonly rev: number;
  /** Of all but a settle, which names a few columns only. */
  readonly fixed: readonly SqlText[];
  readonly moving: readonly SqlText[];
  /** The record that the row holds, as far as MOVING goes; null where that is not known. */
  readonly before: LedgerRecord | null;
}

export interface PutFacts {
  readonly hex: string;
  readonly now: number;
  /** Known where all of FIXED is as before. */
  readonly before: LedgerRecord | null;
}

const NOTHING: readonly SqlText[] = [];

export function planPut(put: Put, { hex, now, before }: PutFacts): PlannedPut {
  const { record, expected } = put;
  const rev = expected === null ? firstRevision(now) : expected + 1;
  if (expected !== null && before !== null)
    return { put, way: "settle", hex, rev, fixed: NOTHING, moving: NOTHING, before };
  const way = expected === null ? "insert" : "replace";
  return { put, way, hex, rev, fixed: fixedValues(record, hex), moving: movingValues(record, rev, now), before };
}

/** One that no earlier row of this key can have had, also after a sweep: time in ms, times 4096, plus chance. */
function firstRevision(now: number): number {
  return Math.floor(now) * 4_096 + Math.floor(Math.random() * 4_096);
}

export interface Statement {
  readonly text: string;
  readonly values: readonly SqlText[];
}

export type Columns = readonly { readonly name: string; readonly type: string }[];

export const ALL: Columns = [...FIXED, ...MOVING];
// FIXED begins with what names a row.
const NAMING: Columns = FIXED.slice(0, 2);
export const REPLACED: Columns = [...FIXED.slice(2), ...MOVING];
const EXPECTED = { name: "expected", type: "bigint" };
// What a settle leaves behind is the revision it expects, plus one: nothing to send.
const NEXT_REV = "rev = r.rev + 1";

/** By the place of a column in ALL. */
export function insertValue({ fixed, moving }: PlannedPut, at: number): SqlText {
  return (at < FIXED.length ? fixed[at] : moving[at - FIXED.length]) as SqlText;
}

/** By the place of a column in REPLACED. */
export function replaceValue(put: PlannedPut, at: number): SqlText {
  return insertValue(put, at + NAMING.length);
}

/** The columns that differ from before in any of the rows. */
function changes(puts: readonly PlannedPut[], now: number): typeof SETTLED {
  const unsure = puts.some(({ put }) => isUnsure(put, now));
  return SETTLED.filter(({ name, differs }) => {
    if (unsure && isAttention(name)) return true;
    for (const { put, before } of puts) if (differs(before as LedgerRecord, put.record, now)) return true;
    return false;
  });
}

/** The sweep marks claims that are no longer young, behind our back: whether they want attention is not known. */
export function isUnsure({ record }: Put, now: number): boolean {
  return record.createdAt < now - YOUNG_MS;
}

/** Why the row wants attention, and since when. */
export function isAttention(column: string): boolean {
  return column === "attention" || column === "attention_at";
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
  const texts = changed.map(({ text }) => text);
  update("settled", settles, changed, ({ put }, at) => (texts[at] as (typeof texts)[number])(put.record, now));
  update("replaced", of("replace"), REPLACED, replaceValue);
  const size = parameters.add(String(puts.length));
  const won = `(${parts.map((part) => `SELECT key FROM ${part.split(" ")[0]}`).join(" UNION ALL ")}) won`;
  // Keys are gathered by a query of their own, which runs only where it is asked for: as an aggregate beside the count it
  // would be made for every batch.
  return {
    text: `WITH ${parts.join(", ")}
SELECT ${CLOCK} AS clock, count(*)::text AS c1, CASE WHEN count(*) < ${size}::bigint THEN (SELECT string_agg(encode(key, 'hex'), ',') FROM ${won}) END AS c2, pg_relation_size('${table.replaceAll("'", "''")}')::text AS c3 FROM ${won}`,
    values: parameters.values,
  };
}

type ValueOf = (put: PlannedPut, column: number) => SqlText;

function insertAll(table: string, parameters: Parameters, puts: readonly PlannedPut[]): string {
  const set: number[] = [];
  for (let at = 0; at < ALL.length; at += 1) if (isSet(puts, at)) set.push(at);
  const columns = set.map((at) => ALL[at] as Columns[number]);
  const source = parameters.rows(columns, puts.length, (row, column) =>
    insertValue(puts[row] as PlannedPut, set[column] as number),
  );
  const names = columns.map(({ name }) => name).join(", ");
  const values = columns.map(({ name }) => source.column(name)).join(", ");
  return `INSERT INTO ${table} AS r (${names}) SELECT ${values} FROM ${source.from} ON CONFLICT (key, tenant) DO NOTHING`;
}

function isSet(puts: readonly PlannedPut[], at: number): boolean {
  for (const put of puts) if (insertValue(put, at) !== null) return true;
  return false;
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
  const sent = [...columns.keys()].filter((at) => columns[at]?.name !== "rev");
  const given = sent.map((at) => columns[at] as Columns[number]);
  const { from, column } = parameters.rows([...FOUND_BY, ...given], puts.length, (row, at) => {
    const planned = puts[row] as PlannedPut;
    if (at === 0) return planned.hex;
    if (at === 1) return planned.put.record.tenant;
    return at === 2 ? String(planned.put.expected) : value(planned, sent[at - FOUND_BY.length] as number);
  });
  const set = [NEXT_REV, ...given.map(({ name }) => `${name} = ${column(name)}`)].join(", ");
  return `UPDATE ${table} r SET ${set} FROM ${from} WHERE r.key = ${column("key")} AND r.tenant = ${column("tenant")} AND r.rev = ${column("expected")}`;
}

/** Who won, by hexadecimal key; null: everybody. */
export function winners({ c1, c2 }: Row, size: number): ReadonlySet<string> | null {
  return Number(c1) === size ? null : new Set((c2 ?? "").split(","));
}
