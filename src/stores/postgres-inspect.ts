/** What doctor shows: which server this is, what a record survives on it, and what keeps its tables from being tidied. */
import type { Finding } from "../core/store.ts";
import type { Connection } from "./postgres-connection.ts";
import type { LeaseTables } from "./postgres-groups.ts";
import { look } from "./postgres-migrate.ts";
import type { Settings } from "./postgres-options.ts";
import type { Row } from "./postgres-row.ts";
import { SCHEMA_VERSION } from "./postgres-schema.ts";

export interface InspectOptions {
  readonly tables: LeaseTables;
  readonly settings: Settings;
  readonly listening: boolean;
}

// PostgreSQL 13 has the incremental sort that pages of a large ledger rely on.
const OLDEST_SERVER = 130_000;
// A snapshot this old keeps vacuum from removing what each guard leaves behind.
const OLD_SNAPSHOT_SECONDS = 300;
const MANY_DEAD = 0.5;

export async function inspectServer(run: Connection, options: InspectOptions): Promise<readonly Finding[]> {
  const { tables, settings, listening } = options;
  const found = await look(run, settings.schema);
  const [row] = await run.query(
    `SELECT current_setting('server_version') AS c0, current_setting('server_version_num') AS c1,
       current_setting('synchronous_commit') AS c2, current_setting('synchronous_standby_names') AS c3,
       current_setting('fsync') AS c4, current_setting('full_page_writes') AS c5,
       pg_size_pretty(pg_total_relation_size(to_regclass($1::text))) AS c6,
       coalesce(s.n_live_tup, 0)::text AS c7, coalesce(s.n_dead_tup, 0)::text AS c8,
       (SELECT round(extract(epoch FROM clock_timestamp() - min(xact_start)))::text FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()) AS c9,
       (SELECT concat_ws(', ', 'pid ' || pid, usename, nullif(application_name, ''), state) FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1) AS c10
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
    {
      name: "waiting",
      value: listening ? "LISTEN/NOTIFY" : "polling (a pooler in between, or listen is off)",
      ok: true,
    },
    ...tidiness(server),
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

function tidiness({ c6, c7, c8, c9, c10 }: Row): Finding[] {
  const [live, dead, seconds] = [c7, c8, c9].map(Number) as [number, number, number];
  const bloated = dead > 100_000 && dead > MANY_DEAD * live;
  const held = seconds > OLD_SNAPSHOT_SECONDS;
  return [
    {
      name: "table",
      value: `${c6}, about ${live} live and ${dead} dead rows`,
      ok: !bloated,
      advice: "let autovacuum keep up: look for old transactions, and at autovacuum_vacuum_cost_limit",
    },
    {
      name: "oldest snapshot",
      value: c9 === null ? "none" : `${seconds} s, held by ${c10}`,
      ok: !held,
      advice:
        "a transaction this old keeps vacuum from tidying up after workers: end what it waits for, or end it with SELECT pg_terminate_backend(<its pid>), and set idle_in_transaction_session_timeout",
    },
  ];
}
