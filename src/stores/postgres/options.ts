/** What postgresStore() takes, checked before anything is opened. */

import { type Duration, durationMs } from "../../core/duration.ts";
import { configError } from "../../core/errors.ts";
import { requireGiven } from "../../core/given-option.ts";
import { refuseUnknownOptions } from "../../core/options.ts";
import { isPgClient, isPgPool, isPostgresJs, isPostgresJsTransaction, isSupabaseClient } from "./client/clients.ts";
import type { DriverSource, PgClient, PgPool, PostgresJs, SupabaseClient } from "./client/driver.ts";
import { parsePostgresUrl } from "./client/url.ts";

export interface PostgresStoreOptions {
  /** postgres://user:password@host:5432/database; `?schema=`, `migrate`, `timeout` and `listen` may stand in it too. Loads `pg`, or else `postgres`. */
  readonly url?: string;
  /** A Pool of `pg`. Stays yours: close() leaves it open. */
  readonly pool?: PgPool;
  /** A connected Client of `pg`, for the ledger alone. Stays yours. */
  readonly client?: PgClient;
  /** The `sql` of postgres.js. Stays yours. */
  readonly sql?: PostgresJs;
  /** A client of supabase-js, made with the service_role key. Needs `nevertwice migrate --supabase` once. */
  readonly supabase?: SupabaseClient;
  /** "nevertwice" unless given. */
  readonly schema?: string;
  /** "auto" (the default) brings the schema up to date at the first use; "manual" leaves that to `nevertwice migrate`. */
  readonly migrate?: "auto" | "manual";
  /** Confines the store to one tenant: another's key is a miss, another's record is refused. */
  readonly tenant?: string;
  /** Row-level security by `nevertwice.tenant`, as a second wall behind `tenant`. */
  readonly rls?: boolean;
  /** How long a query may take before its connection is given up; 10 seconds unless given. */
  readonly timeout?: Duration;
  /** Waiting by LISTEN/NOTIFY on one more connection, where there is no pooler in between; true unless given. */
  readonly listen?: boolean;
}

export interface Settings extends DriverSource {
  readonly name: string;
  readonly schema: string;
  readonly migrate: "auto" | "manual";
  readonly tenant: string | undefined;
  readonly rls: boolean;
  readonly listen: boolean;
}

const DEFAULT_SCHEMA = "nevertwice";
const DEFAULT_TIMEOUT = "10s";
const KNOWN = "url pool client sql supabase schema migrate tenant rls timeout listen".split(" ");

export function checkOptions(options: PostgresStoreOptions): Settings {
  refuseUnknownOptions("postgresStore", options, KNOWN);
  const { url, pool, client, sql, supabase, tenant, rls = false } = options;
  if ([url, pool, client, sql, supabase].filter((given) => given !== undefined).length !== 1) {
    throw wrong(
      "give exactly one of url, pool (a pg Pool), client (a pg Client), sql (of postgres.js) and supabase (of supabase-js)",
    );
  }
  checkClients(options);
  // "" is a tenant here: the records that have none. Not with rls, where an empty setting names no tenant.
  if (tenant === undefined) requireGiven("postgresStore", options, ["tenant"]);
  // By default another ledger would be used, or rows of all tenants shown.
  requireGiven("postgresStore", options, ["schema", "rls"]);
  const parsed = url === undefined ? null : parsePostgresUrl(url);
  const schema = options.schema ?? parsed?.schema ?? DEFAULT_SCHEMA;
  const migrate = options.migrate ?? parsed?.migrate ?? "auto";
  const listen = options.listen ?? parsed?.listen ?? true;
  if (typeof schema !== "string" || schema.trim() === "" || Buffer.byteLength(schema) > 63)
    throw wrong(`schema is ${JSON.stringify(schema)}; it takes a name of at most 63 bytes`);
  if (migrate !== "auto" && migrate !== "manual")
    throw wrong(`migrate is ${JSON.stringify(migrate)}; it takes "auto" or "manual"`);
  if (tenant !== undefined && typeof tenant !== "string") throw wrong("tenant takes a string");
  if (rls && (tenant === undefined || tenant === ""))
    throw wrong(
      "rls needs tenant: row-level security shows a connection the rows of the tenant it names, and no others",
    );
  if (rls && supabase)
    throw wrong("rls is for connections; through supabase-js the tenant is kept apart by the statements themselves");
  const place = parsed?.name ?? `postgres (your ${givenName(options)})`;
  return {
    url: parsed?.url,
    pool,
    client,
    sql,
    supabase,
    name: schema === DEFAULT_SCHEMA ? place : `${place} schema ${schema}`,
    schema,
    // Over HTTP there is nobody to migrate as, and nothing to listen on.
    migrate: supabase ? "manual" : migrate,
    tenant,
    rls,
    listen: listen && !supabase,
    timeoutMs: durationMs(
      options.timeout ?? (parsed?.timeout as Duration | undefined) ?? DEFAULT_TIMEOUT,
      "postgresStore: timeout",
    ),
  };
}

function givenName(options: PostgresStoreOptions): string {
  if (options.supabase) return "supabase client";
  return options.pool ? "pool" : options.client ? "client" : "sql";
}

function checkClients({ pool, client, sql, supabase }: PostgresStoreOptions): void {
  if (supabase !== undefined && !isSupabaseClient(supabase))
    throw wrong("supabase is not a client of supabase-js: it needs rpc(), as createClient(url, key) returns it");
  if (pool !== undefined && !isPgPool(pool)) throw wrong("pool is not a Pool of pg: it needs connect() and query()");
  if (client !== undefined && !isPgClient(client))
    throw wrong("client is not a Client of pg: it needs query() and on(). A Pool goes into pool");
  if (sql !== undefined && (!isPostgresJs(sql) || isPostgresJsTransaction(sql)))
    throw wrong("sql is not the sql of postgres.js, as postgres(url) returns it");
}

function wrong(what: string) {
  return configError(`postgresStore: ${what}.`);
}
