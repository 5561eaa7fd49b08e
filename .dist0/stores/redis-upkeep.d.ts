import type { LedgerStats, SweepQuery } from "../core/store.ts";
import { type Names } from "./redis-buckets.ts";
import { type RedisLink } from "./redis-link.ts";
export declare class RedisUpkeep {
    #private;
    constructor(link: RedisLink, names: Names);
    sweep({ limit, thorough }: SweepQuery): Promise<number>;
    /** Entries of any buckets. Asked with the records' keys, so that a record on its way to another node is not taken for gone. */
    tidy(entries: readonly string[]): Promise<number>;
    /** Told of every record begun here; now and then it pays for them with a window of the walk, in the background. */
    inserted(count: number): void;
    stats(): Promise<LedgerStats>;
}
