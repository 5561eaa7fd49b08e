/**
 * Reads and swaps in one text each, whatever they carry: for clients that may only run statements known before
 * (stores/postgres/supabase/client.ts). More is sent than where the statement is made for its batch, and nothing else differs.
 */

import { CLOCK } from "../migrate.ts";
import { Parameters } from "../sql/arrays.ts";
import { lookedUp, type RowNames } from "../sql/read.ts";
import { COLUMNS, NAMING, selectList, textOf } from "../sql/row.ts";
import type { PlannedPut, Statement } from "../sql/write.ts";

/** Every put names all of its record. Answers as batchWrite does. */
export function uniformWrite(table: string, puts: readonly PlannedPut[], now: number): Statement {
  const parameters = new Parameters();
  const columns = COLUMNS.map(({ name, type, value }) => {
    return { name, type, given: { each: puts.map((planned) => textOf(type, value(planned, now))) } };
  });
  const each = puts.map(({ expected }) => textOf("bigint", expected));
  const { from } = parameters.rows([...columns, { name: "expected", type: "bigint", given: { each } }]);
  const names = COLUMNS.map(({ name }) => name).join(", ");
  const set = COLUMNS.filter((column) => !NAMING.includes(column)).map(({ name }) => `${name} = i.${name}`);
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
  const { from } = parameters.rows([
    { name: "key", type: "bytea", given: { each: names.map(({ hex }) => hex) } },
    { name: "tenant", type: "text", given: { each: names.map(({ tenant }) => tenant ?? null) } },
  ]);
  return {
    text: `SELECT ${CLOCK} AS clock, ${selectList("r")} FROM ${from} ${lookedUp(table, "r.key = i.key AND (i.tenant IS NULL OR r.tenant = i.tenant)")}`,
    values: parameters.values,
  };
}
