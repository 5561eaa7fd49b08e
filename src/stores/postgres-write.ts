/** Compare-and-swap, one statement for a batch. */
import type { Put } from "../core/store.ts";
import { Parameters } from "./postgres-arrays.ts";
import { CLOCK } from "./postgres-migrate.ts";
import { FIXED, fixedValues, MOVING, movingValues, type Row, type SqlText } from "./postgres-row.ts";

/** How a put is carried out: `settle` leaves alone what the row is known to hold. */
export type Way = "insert" | "settle" | "replace";

export interface PlannedPut {
  readonly put: Put;
  readonly way: Way;
  readonly hex: string;
  readonly rev: number;
  readonly fixed: readonly SqlText[];
  readonly moving: readonly SqlText[];
}

export function planPut(put: Put, held: boolean, now: number, hex: string): PlannedPut {
  const { record, expected } = put;
  const way = expected === null ? "insert" : held ? "settle" : "replace";
  const rev = expected === null ? firstRevision(now) : expected + 1;
  const fixed = way === "settle" ? [] : fixedValues(record);
  return { put, way, hex, rev, fixed, moving: movingValues(record, rev, now) };
}

/** One that no earlier row of this key can have had, also after a sweep: time in ms, times 4096, plus chance. */
function firstRevision(now: number): number {
  return Math.floor(now) * 4_096 + Math.floor(Math.random() * 4_096);
}

export interface Statement {
  readonly text: string;
  readonly values: readonly SqlText[];
}

// What names a row: the first two of FIXED.
const NAMING = FIXED.slice(0, 2);
const REST = FIXED.slice(2);
const ALL = [...FIXED, ...MOVING].map(({ name }) => name).join(", ");

/** A lone caller pays for a statement as one would write it by hand: no arrays, no join. */
export function singleWrite(table: string, { put, way, hex, fixed, moving }: PlannedPut): Statement {
  const parameters = new Parameters();
  const value = (type: string, text: SqlText) => {
    const parameter = parameters.add(text);
    if (type === "bytea") return `decode(${parameter}, 'hex')`;
    return type === "text" ? parameter : `${parameter}::${type}`;
  };
  if (way === "insert") {
    const values = [
      ...FIXED.map(({ type }, i) => value(type, fixed[i] as SqlText)),
      ...MOVING.map(({ type }, i) => value(type, moving[i] as SqlText)),
    ];
    return {
      text: `INSERT INTO ${table} (${ALL}) VALUES (${values.join(", ")}) ON CONFLICT (key, tenant) DO NOTHING RETURNING ${CLOCK} AS clock`,
      values: parameters.values,
    };
  }
  const set = MOVING.map(({ name, type }, i) => `${name} = ${value(type, moving[i] as SqlText)}`);
  if (way === "replace")
    set.push(...REST.map(({ name, type }, i) => `${name} = ${value(type, fixed[i + 2] as SqlText)}`));
  const key = value("bytea", hex);
  const tenant = value("text", put.record.tenant);
  const rev = value("bigint", String(put.expected));
  return {
    text: `UPDATE ${table} SET ${set.join(", ")} WHERE key = ${key} AND tenant = ${tenant} AND rev = ${rev} RETURNING ${CLOCK} AS clock`,
    values: parameters.values,
  };
}

const INSERTED = [...FIXED, ...MOVING];
const SETTLED = [...NAMING, { name: "expected", type: "bigint" }, ...MOVING];
const REPLACED = [...FIXED, { name: "expected", type: "bigint" }, ...MOVING];

/**
 * The batch comes sorted by key, and rows are locked in that order: first the new ones, then the existing ones, so that
 * two batches never wait for each other in a circle. It answers with the keys that won only where not all did.
 */
export function batchWrite(table: string, puts: readonly PlannedPut[]): Statement {
  const parameters = new Parameters();
  const of = (way: Way) => puts.filter((put) => put.way === way);
  const parts: string[] = [];
  const won: string[] = [];
  const part = (name: string, text: string) => {
    const after = won.map((earlier) => ` AND (SELECT count(*) FROM ${earlier}) >= 0`).join("");
    parts.push(`${name} AS (${text.replace("/*after*/", after)} RETURNING r.key)`);
    won.push(name);
  };
  const inserts = of("insert");
  if (inserts.length > 0) {
    const rows = inserts.map(({ fixed, moving }) => [...fixed, ...moving]);
    part(
      "inserted",
      `INSERT INTO ${table} AS r (${ALL}) SELECT i.* FROM ${parameters.rows("i", INSERTED, rows)} ON CONFLICT (key, tenant) DO NOTHING`,
    );
  }
  const settles = of("settle");
  if (settles.length > 0) {
    const rows = settles.map(({ put, hex, moving }) => [hex, put.record.tenant, String(put.expected), ...moving]);
    part("settled", update(table, MOVING, parameters.rows("i", SETTLED, rows)));
  }
  const replaces = of("replace");
  if (replaces.length > 0) {
    const rows = replaces.map(({ put, fixed, moving }) => [...fixed, String(put.expected), ...moving]);
    part("replaced", update(table, [...REST, ...MOVING], parameters.rows("i", REPLACED, rows)));
  }
  const all = won.map((name) => `SELECT key FROM ${name}`).join(" UNION ALL ");
  const count = parameters.add(String(puts.length));
  return {
    text: `WITH ${parts.join(", ")}, won AS (${all})
SELECT ${CLOCK} AS clock, count(*)::text AS c1, CASE WHEN count(*) < ${count}::bigint THEN string_agg(encode(key, 'hex'), ',') END AS c2 FROM won`,
    values: parameters.values,
  };
}

function update(table: string, columns: readonly { name: string }[], rows: string): string {
  const set = columns.map(({ name }) => `${name} = i.${name}`).join(", ");
  return `UPDATE ${table} r SET ${set} FROM ${rows} WHERE r.key = i.key AND r.tenant = i.tenant AND r.rev = i.expected/*after*/`;
}

/** Who won, by hexadecimal key; null: everybody. */
export function winners({ c1, c2 }: Row, size: number): ReadonlySet<string> | null {
  return Number(c1) === size ? null : new Set((c2 ?? "").split(","));
}
