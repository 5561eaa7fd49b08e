/**
 * Where a record lies. The ledger is cut into 16 buckets, each in one hash slot: a record and the index that lists it
 * share a slot, so one script changes both or neither, on one server and on a cluster alike.
 *
 * Why 16: their slots stand evenly over the 16384, so a cluster of up to 16 primaries shares the work, and a batch of 128
 * rows is still 8 rows a script. More buckets mean smaller scripts; fewer mean that a slot under way to another node
 * takes more of the ledger with it. The number is part of the layout: changing it would hide every record.
 */
export declare const BUCKETS = 16;
/** As Redis Cluster does it: CRC-16/XMODEM. */
export declare function slotOf(tag: string): number;
/** For each sixteenth of the slots the first of "0", "1", … "z", "10", … that falls into it. */
export declare const TAGS: readonly string[];
/** FNV-1a. A key is a digest already; keys of tests and imports are not, and must spread as well. */
export declare function bucketOf(key: string): number;
/** The names of a ledger's keys: per bucket a sorted set, the index, and a string per record. */
export declare class Names {
    readonly indexes: readonly string[];
    /** One channel for a whole server; on a cluster each bucket has its own, named after its index. */
    readonly channel: string;
    constructor(prefix: string);
    index(bucket: number): string;
    record(key: string): string;
}
