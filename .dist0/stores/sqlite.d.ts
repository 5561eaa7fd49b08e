import type { Instant } from "../core/record.ts";
import type { TransactionalStore } from "../core/store.ts";
import { type SqliteHandle } from "./sqlite-driver.ts";
export type { SqliteHandle, SqliteStatement } from "./sqlite-driver.ts";
export interface SqliteStoreOptions {
    /** The file. Made when it is not there. */
    readonly path?: string;
    /** A connection of your own instead (node:sqlite, @photostructure/sqlite, better-sqlite3): the ledger lives in your database, on your thread. */
    readonly database?: SqliteHandle;
    readonly clock?: {
        instant(): Instant;
    };
    /** How long a lock of another process is waited for. */
    readonly busyMs?: number;
}
export declare function sqliteStore(options: SqliteStoreOptions): TransactionalStore<SqliteHandle>;
