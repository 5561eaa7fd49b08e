import { type Driver } from "./postgres-connection.ts";
import type { Row, SqlText } from "./postgres-row.ts";
interface PendingQuery extends PromiseLike<unknown> {
    cancel?(): void;
}
/** By shape: what `postgres(url)` returns. */
export interface PostgresJs {
    unsafe(text: string, values?: never[], options?: {
        prepare?: boolean;
    }): PendingQuery;
    reserve?(): Promise<unknown>;
    listen?(channel: string, heard: (payload: string) => void): PromiseLike<{
        unlisten(): Promise<void>;
    }>;
    savepoint?: unknown;
    end?(options?: {
        timeout?: number;
    }): Promise<void>;
}
export declare function isPostgresJs(value: unknown): value is PostgresJs;
/** A transaction has savepoints; the pool does not. */
export declare function isPostgresJsTransaction(value: unknown): value is PostgresJs;
export declare function queryJs(sql: PostgresJs, text: string, values: readonly SqlText[]): Promise<Row[]>;
export declare function postgresJsDriver(sql: PostgresJs, { timeoutMs, owned }: {
    timeoutMs: number;
    owned: boolean;
}): Driver;
export {};
