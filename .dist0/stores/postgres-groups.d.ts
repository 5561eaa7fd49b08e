/** How rows are found in the order of their creation, and which claims may have been left by their holders. */
import type { Parameters } from "./postgres-arrays.ts";
export interface LeaseTables {
    readonly table: string;
    readonly meta: string;
}
/** A claim is looked for by its creation until it is twice as old as where `leased` begins: no gap between the two. */
export declare const WATCH_MS: number;
/**
 * The actions and keeps in the table, one index probe each (a loose scan): there are few, however many rows. Within a
 * group the index is in the order of creation.
 */
export declare function groupsOf(table: string): string;
/** Up to here, by creation, every live claim is marked as leased. Behind the server's clock also after that was set back. */
export declare function watchedTo(meta: string, now: string): string;
/**
 * The rows `r` that a silent holder may have left: the marked ones, and those too young to be marked. `columns` must
 * tell rows apart (the two ends may overlap), and are seen under the same names by `where`.
 */
export declare function leasedRows({ table, meta }: LeaseTables, columns: string, where: string, now: string): string;
export declare function lapsed(now: string): string;
/** `column = any of` as SQL; no value at all matches nothing. */
export declare function anyOf(parameters: Parameters, column: string, values: readonly string[]): string;
