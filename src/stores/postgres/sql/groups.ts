/** How rows are found in the order of their creation, and which claims may have been left by their holders. */
import { escapedArray, type Parameters } from "./arrays.ts";
import { LEASED, YOUNG_MS } from "./row.ts";
import { quoteText } from "./schema.ts";

export interface LeaseTables {
  readonly table: string;
  readonly watch: string;
}

/** A claim is looked for by its creation until it is twice as old as where `leased` begins: no gap between the two. */
export const WATCH_MS = 2 * YOUNG_MS;

/**
 * The actions and keeps in the table, one index probe each (a loose scan): there are few, however many rows. Within a
 * group the index is in the order of creation.
 */
export function groupsOf(table: string): string {
  const next = (where: string) => `(SELECT action, keep_ms FROM ${table} ${where} ORDER BY action, keep_ms LIMIT 1)`;
  return `groups(action, keep_ms) AS (
  ${next("")} UNION ALL
  SELECT n.action, n.keep_ms FROM groups g CROSS JOIN LATERAL ${next("WHERE (action, keep_ms) > (g.action, g.keep_ms)")} n)`;
}

/** The mark of who sees every row. */
export const MARK_OF_ALL = "all";

/**
 * The name of the mark that this role may move: where row-level security hides other tenants' rows from it, the mark of the
 * tenant that the transaction names (null: none is named, and nothing is seen). A sweep vouches for the rows it saw only.
 */
export function ownMark(table: string): string {
  const named = `'tenant:' || current_setting('nevertwice.tenant', true)`;
  return `CASE WHEN row_security_active(${quoteText(table)}) THEN ${named} ELSE '${MARK_OF_ALL}' END`;
}

/**
 * Up to here, by creation, every live claim that this role sees is marked as leased: a sweep of everything has marked
 * them, or one of the tenant's own. Behind the server's clock also after that was set back.
 */
export function watchedTo({ table, watch }: LeaseTables, goal: string): string {
  return `(SELECT least(coalesce(max(watched_to), 0), ${goal}) FROM ${watch} WHERE name IN ('${MARK_OF_ALL}', ${ownMark(table)}))`;
}

// Rows looked at from either end of the young ones of a group. With a limit and nothing but the index's own columns
// inside it, the planner walks the index; told about leases too, it would rather read the whole table.
const YOUNG_ROWS = 100_000;

/**
 * The rows `r` that a silent holder may have left: the marked ones, and those too young to be marked. `columns` must
 * tell rows apart (the two ends may overlap), and are seen under the same names by `where`.
 */
export function leasedRows(tables: LeaseTables, columns: string, where: string, now: string): string {
  const { table } = tables;
  const mark = watchedTo(tables, `${now}::bigint - ${WATCH_MS}`);
  const young = (direction: string) => `SELECT ${columns} FROM groups g CROSS JOIN LATERAL (
  SELECT * FROM (
    SELECT ctid AS id, y.* FROM ${table} y WHERE y.action = g.action AND y.keep_ms = g.keep_ms AND y.created_at > ${mark}
    ORDER BY y.created_at ${direction} LIMIT ${YOUNG_ROWS}) r WHERE r.attention IS DISTINCT FROM '${LEASED}' AND ${where}) r`;
  return `SELECT ${columns} FROM (SELECT ctid AS id, m.* FROM ${table} m WHERE m.attention = '${LEASED}') r WHERE ${where}
UNION ${young("ASC")}
UNION ${young("DESC")}`;
}

export function lapsed(now: string): string {
  return `r.state IN ('claimed', 'sent') AND r.lease_until IS NOT NULL AND (r.lease_until <= ${now}::double precision OR r.lease_epoch IS NOT NULL)`;
}

/** `column = any of` as SQL, in one text for any number of values; none at all matches nothing. */
export function anyOf(parameters: Parameters, column: string, values: readonly string[]): string {
  return `${column} = ANY(${parameters.add(escapedArray(values))}::text[])`;
}
