/** Removing what is past its keep, and keeping an eye on claims that live long. */
import { Parameters } from "./arrays.ts";
import { groupsOf, type LeaseTables, MARK_OF_ALL, ownMark, WATCH_MS, watchedTo } from "./groups.ts";
import { LEASED } from "./row.ts";
import type { Statement } from "./write.ts";

// Rows removed by one statement: some milliseconds, so that nobody waits long for a lock or a replica for its log.
export const SWEEP_ROWS = 1_000;
// Rows of a group that one statement looks at. Doubts, waiting work and what another tenant has not swept stay, however old:
// so many can stand before what is over, and the next statement goes on behind them.
const LOOKED_AT = 100_000;
// Rows looked at by one step of watching.
const WATCH_ROWS = 20_000;
// The mark of a tenant that has not swept for this long is of no use: the mark of all is far ahead of it.
const FORGOTTEN_MS = 86_400_000;

/**
 * Within a group (one action, one keep) the index is in the order of creation, and nothing expires before its creation
 * plus the keep: only rows that may be over are looked at. A row taken again meanwhile is no longer settled, and stays.
 * With a limit and nothing but the index's own columns inside it the planner walks the index, and stops when there is
 * enough; told what is over, it would take that for few rows and read the whole table (ten seconds of ten million).
 */
export function sweepStatement(
  { table }: LeaseTables,
  { limit, now, tenant, from }: { limit: number; now: number; tenant: string | undefined; from: number },
): Statement {
  const parameters = new Parameters();
  const at = `${parameters.add(String(now))}::bigint`;
  const first = `${parameters.add(String(from))}::bigint`;
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
        WHERE action = g.action AND keep_ms = g.keep_ms AND created_at <= ${at} - g.keep_ms AND created_at >= ${first}
        ORDER BY created_at LIMIT ${LOOKED_AT}) o
      WHERE ${over}${own} LIMIT ${rows}) l
    WHERE g.keep_ms >= 0 LIMIT ${rows}))
  RETURNING 1)
SELECT count(*)::text AS c0 FROM gone`,
    values: parameters.values,
  };
}

/** Where the statement above stopped looking, by creation; null: it has looked at everything that may be over. */
export function sweptStatement({ table }: LeaseTables, { now, from }: { now: number; from: number }): Statement {
  const parameters = new Parameters();
  const at = `${parameters.add(String(now))}::bigint`;
  const first = `${parameters.add(String(from))}::bigint`;
  return {
    text: `WITH RECURSIVE ${groupsOf(table)}
SELECT min(l.created_at)::text AS c0 FROM groups g CROSS JOIN LATERAL (
  SELECT created_at FROM ${table}
  WHERE action = g.action AND keep_ms = g.keep_ms AND created_at <= ${at} - g.keep_ms AND created_at >= ${first}
  ORDER BY created_at OFFSET ${LOOKED_AT} LIMIT 1) l WHERE g.keep_ms >= 0`,
    values: parameters.values,
  };
}

/**
 * Claims that outlive their youth are marked, and the mark moves past them, at most WATCH_ROWS rows of a group at a
 * time. A row that changes meanwhile is marked by its own writer, which knows its age. Answers whether there is more to do.
 */
export function watchStatement(tables: LeaseTables, now: number): Statement {
  const { table, watch } = tables;
  const parameters = new Parameters();
  const goal = `${parameters.add(String(now - WATCH_MS))}::bigint`;
  return {
    text: `WITH RECURSIVE ${groupsOf(table)},
own AS MATERIALIZED (SELECT ${ownMark(table)} AS name),
mark AS MATERIALIZED (SELECT ${watchedTo(tables, goal)} AS at),
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
moved AS (
  INSERT INTO ${watch} AS w (name, watched_to) SELECT o.name, s.upto FROM step s CROSS JOIN own o WHERE o.name IS NOT NULL
  ON CONFLICT (name) DO UPDATE SET watched_to = EXCLUDED.watched_to WHERE w.watched_to <> EXCLUDED.watched_to),
forgotten AS (
  DELETE FROM ${watch} w USING step s, own o
  WHERE o.name = '${MARK_OF_ALL}' AND w.name <> o.name AND w.watched_to < s.upto - ${FORGOTTEN_MS})
SELECT (upto < ${goal})::text AS c0 FROM step`,
    values: parameters.values,
  };
}
