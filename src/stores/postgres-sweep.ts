/** Removing what is past its keep, and keeping an eye on claims that live long. */
import { Parameters } from "./postgres-arrays.ts";
import { groupsOf, type LeaseTables, WATCH_MS } from "./postgres-groups.ts";
import { LEASED } from "./postgres-row.ts";
import type { Statement } from "./postgres-write.ts";

// Rows removed by one statement: some milliseconds, so that nobody waits long for a lock or a replica for its log.
export const SWEEP_ROWS = 1_000;
// The oldest of a group that one statement looks at. Doubts and waiting work stay, however old: so many can stand
// before what is over.
const LOOKED_AT = 100_000;
// Rows looked at by one step of watching.
const WATCH_ROWS = 20_000;

/**
 * Within a group (one action, one keep) the index is in the order of creation, and nothing expires before its creation
 * plus the keep: only rows that may be over are looked at. A row taken again meanwhile is no longer settled, and stays.
 * With a limit and nothing but the index's own columns inside it the planner walks the index, and stops when there is
 * enough; told what is over, it would take that for few rows and read the whole table (ten seconds of ten million).
 */
export function sweepStatement(
  { table }: LeaseTables,
  { limit, now, tenant }: { limit: number; now: number; tenant: string | undefined },
): Statement {
  const parameters = new Parameters();
  const at = `${parameters.add(String(now))}::bigint`;
  const over = `state IN ('confirmed', 'failed') AND expires_at <= ${at}`;
  const own = tenant === undefined ? "" : ` AND tenant = ${parameters.add(tenant)}`;
  const rows = `${parameters.add(String(limit))}::bigint`;
  return {
    text: `WITH RECURSIVE ${groupsOf(table)},
gone AS (
  DELETE FROM ${table} WHERE ${over} AND ctid = ANY(ARRAY(
    SELECT l.id FROM groups g CROSS JOIN LATERAL (
      SELECT o.id FROM (
        SELECT ctid AS id, state, expires_at, tenant FROM ${table}
        WHERE action = g.action AND keep_ms = g.keep_ms AND created_at <= ${at} - g.keep_ms
        ORDER BY created_at LIMIT ${LOOKED_AT}) o
      WHERE ${over}${own} LIMIT ${rows}) l
    WHERE g.keep_ms >= 0 LIMIT ${rows}))
  RETURNING 1)
SELECT count(*)::text AS c0 FROM gone`,
    values: parameters.values,
  };
}

/**
 * Claims that outlive their youth are marked, and the mark moves past them, at most WATCH_ROWS rows of a group at a
 * time. A row that changes meanwhile is marked by its own writer, which knows its age. Answers with the mark, and
 * whether there is more to do.
 */
export function watchStatement({ table, meta }: LeaseTables, now: number): Statement {
  const parameters = new Parameters();
  const goal = `${parameters.add(String(now - WATCH_MS))}::bigint`;
  return {
    text: `WITH RECURSIVE ${groupsOf(table)},
mark AS MATERIALIZED (SELECT least(value::bigint, ${goal}) AS at FROM ${meta} WHERE name = 'watched_to'),
step AS MATERIALIZED (
  SELECT least(${goal}, (
    SELECT min(greatest(l.created_at - 1, m.at + 1)) FROM groups g CROSS JOIN LATERAL (
      SELECT created_at FROM ${table} WHERE action = g.action AND keep_ms = g.keep_ms AND created_at > m.at
      ORDER BY created_at OFFSET ${WATCH_ROWS} LIMIT 1) l)) AS upto, m.at FROM mark m),
marked AS (
  UPDATE ${table} SET attention = '${LEASED}', attention_at = created_at WHERE lease_until IS NOT NULL AND attention IS NULL
    AND ctid = ANY(ARRAY(
      SELECT l.id FROM step s CROSS JOIN groups g CROSS JOIN LATERAL (
        SELECT ctid AS id, created_at, lease_until, attention FROM ${table}
        WHERE action = g.action AND keep_ms = g.keep_ms AND created_at > s.at
        ORDER BY created_at LIMIT ${WATCH_ROWS + 1}) l
      WHERE l.created_at <= s.upto AND l.lease_until IS NOT NULL AND l.attention IS NULL))),
moved AS (UPDATE ${meta} SET value = s.upto::text FROM step s WHERE name = 'watched_to' AND value <> s.upto::text)
SELECT (upto < ${goal})::text AS c0 FROM step`,
    values: parameters.values,
  };
}
