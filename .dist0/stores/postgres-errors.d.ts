export interface Place {
    /** The store's name: host and database. */
    readonly where: string;
    readonly schema: string;
}
/** The SQLSTATE, also where a query builder wrapped the error. */
export declare function sqlState(error: unknown): string | null;
/** Lost a race that only one can win, or chosen as a deadlock's victim: nothing was written, and another try may do. */
export declare function isTransient(error: unknown): boolean;
export declare function storeError(error: unknown, place: Place): unknown;
