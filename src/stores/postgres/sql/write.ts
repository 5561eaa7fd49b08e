/**
 * Compare-and-swap, one statement for a batch. A batch's statement is parsed and planned when it comes: what is null in
 * every new row, or as before in every settled one, is left out of it.
 */
import type { LedgerRecord } from "../../../core/record.ts";
import type { Put } from "../../../core/store.ts";
import { nextRevision } from "../../shared/revision.ts";
import { CLOCK } from "../migrate.ts";
import { type GivenColumn, Parameters } from "./arrays.ts";
import {
  COLUMNS,
  type Column,
  keepClass,
  NAMING,
  REV,
  type Row,
  SETTLED,
  type SqlText,
  textOf,
  type Written,
  YOUNG_MS,
} from "./row.ts";

/** How a put is carried out: `settle` leaves alone what the row is known to hold. */
export type Way = "insert" | "settle" | "replace";

export interface PlannedPut extends Written {
  readonly expected: number | null;
  readonly way: Way;
  /** What the row holds now, where it is a settle. */
  readonly before: Written | null;
}

/** `whole`: all of the record is to be written. */
export function planPut(
  put: Put,
  { hex, now, whole = false }: { hex: string; now: number; whole?: boolean },
): PlannedPut {
  const { record, expected } = put;
  const rev = nextRevision(expected, now);
  if (expected === null) return { record, expected, way: "insert", hex, rev, before: null };
  const before =
    put.before !== undefined && !whole && isSettle(put.before, record)
      ? { ...put, record: put.before, hex, rev }
      : null;
  return { record, expected, way: before === null ? "replace" : "settle", hex, rev, before };
}

/**
 * Whether all that a settle leaves alone is as before, so that an input of 200 KB does not travel, and is not stored anew,
 * at every heartbeat. The same objects, not equal ones: a record hands on to the next what a transition does not touch.
 */
function isSettle(before: LedgerRecord, after: LedgerRecord): boolean {
  return UNTOUCHED.every((field) => before[field] === after[field]) && keepClass(before) === keepClass(after);
}

const UNTOUCHED = [
  "fingerprint",
  "input",
  "draft",
  "history",
  "doubted",
  "version",
  "createdAt",
  "keepMs",
  "queued",
  "terms",
  "tenant",
  "action",
  "scope",
  "agent",
] as const satisfies readonly (keyof LedgerRecord)[];

export interface Statement {
  readonly text: string;
  readonly values: readonly SqlText[];
}

/** What a replacement sets. */
export const REPLACED: readonly Column[] = COLUMNS.filter((column) => !NAMING.includes(column) && column !== REV);
const EXPECTED = { name: "expected", type: "bigint" } as const;

/** Whether a settle has to write the column. */
export function isChanged(column: Column, planned: PlannedPut, now: number): boolean {
  // The sweep marks claims that are no longer young, behind our back: whether they want attention is not known.
  if (planned.record.createdAt < now - YOUNG_MS && column.name.startsWith("attention")) return true;
  return column.value(planned.before as Written, now) !== column.value(planned, now);
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
  const update = (name: string, rows: readonly PlannedPut[], columns: readonly Column[]) => {
    if (rows.length === 0) return;
    const after = parts.length === 0 ? "" : ` AND (SELECT count(*) FROM ${parts.at(-1)?.split(" ")[0]}) >= 0`;
    parts.push(`${name} AS (${updateAll(table, parameters, rows, columns, now)}${after} RETURNING r.key)`);
  };
  const settles = of("settle");
  update(
    "settled",
    settles,
    SETTLED.filter((column) => settles.some((planned) => isChanged(column, planned, now))),
  );
  update("replaced", of("replace"), REPLACED);
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
  // What is null in all of them is left out.
  const columns = COLUMNS.map((column) => given(column, puts, now)).filter(
    (column) => "each" in column.given || column.given.same !== null,
  );
  const { from, column } = parameters.rows(columns);
  const names = columns.map(({ name }) => name);
  return `INSERT INTO ${table} AS r (${names.join(", ")}) SELECT ${names.map(column).join(", ")} FROM ${from} ON CONFLICT (key, tenant) DO NOTHING`;
}

function updateAll(
  table: string,
  parameters: Parameters,
  puts: readonly PlannedPut[],
  columns: readonly Column[],
  now: number,
): string {
  const expected = { ...EXPECTED, given: { each: puts.map((put) => String(put.expected)) } };
  const found = NAMING.map((column) => given(column, puts, now));
  const { from, column } = parameters.rows([...found, expected, ...columns.map((one) => given(one, puts, now))]);
  // What is left behind is the revision that is expected, plus one: nothing to send.
  const set = ["rev = r.rev + 1", ...columns.map(({ name }) => `${name} = ${column(name)}`)].join(", ");
  return `UPDATE ${table} r SET ${set} FROM ${from} WHERE r.key = ${column("key")} AND r.tenant = ${column("tenant")} AND r.rev = ${column("expected")}`;
}

/** Most columns are the same in all rows, and no text is made to find that out. The key goes as an array in any case. */
function given(column: Column, puts: readonly PlannedPut[], now: number): GivenColumn {
  const { name, type } = column;
  const first = column.value(puts[0] as PlannedPut, now);
  const isSame = type !== "bytea" && puts.every((put) => column.value(put, now) === first);
  if (isSame) return { name, type, given: { same: textOf(type, first) } };
  return { name, type, given: { each: puts.map((put) => textOf(type, column.value(put, now))) } };
}

/** Who won, by hexadecimal key; null: everybody. */
export function winners({ c1, c2 }: Row, size: number): ReadonlySet<string> | null {
  return Number(c1) === size ? null : new Set((c2 ?? "").split(","));
}
