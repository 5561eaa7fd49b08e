/** What postgresStore() takes, checked before anything is opened. */
import { type Duration } from "../core/duration.ts";
import type { DriverSource, PgClient, PgPool, PostgresJs } from "./postgres-driver.ts";
export interface PostgresStoreOptions {
    /** postgres://user:password@host:5432/database; `?schema=` names the schema too. Loads `pg`, or else `postgres`. */
    readonly url?: string;
    /** A Pool of `pg`. Stays yours: close() leaves it open. */
    readonly pool?: PgPool;
    /** A connected Client of `pg`, for the ledger alone. Stays yours. */
    readonly client?: PgClient;
    /** The `sql` of postgres.js. Stays yours. */
    readonly sql?: PostgresJs;
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
export declare function checkOptions(options: PostgresStoreOptions): Settings;
