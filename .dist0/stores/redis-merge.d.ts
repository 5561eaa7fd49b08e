/** The indexes of all buckets as one list in the order of creation, read part by part and filtered by the server. */
import type { Position } from "../core/scan.ts";
import type { ListQuery } from "../core/store.ts";
import { type Names } from "./redis-buckets.ts";
import { type IndexType } from "./redis-index.ts";
import { type RedisLink } from "./redis-link.ts";
interface Span {
    readonly bucket: number;
    readonly min: number;
    readonly max: number;
    /** Members at the beginning to pass over. */
    readonly offset: number;
}
/** What one look at a span brought. */
interface Part {
    readonly seen: number;
    /** The last score seen, and how many members had it. */
    readonly last: number;
    readonly tail: number;
    readonly found: readonly Position[];
}
export declare class IndexReader {
    #private;
    constructor(link: RedisLink, names: Names, query: ListQuery);
    get part(): number;
    read(spans: readonly Span[], sign: number): Promise<Part[]>;
}
/** Several spans merged by the time they are indexed by: creation, but for what is open the end of the lease. */
export declare class Merge {
    #private;
    constructor(reader: IndexReader, types: readonly IndexType[], sign: number, after: Position | null);
    /** The next ones, up to `count`; fewer: there are no more. */
    next(count: number): Promise<Position[]>;
}
export declare function byCreation(a: Position, b: Position): number;
export declare function beyond(position: Position, after: Position | null, sign: number): boolean;
export {};
