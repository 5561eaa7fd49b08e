/**
 * Reads and swaps in one text each, whatever they carry: for clients that may only run statements known before
 * (stores/postgres/supabase/client.ts). More is sent than where the statement is made for its batch, and nothing else differs.
 */

import { CLOCK } from "../migrate.ts";
import { arrayText, Parameters } from "../sql/arrays.ts";
import { lookedUp, type RowNames } from "../sql/read.ts";
import { COLUMNS, FIXED, type SqlText, selectList } from "../sql/row.ts";
import { type PlannedPut, type Statement, textAt } from "../sql/write.ts";

const SENT = [...COLUMNS, { name: "expected", type: "bigint" }];
const NAMING = new Set(["key", "tenant"]);

type Column = { readonly name: string; readonly type: string };

function source(parameters: Parameters, columns: readonly Column[], rows: readonly (readonly SqlText[])[]): string {
  const arrays = columns.map(({ type }, at) => `${parameters.add(arrayText(type, rows, at))}::${type}[] AS a${at}`);
  const all = columns.map((_, at) => `p.a${at}`).join(", ");
  const names = columns.map(({ name }) => name).join(", ");
  return `(SELECT ${arrays.join(", ")} OFFSET 0) p CROSS JOIN LATERAL unnest(${all}) AS i(${names})`;
}

/** Every put names all of its record. Answers as batchWrite does. */
export function uniformWrite(table: string, puts: readonly PlannedPut[], now: number): Statement {
  const parameters = new Parameters();
  const rows = puts.map((planned) => {
    const { expected } = planned.put;
    return [...COLUMNS.map((_, at) => textAt(at, planned, now)), expected === null ? null : String(expected)];
  });
  const from = source(parameters, SENT, rows);
  const names = COLUMNS.map(({ name }) => name).join(", ");
  const set = COLUMNS.filter(({ name }) => !NAMING.has(name)).map(({ name }) => `${name} = i.${name}`);
  const size = parameters.add(String(puts.length));
  return {
    text: `WITH i AS MATERIALIZED (SELECT i.* FROM ${from}),
inserted AS (INSERT INTO ${table} AS r (${names}) SELECT ${names} FROM i WHERE expected IS NULL ON CONFLICT (key, tenant) DO NOTHING RETURNING r.key),
replaced AS (UPDATE ${table} r SET ${set.join(", ")} FROM i WHERE r.key = i.key AND r.tenant = i.tenant AND r.rev = i.expected RETURNING r.key),
won AS (SELECT key FROM inserted UNION ALL SELECT key FROM replaced)
SELECT ${CLOCK} AS clock, count(*)::text AS c1, CASE WHEN count(*) < ${size}::bigint THEN string_agg(encode(key, 'hex'), ',') END AS c2 FROM won`,
    values: parameters.values,
  };
}

export function uniformRead(table: string, names: readonly RowNames[]): Statement {
  const parameters = new Parameters();
  const rows = names.map(({ hex, tenant }) => [hex, tenant ?? null]);
  const from = source(parameters, FIXED.slice(0, 2), rows);
  return {
    text: `SELECT ${CLOCK} AS clock, ${selectList("r")} FROM ${from} ${lookedUp(table, "r.key = i.key AND (i.tenant IS NULL OR r.tenant = i.tenant)")}`,
    values: parameters.values,
  };
}
