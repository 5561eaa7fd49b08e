export interface SqliteStatement {
    run(...values: unknown[]): {
        readonly changes: number | bigint;
    };
    all(...values: unknown[]): unknown[];
}
export interface SqliteHandle {
    prepare(sql: string): SqliteStatement;
    exec(sql: string): unknown;
    close?(): void;
    /** node:sqlite */
    readonly isTransaction?: boolean;
    /** better-sqlite3 */
    readonly inTransaction?: boolean;
}
export interface SqliteDriver {
    readonly name: "node:sqlite" | "@photostructure/sqlite";
    open(path: string): SqliteHandle;
}
/** The SQLite that Node brings along; on Node 20, the same API as an optional package. */
export declare function loadDriver(): SqliteDriver;
export declare function isSqliteHandle(value: unknown): value is SqliteHandle;
/** Locked by another connection, or by a transaction that is open on this one: worth another try a little later. */
export declare function isBusy(error: unknown): boolean;
export declare function isWithinTransaction(error: unknown): boolean;
export declare function isCorrupt(error: unknown): boolean;
