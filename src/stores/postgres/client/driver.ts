/**
 * Clients by shape: a `pg` Pool or Client, a postgres.js `sql`, or a connection string for which one of them is loaded.
 * No session state, so that PgBouncer's transaction mode serves as well as a direct connection.
 */
import { configError, messageOf } from "../../../core/errors.ts";
import { requireInstalled } from "../../../engine/installed-package.ts";
import { type SupabaseClient, supabaseDriver } from "../supabase/client.ts";
import type { Driver } from "./connection.ts";
import { type PgClient, type PgPool, pgClientDriver, pgPoolDriver } from "./pg.ts";
import { type PostgresJs, postgresJsDriver } from "./postgres-js.ts";

export type { PgClient, PgPool, PostgresJs, SupabaseClient };

export interface DriverSource {
  readonly url?: string | undefined;
  readonly pool?: PgPool | undefined;
  readonly client?: PgClient | undefined;
  readonly sql?: PostgresJs | undefined;
  readonly supabase?: SupabaseClient | undefined;
  readonly schema: string;
  readonly timeoutMs: number;
}

export async function openDriver(source: DriverSource): Promise<Driver> {
  const { url, pool, client, sql, supabase, schema, timeoutMs } = source;
  if (supabase !== undefined) return supabaseDriver(supabase, schema, timeoutMs);
  if (pool !== undefined) return pgPoolDriver(pool, { timeoutMs, owned: false });
  if (client !== undefined) return pgClientDriver(client, timeoutMs);
  if (sql !== undefined) return postgresJsDriver(sql, { timeoutMs, owned: false });
  return loadDriver(url as string, timeoutMs);
}

// Two batches of writes and two of reads may be under way, and the sweep beside them.
const CONNECTIONS = 6;

function loadDriver(url: string, timeoutMs: number): Driver {
  const failures: string[] = [];
  const pg = load<{ Pool: new (options: object) => PgPool }>("pg", failures);
  if (pg !== null) {
    const pool = new pg.Pool({
      connectionString: url,
      max: CONNECTIONS,
      connectionTimeoutMillis: timeoutMs,
      fallback_application_name: "nevertwice",
      // A script that forgets close() still ends.
      allowExitOnIdle: true,
      keepAlive: true,
    });
    return pgPoolDriver(pool, { timeoutMs, owned: true });
  }
  const js = load<(url: string, options: object) => PostgresJs>("postgres", failures);
  if (js !== null) {
    const options = { max: CONNECTIONS, prepare: false, idle_timeout: 30, connect_timeout: timeoutMs / 1_000 };
    return postgresJsDriver(js(url, { ...options, onnotice: () => {} }), { timeoutMs, owned: true });
  }
  throw configError(
    `a ledger in PostgreSQL needs a driver, and none is installed. Run: npm install pg (or: npm install postgres). Tried ${failures.join("; ")}.`,
  );
}

function load<Module>(name: string, failures: string[]): Module | null {
  try {
    return requireInstalled(name) as Module;
  } catch (error) {
    failures.push(`${name}: ${messageOf(error).split("\n")[0]}`);
    return null;
  }
}
