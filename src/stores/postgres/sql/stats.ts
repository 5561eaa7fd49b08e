/**
 * Counting a ledger in bounded time. Small tables are counted; of a large one the total is PostgreSQL's own estimate and
 * settled records are shared out by a sample of pages, while doubts, dead letters, waiting and leased work are always
 * counted one by one, from their indexes.
 */
import type { State } from "../../../core/record.ts";
import type { LedgerStats } from "../../../core/store.ts";
import { Tally } from "../../shared/stats.ts";
import type { Connection } from "../client/connection.ts";
import { Parameters } from "./arrays.ts";
import { groupsOf, type LeaseTables, lapsed, leasedRows } from "./groups.ts";
import type { Row } from "./row.ts";

// 64 MB, some 100 000 records: counted in a tenth of a second.
const COUNTED_PAGES = 8_192;
// Read at random places, they take under a tenth of a second from memory and half a second from a disk.
const SAMPLED_PAGES = 1_000;

interface Count {
  readonly action: string;
  readonly state: State;
  readonly count: number;
}

export async function ledgerStats(
  connection: Connection,
  tables: LeaseTables,
  now: number,
  tenant: string | undefined,
): Promise<LedgerStats> {
  const [size] = await connection.query(
    `SELECT (pg_relation_size(c.oid) / current_setting('block_size')::bigint)::text AS c0, c.reltuples::text AS c1, c.relpages::text AS c2
     FROM pg_class c WHERE c.oid = to_regclass($1::text)`,
    [tables.table],
  );
  const pages = Number(size?.c0 ?? 0);
  const leased = await leases(connection, tables, tenant, now);
  const counts =
    pages <= COUNTED_PAGES
      ? await countAll(connection, tables, tenant)
      : [
          ...(await sample(connection, tables, tenant, pages, size as Row)),
          ...(await attention(connection, tables, tenant)),
          ...leased.counts,
        ];
  const tally = new Tally();
  for (const { action, state, count } of counts) tally.add(action, state, count);
  return tally.stats({ lapsed: leased.lapsed, ...(await oldest(connection, tables, tenant)) });
}

async function countAll(connection: Connection, { table }: LeaseTables, tenant: string | undefined): Promise<Count[]> {
  const parameters = new Parameters();
  const rows = await connection.query(
    `SELECT r.action AS c0, r.state AS c1, count(*)::text AS c2 FROM ${table} r WHERE true${of(parameters, tenant)} GROUP BY r.action, r.state`,
    parameters.values,
  );
  return rows.map(countOf);
}

async function sample(
  connection: Connection,
  { table }: LeaseTables,
  tenant: string | undefined,
  pages: number,
  { c1, c2 }: Row,
): Promise<Count[]> {
  const parameters = new Parameters();
  const percent = Math.min(100, (100 * SAMPLED_PAGES) / pages);
  const rows = await connection.query(
    `SELECT r.action AS c0, 'confirmed' AS c1, count(*) FILTER (WHERE r.state = 'confirmed'${of(parameters, tenant)})::text AS c2, count(*)::text AS c3
     FROM ${table} r TABLESAMPLE SYSTEM (${parameters.add(String(percent))}::real) GROUP BY r.action`,
    parameters.values,
  );
  const seen = rows.reduce((sum, { c3 }) => sum + Number(c3), 0);
  // As the planner does it: the density of the last vacuum or analyze, on the pages of now; else that of the sample.
  const density = Number(c1) > 0 && Number(c2) > 0 ? Number(c1) / Number(c2) : seen / SAMPLED_PAGES;
  const scale = seen === 0 ? 0 : (density * pages) / seen;
  return rows.map(countOf).map((one) => ({ ...one, count: Math.round(one.count * scale) }));
}

async function attention(connection: Connection, { table }: LeaseTables, tenant: string | undefined): Promise<Count[]> {
  const parameters = new Parameters();
  const rows = await connection.query(
    `SELECT r.action AS c0, CASE WHEN r.attention IN ('queued', 'waiting') THEN 'pending' ELSE r.attention END AS c1, count(*)::text AS c2
     FROM ${table} r WHERE r.attention IN ('queued', 'waiting', 'unknown', 'failed')${of(parameters, tenant)} GROUP BY 1, 2`,
    parameters.values,
  );
  return rows.map(countOf);
}

async function leases(connection: Connection, tables: LeaseTables, tenant: string | undefined, now: number) {
  const parameters = new Parameters();
  const at = parameters.add(String(now));
  const where = `r.state IN ('claimed', 'sent')${of(parameters, tenant)}`;
  const columns = "r.key, r.tenant, r.action, r.state, r.lease_until, r.lease_epoch";
  const rows = await connection.query(
    `WITH RECURSIVE ${groupsOf(tables.table)}
     SELECT r.action AS c0, r.state AS c1, count(*)::text AS c2, count(*) FILTER (WHERE ${lapsed(at)})::text AS c3
     FROM (${leasedRows(tables, columns, where, at)}) r GROUP BY r.action, r.state`,
    parameters.values,
  );
  return { counts: rows.map(countOf), lapsed: rows.reduce((sum, { c3 }) => sum + Number(c3), 0) };
}

async function oldest(connection: Connection, { table }: LeaseTables, tenant: string | undefined) {
  const parameters = new Parameters();
  const of_ = of(parameters, tenant);
  const first = (kind: string) =>
    `(SELECT min(r.attention_at) FROM ${table} r WHERE r.attention = '${kind}' AND r.attention_at > 0${of_})`;
  const [row] = await connection.query(
    `SELECT least(${first("queued")}, ${first("waiting")})::text AS c0, ${first("unknown")}::text AS c1`,
    parameters.values,
  );
  const { c0, c1 } = row as Row;
  return { oldestPendingAt: c0 === null ? null : Number(c0), oldestUnknownAt: c1 === null ? null : Number(c1) };
}

function of(parameters: Parameters, tenant: string | undefined): string {
  return tenant === undefined ? "" : ` AND r.tenant = ${parameters.add(tenant)}`;
}

function countOf({ c0, c1, c2 }: Row): Count {
  return { action: c0 as string, state: c1 as State, count: Number(c2) };
}
