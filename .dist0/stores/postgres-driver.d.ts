import type { Driver } from "./postgres-connection.ts";
import { type PostgresJs } from "./postgres-driver-js.ts";
import { type PgClient, type PgPool } from "./postgres-driver-pg.ts";
export type { PgClient, PgPool, PostgresJs };
export interface DriverSource {
    readonly url?: string | undefined;
    readonly pool?: PgPool | undefined;
    readonly client?: PgClient | undefined;
    readonly sql?: PostgresJs | undefined;
    readonly timeoutMs: number;
}
export declare function openDriver({ url, pool, client, sql, timeoutMs }: DriverSource): Promise<Driver>;
