/**
 * Compare-and-swap, one statement for a batch. A batch's statement is parsed and planned when it comes: what is null in
 * every new row, or as before in every settled one, is left out of it.
 */
import type { LedgerRecord } from "../../../core/record.ts";
import type { Put } from "../../../core/store.ts";
import { CLOCK } from "../migrate.ts";
import { type GivenColumn, ofNumbers, ofOne, ofTexts, Parameters } from "./arrays.ts";
import {
  COLUMNS,
  FIXED,
  type NumberOf,
  type RecordColumn,
  type Row,
  SETTLED,
  type SqlText,
  WRITTEN,
  YOUNG_MS,
} from "./row.ts";

/** How a put is carried out: `settle` leaves alone what the row is known to hold. */
export type Way = "insert" | "settle" | "replace";

export interface PlannedPut {
  readonly put: Put;
  readonly way: Way;
  readonly hex: string;
  readonly rev: number;
  /** The record that the row holds, as far as MOVING goes; null where that is not known. */
  readonly before: LedgerRecord | null;
}

export interface PutFacts {
  readonly hex: string;
  readonly now: number;
  /** Known where all of FIXED is as before. */
  readonly before: LedgerRecord | null;
}

export function planPut(put: Put, { hex, now, before }: PutFacts): PlannedPut {
  const { expected } = put;
  if (expected === null) return { put, way: "insert", hex, rev: firstRevision(now), before };
  return { put, way: before === null ? "replace" : "settle", hex, rev: expected + 1, before };
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

// COLUMNS begins with what names a row.
const NAMING: Columns = COLUMNS.slice(0, 2);
const [KEY_AT, TENANT_AT, REV_AT] = [0, 1, FIXED.length];
/** Where in COLUMNS that begins which a replacement sets. */
export const REPLACED_FROM = NAMING.length;
const EXPECTED = { name: "expected", type: "bigint" };
// What a settle leaves behind is the revision it expects, plus one: nothing to send.
const NEXT_REV = "rev = r.rev + 1";

/** By the place of a column in COLUMNS. */
export function textAt(at: number, { put, hex, rev }: PlannedPut, now: number): SqlText {
  const column = WRITTEN[at];
  if (column) return column.text(put.record, now);
  return at === KEY_AT ? hex : String(rev);
}

/** The columns that differ from before in any of the rows. */
function changes(puts: readonly PlannedPut[], now: number): readonly RecordColumn[] {
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
 * the table's size where it is `measured`. One text for batches of all sizes: it is prepared.
 */
export function batchWrite(table: string, puts: readonly PlannedPut[], now: number, measured: boolean): Statement {
  const parameters = new Parameters();
  const of = (way: Way) => puts.filter((put) => put.way === way);
  const parts: string[] = [];
  const inserts = of("insert");
  if (inserts.length > 0) parts.push(`inserted AS (${insertAll(table, parameters, inserts, now)} RETURNING r.key)`);
  const update = (name: string, rows: readonly PlannedPut[], columns: readonly GivenColumn[]) => {
    if (rows.length === 0) return;
    const after = parts.length === 0 ? "" : ` AND (SELECT count(*) FROM ${parts.at(-1)?.split(" ")[0]}) >= 0`;
    parts.push(`${name} AS (${updateAll(table, parameters, rows, columns)}${after} RETURNING r.key)`);
  };
  const settles = of("settle");
  update("settled", settles, settledColumns(settles, now));
  const replacements = of("replace");
  update("replaced", replacements, replacedColumns(replacements, now));
  const size = parameters.add(String(puts.length));
  const won = `(${parts.map((part) => `SELECT key FROM ${part.split(" ")[0]}`).join(" UNION ALL ")}) won`;
  const bytes = measured ? `, pg_relation_size('${table.replaceAll("'", "''")}')::text AS c3` : "";
  // Keys are gathered by a query of their own, which runs only where it is asked for: as an aggregate beside the count it
  // would be made for every batch.
  return {
    text: `WITH ${parts.join(", ")}
SELECT ${CLOCK} AS clock, count(*)::text AS c1, CASE WHEN count(*) < ${size}::bigint THEN (SELECT string_agg(encode(key, 'hex'), ',') FROM ${won}) END AS c2${bytes} FROM ${won}`,
    values: parameters.values,
  };
}

function insertAll(table: string, parameters: Parameters, puts: readonly PlannedPut[], now: number): string {
  const columns: GivenColumn[] = [];
  for (let at = 0; at < COLUMNS.length; at += 1) {
    const column = columnAt(at, puts, now);
    // What is null in all of them is left out.
    if (column.texts !== null || column.numbers !== null || column.value !== null) columns.push(column);
  }
  const { from, column } = parameters.rows(columns);
  const names = columns.map(({ name }) => name);
  return `INSERT INTO ${table} AS r (${names.join(", ")}) SELECT ${names.map(column).join(", ")} FROM ${from} ON CONFLICT (key, tenant) DO NOTHING`;
}

function updateAll(
  table: string,
  parameters: Parameters,
  puts: readonly PlannedPut[],
  columns: readonly GivenColumn[],
): string {
  const expected = ofNumbers(
    EXPECTED,
    numbersOf(puts, ({ put }) => put.expected as number),
  );
  const { from, column } = parameters.rows([
    columnAt(KEY_AT, puts, 0),
    columnAt(TENANT_AT, puts, 0),
    expected,
    ...columns,
  ]);
  const set = [NEXT_REV, ...columns.map(({ name }) => `${name} = ${column(name)}`)].join(", ");
  return `UPDATE ${table} r SET ${set} FROM ${from} WHERE r.key = ${column("key")} AND r.tenant = ${column("tenant")} AND r.rev = ${column("expected")}`;
}

function settledColumns(puts: readonly PlannedPut[], now: number): GivenColumn[] {
  return changes(puts, now).map((column) => recordColumn(column, puts, now));
}

function replacedColumns(puts: readonly PlannedPut[], now: number): GivenColumn[] {
  const columns: GivenColumn[] = [];
  if (puts.length === 0) return columns;
  for (let at = REPLACED_FROM; at < COLUMNS.length; at += 1) if (at !== REV_AT) columns.push(columnAt(at, puts, now));
  return columns;
}

/** What the rows hold in a column, by its place in COLUMNS. */
function columnAt(at: number, puts: readonly PlannedPut[], now: number): GivenColumn {
  const ofRecord = WRITTEN[at];
  if (ofRecord) return recordColumn(ofRecord, puts, now);
  const column = COLUMNS[at] as Columns[number];
  if (at === REV_AT)
    return ofNumbers(
      column,
      numbersOf(puts, ({ rev }) => rev),
    );
  return ofTexts(
    column,
    puts.map(({ hex }) => hex),
  );
}

/** Most columns are the same in all rows, and no text is made to find that out, nor a list of it. */
function recordColumn(column: RecordColumn, puts: readonly PlannedPut[], now: number): GivenColumn {
  const { text, differs, number } = column;
  const first = recordOf(puts, 0);
  let isSame = true;
  for (let row = 1; row < puts.length && isSame; row += 1) isSame = !differs(first, recordOf(puts, row), now);
  if (isSame) return ofOne(column, text(first, now));
  const numbers = number === null ? null : wholeNumbers(puts, number);
  if (numbers !== null) return ofNumbers(column, numbers);
  const texts: SqlText[] = [];
  for (let row = 0; row < puts.length; row += 1) texts.push(text(recordOf(puts, row), now));
  return ofTexts(column, texts);
}

function numbersOf(puts: readonly PlannedPut[], numberOf: (put: PlannedPut) => number): Float64Array {
  const numbers = new Float64Array(puts.length);
  for (let row = 0; row < puts.length; row += 1) numbers[row] = numberOf(puts[row] as PlannedPut);
  return numbers;
}

/** Null: not all of them are. */
function wholeNumbers(puts: readonly PlannedPut[], numberOf: NumberOf): Float64Array | null {
  const numbers = new Float64Array(puts.length);
  for (let row = 0; row < puts.length; row += 1) {
    const number = numberOf(recordOf(puts, row));
    if (!Number.isSafeInteger(number)) return null;
    numbers[row] = number as number;
  }
  return numbers;
}

function recordOf(puts: readonly PlannedPut[], row: number): LedgerRecord {
  return (puts[row] as PlannedPut).put.record;
}

/** Who won, by hexadecimal key; null: everybody. */
export function winners({ c1, c2 }: Row, size: number): ReadonlySet<string> | null {
  return Number(c1) === size ? null : new Set((c2 ?? "").split(","));
}
