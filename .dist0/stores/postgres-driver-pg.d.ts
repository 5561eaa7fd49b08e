import { type Driver } from "./postgres-connection.ts";
/** By shape, as all of this file: `new pg.Client()`, connected. */
export interface PgClient {
    query(text: string, values?: never[]): Promise<{
        readonly rows: unknown[];
    }>;
    on(...args: never[]): unknown;
    /** "I" idle, "T" in a transaction, "E" in a failed one; since pg 8.17. */
    getTransactionStatus?(): string | null;
}
/** By shape: `new pg.Pool()`. */
export interface PgPool {
    connect(): Promise<unknown>;
    query(text: string, values?: never[]): Promise<{
        readonly rows: unknown[];
    }>;
    end(): Promise<void>;
    on?(event: "error", listener: () => void): unknown;
    readonly totalCount?: number;
    readonly Client?: unknown;
    readonly options?: unknown;
}
export declare function isPgPool(value: unknown): value is PgPool;
export declare function isPgClient(value: unknown): value is PgClient;
export declare function pgPoolDriver(pool: PgPool, { timeoutMs, owned }: {
    timeoutMs: number;
    owned: boolean;
}): Driver;
export declare function pgClientDriver(given: PgClient, timeoutMs: number): Driver;
