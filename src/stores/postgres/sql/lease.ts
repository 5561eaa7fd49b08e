/** Handing out due work in SQL: what core's claim does to a record, done to a row (a test compares the two). */
import type { LeaseQuery } from "../../../core/store.ts";
import { Parameters } from "./arrays.ts";
import { anyOf, type LeaseTables, lapsed } from "./groups.ts";
import { LEASED, SAME_MARK, selectList, YOUNG_MS } from "./row.ts";
import type { Statement } from "./write.ts";

/** Before anything that is ever due. */
export const FROM_THE_BEGINNING = -1e15;

/**
 * The longest due first, from the index of due work alone. SKIP LOCKED: workers pass each other by. Ordered by nothing
 * but what the index is in the order of: with a second column every lease would sort the whole backlog.
 */
export function leaseDue(
  { table }: LeaseTables,
  query: LeaseQuery,
  now: number,
  from: number = FROM_THE_BEGINNING,
): Statement {
  const parameters = new Parameters();
  const at = parameters.add(String(now));
  const picked = `SELECT r.ctid FROM ${table} r
  WHERE r.attention = 'queued' AND r.attention_at <= ${at}::bigint AND r.attention_at >= ${parameters.add(String(from))}::bigint
    AND ${wanted(parameters, query, at)}
  ORDER BY r.attention_at LIMIT ${parameters.add(String(query.limit))}::bigint
  FOR NO KEY UPDATE SKIP LOCKED`;
  return take(table, picked, parameters, query, at);
}

/** Queued work whose holder fell silent before sending. All of it is marked: no young claim has to be looked at. */
export function leaseLapsed({ table }: LeaseTables, query: LeaseQuery, now: number): Statement {
  const parameters = new Parameters();
  const at = parameters.add(String(now));
  const picked = `SELECT r.ctid FROM ${table} r
  WHERE r.attention = '${LEASED}' AND r.state = 'claimed' AND ${lapsed(at)} AND ${wanted(parameters, query, at)}
  LIMIT ${parameters.add(String(query.limit))}::bigint
  FOR NO KEY UPDATE SKIP LOCKED`;
  return take(table, picked, parameters, query, at);
}

function wanted(parameters: Parameters, { tenant, actions }: LeaseQuery, at: string): string {
  const where = ["r.queued", `(r.expires_at IS NULL OR r.expires_at > ${at}::bigint)`];
  if (tenant !== undefined) where.push(`r.tenant = ${parameters.add(tenant)}`);
  if (actions !== undefined) where.push(anyOf(parameters, "r.action", actions));
  return where.join(" AND ");
}

/**
 * Rows are picked and locked first, so a TID scan finds them as they are, page by page; joined to them one by one it would
 * begin anew for each. They come back in any order, with the time they have been due since: `attention_at` is left as it
 * was, and stands for nothing where `attention` says nothing.
 *
 * What is the same for all rows is made of its text once, in `k`: a plan that is kept would do so for each row.
 */
function take(
  table: string,
  picked: string,
  parameters: Parameters,
  { to, holder, leaseMs }: LeaseQuery,
  at: string,
): Statement {
  const until = `${at}::bigint + ${parameters.add(String(leaseMs))}::double precision`;
  const same = `(SELECT ${at}::bigint AS now, ${until} AS until, ${at}::bigint - ${YOUNG_MS} AS young OFFSET 0) k`;
  const set = [
    `rev = ${next("rev")}`,
    // Only these two are leased. Another one is damage, and stays: the answer shows it.
    `state = CASE WHEN r.state IN ('pending', 'claimed') THEN ${parameters.add(to)}::text ELSE r.state END`,
    `attempt = ${next("attempt")}, fence = ${next("fence")}, tries = ${next("tries")}`,
    `holder = ${parameters.add(holder)}`,
    `lease_until = k.until, lease_epoch = NULL`,
    `updated_at = k.now, fate = NULL, expires_at = NULL`,
  ];
  if (to === "claimed") {
    set.push(`attention = '${LEASED}'`);
  } else {
    set.push(
      `attention = CASE WHEN r.created_at < k.young THEN '${LEASED}' END`,
      `sent_mark = CASE WHEN r.first_sent_at IS NULL THEN '${SAME_MARK}' ELSE r.sent_mark END`,
      `first_sent_at = coalesce(r.first_sent_at, k.now), last_sent_at = k.now`,
    );
  }
  return {
    text: `UPDATE ${table} r SET ${set.join(", ")} FROM ${same} WHERE r.ctid = ANY(ARRAY(
  ${picked})) RETURNING ${selectList("r")}`,
    values: parameters.values,
  };
}

/** A counter that cannot be is damage: counted on, it would look sound after some leases. */
function next(column: string): string {
  return `CASE WHEN r.${column} < 0 THEN r.${column} ELSE r.${column} + 1 END`;
}
