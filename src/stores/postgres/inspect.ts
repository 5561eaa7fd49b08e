/** What doctor shows: which server this is, what a record survives on it, and what keeps its tables from being tidied. */
import type { Finding } from "../../core/store.ts";
import type { Connection } from "./client/connection.ts";
import { look } from "./migrate.ts";
import type { Settings } from "./options.ts";
import type { LeaseTables } from "./sql/groups.ts";
import type { Row } from "./sql/row.ts";
import { SCHEMA_VERSION } from "./sql/schema.ts";

export interface InspectOptions {
  readonly tables: LeaseTables;
  readonly settings: Settings;
  /** How waiters are woken. */
  readonly waiting: string;
  /** From when on tidiness is complained about. */
  readonly alarm?: Alarm;
}

interface Alarm {
  readonly snapshotSeconds: number;
  readonly deadRows: number;
}

// PostgreSQL 13 has the incremental sort that pages of a large ledger rely on.
const OLDEST_SERVER = 130_000;
// A snapshot of five minutes keeps vacuum from removing what each guard leaves behind.
const ALARM: Alarm = { snapshotSeconds: 300, deadRows: 100_000 };
const MANY_DEAD = 0.5;
// Who keeps rows of this database from being removed: by a snapshot, or by a transaction that has written. What the server
// itself does (vacuum) is not in anybody's way.
const HOLDERS = `FROM pg_stat_activity WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        AND datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`;

export async function inspectServer(run: Connection, options: InspectOptions): Promise<readonly Finding[]> {
  const { tables, settings, waiting, alarm = ALARM } = options;
  const found = await look(run, settings.schema);
  const [row] = await run.query(
    `SELECT current_setting('server_version') AS c0, current_setting('server_version_num') AS c1,
       current_setting('synchronous_commit') AS c2, current_setting('synchronous_standby_names') AS c3,
       current_setting('fsync') AS c4, current_setting('full_page_writes') AS c5,
       pg_size_pretty(pg_total_relation_size(to_regclass($1::text))) AS c6,
       coalesce(s.n_live_tup, 0)::text AS c7, coalesce(s.n_dead_tup, 0)::text AS c8,
       (SELECT round(extract(epoch FROM clock_timestamp() - min(xact_start)))::text ${HOLDERS}) AS c9,
       (SELECT concat_ws(', ', 'pid ' || pid, usename, nullif(application_name, ''), state) ${HOLDERS}
        ORDER BY xact_start LIMIT 1) AS c10,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')::text AS c11
     FROM (SELECT 1) one LEFT JOIN pg_stat_user_tables s ON s.relid = to_regclass($1::text)`,
    [tables.table],
  );
  const server = row as Row;
  return [
    {
      name: "server",
      value: `PostgreSQL ${server.c0}, ${found.standby ? "standby" : "primary"}`,
      ok: Number(server.c1) >= OLDEST_SERVER && !found.standby,
      advice: found.standby
        ? "connect to the primary: a standby cannot hold claims"
        : "upgrade to PostgreSQL 13 or later",
    },
    {
      name: "schema",
      value: `${settings.schema}, version ${found.state?.version ?? 0} of ${SCHEMA_VERSION}`,
      ok: true,
    },
    durability(server),
    replication(server),
    { name: "row security", value: found.rls ? "on" : "off", ok: found.rls || !settings.rls },
    { name: "waiting", value: waiting, ok: true },
    ...tidiness(server, tables.table, alarm),
  ];
}

function durability({ c2, c4, c5 }: Row): Finding {
  const off = c4 !== "on" ? "fsync" : c5 !== "on" ? "full_page_writes" : c2 === "off" ? "synchronous_commit" : null;
  return {
    name: "commit",
    value:
      off === null
        ? `synchronous_commit = ${c2}: an acknowledged record survives a crash and power loss of the server`
        : `${off} is off: a crash can take acknowledged records back, and what they guarded may happen twice`,
    ok: off === null,
    advice: `set ${off} = on, for the whole server or for the ledger's role (ALTER ROLE … SET synchronous_commit = on)`,
  };
}

function replication({ c2, c3 }: Row): Finding {
  const synchronous = (c3 ?? "").trim() !== "" && (c2 === "on" || c2 === "remote_apply");
  return {
    name: "failover",
    value: synchronous
      ? `synchronous standbys (${c3}): an acknowledged record survives the loss of the primary`
      : "no synchronous standby: a failover can lose the last acknowledged records (set synchronous_standby_names)",
    ok: true,
  };
}

function tidiness({ c6, c7, c8, c9, c10, c11 }: Row, table: string, { snapshotSeconds, deadRows }: Alarm): Finding[] {
  const [live, dead, seconds] = [c7, c8, c9].map(Number) as [number, number, number];
  const bloated = dead > deadRows && dead > MANY_DEAD * live;
  const held = c9 !== null && seconds > snapshotSeconds;
  // The server hides from a plain role how long others' transactions have been open.
  const sight = c11 === "true" ? "" : ", as far as this role may see (GRANT pg_read_all_stats shows the others')";
  return [
    {
      name: "table",
      value: `${c6}, about ${live} live and ${dead} dead rows`,
      ok: !bloated,
      advice: `let vacuum catch up: end what holds the oldest snapshot (below), then VACUUM ${table}; if it happens again, raise autovacuum_vacuum_cost_limit`,
    },
    {
      name: "oldest snapshot",
      value: `${c9 === null ? "none" : `${seconds} s, held by ${c10}`}${sight}`,
      ok: !held,
      advice:
        "a transaction this old keeps vacuum from tidying up after workers: end what it waits for, or end it with SELECT pg_terminate_backend(<its pid>), and set idle_in_transaction_session_timeout",
    },
  ];
}
