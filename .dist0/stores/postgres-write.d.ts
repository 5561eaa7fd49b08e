/**
 * Compare-and-swap, one statement for a batch. A batch's statement is parsed and planned when it comes: what is null in
 * every new row, or as before in every settled one, is left out of it.
 */
import type { Put } from "../core/store.ts";
import { type Row, type SqlText } from "./postgres-row.ts";
/** How a put is carried out: `settle` leaves alone what the row is known to hold. */
type Way = "insert" | "settle" | "replace";
export interface PlannedPut {
    readonly put: Put;
    readonly way: Way;
    readonly hex: string;
    readonly rev: number;
    readonly fixed: readonly SqlText[];
    readonly moving: readonly SqlText[];
    /** What the row held of MOVING before; null where that is not known. */
    readonly before: readonly SqlText[] | null;
}
export interface PutFacts {
    readonly hex: string;
    readonly now: number;
    /** Known where all of FIXED is as before. */
    readonly before: readonly SqlText[] | null;
}
export declare function planPut(put: Put, { hex, now, before }: PutFacts): PlannedPut;
export interface Statement {
    readonly text: string;
    readonly values: readonly SqlText[];
}
/** A lone caller pays for a statement as one would write it by hand: no arrays, no join, one of a few texts. */
export declare function singleWrite(table: string, planned: PlannedPut, now: number): Statement;
/** The same, with the server's clock on the way back. */
export declare function timed({ text, values }: Statement): Statement;
/**
 * The batch comes sorted by key, and rows are locked in that order: first the new ones, then the existing ones, so that
 * two batches never wait for each other in a circle. It answers with the keys that won only where not all did.
 */
export declare function batchWrite(table: string, puts: readonly PlannedPut[], now: number): Statement;
/** Who won, by hexadecimal key; null: everybody. */
export declare function winners({ c1, c2 }: Row, size: number): ReadonlySet<string> | null;
export {};
