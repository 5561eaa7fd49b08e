import { type Instant } from "../core/record.ts";
import type { LeaseQuery, LedgerStats, ListQuery, Put, PutResult, Stored, SweepQuery } from "../core/store.ts";
import type { SqliteHandle } from "./sqlite-driver.ts";
import { type Row, type RowValues } from "./sqlite-row.ts";
/** A put, encoded where the record lives, so that a worker thread only binds values. */
export interface RowPut {
    readonly row: RowValues;
    readonly expected: number | null;
}
export type RowPutResult = {
    readonly ok: true;
    readonly version: number;
} | {
    readonly ok: false;
    readonly row: Row | null;
};
export declare function encodePut(put: Put): RowPut;
export declare function decodePutResult(result: RowPutResult, where: string): PutResult;
export declare class SqliteLedger {
    #private;
    constructor(db: SqliteHandle, where: string);
    readRows(keys: readonly string[]): (Row | null)[];
    read(keys: readonly string[]): (Stored | null)[];
    /** One transaction for the batch; each put succeeds or conflicts on its own. */
    write(puts: readonly RowPut[]): RowPutResult[];
    /**
     * On a connection that is not ours alone. Always with a BEGIN of its own: it fails inside somebody else's transaction,
     * whose rollback would take an acknowledged claim back.
     */
    commit(puts: readonly RowPut[]): RowPutResult[];
    /** Inside a transaction somebody else began. */
    writeWithin(puts: readonly RowPut[]): RowPutResult[];
    lease(query: LeaseQuery, at: Instant): Stored[];
    list(query: ListQuery, at: Instant): {
        items: Stored[];
        cursor: string | null;
    };
    stats(at: Instant): LedgerStats;
    /**
     * Removes what is past its `keep`, window by window, going round the table from where the last sweep stopped. It ends
     * when the limit is reached, when a whole round is done, or, for a background pass, when a window held little to remove.
     */
    sweep(query: SweepQuery, at: Instant): number;
    /** Everything in the file agrees with itself; the first disagreement otherwise. */
    check(): string | null;
    transaction<T>(work: () => T): T;
}
