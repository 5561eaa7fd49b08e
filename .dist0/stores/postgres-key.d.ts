/** Hexadecimal, as SQL takes it. */
export declare function keyHex(key: string): string;
export declare function keyFromHex(hex: string): string;
/** What keys that begin with `prefix` look like in the table. */
export interface KeyRange {
    /** Digests from `low` to `high`, both included; null: no digest can begin so. */
    readonly digests: {
        readonly low: string;
        readonly high: string;
    } | null;
    /** Other texts from `low` to before `end`. */
    readonly texts: {
        readonly low: string;
        readonly end: string;
    };
}
export declare function keyRange(prefix: string): KeyRange;
