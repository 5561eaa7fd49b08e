/** Which client a program gave, by its shape. Apart from the drivers, so that options are checked before those are loaded. */

import type { SupabaseClient } from "../supabase/client.ts";
import type { PgClient } from "./pg.ts";
import type { PostgresJs } from "./postgres-js.ts";
import type { PgPool } from "./sessions.ts";

export function isPgPool(value: unknown): value is PgPool {
  const pool = value as Partial<PgPool> | null;
  return (
    typeof pool === "object" &&
    pool !== null &&
    typeof pool.connect === "function" &&
    typeof pool.query === "function" &&
    typeof pool.totalCount === "number"
  );
}

export function isPgClient(value: unknown): value is PgClient {
  const client = value as Partial<PgClient & PgPool> | null;
  return (
    typeof client === "object" &&
    client !== null &&
    typeof client.query === "function" &&
    typeof client.on === "function" &&
    client.totalCount === undefined &&
    "processID" in client
  );
}

export function isPostgresJs(value: unknown): value is PostgresJs {
  return typeof value === "function" && typeof (value as Partial<PostgresJs>).unsafe === "function";
}

/** A transaction has savepoints; the pool does not. */
export function isPostgresJsTransaction(value: unknown): value is PostgresJs {
  return isPostgresJs(value) && typeof value.savepoint === "function";
}

export function isSupabaseClient(value: unknown): value is SupabaseClient {
  return typeof (value as Partial<SupabaseClient> | null)?.rpc === "function";
}
