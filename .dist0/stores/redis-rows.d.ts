import type { Put, PutResult, Stored } from "../core/store.ts";
import { type Names } from "./redis-buckets.ts";
import { type RedisLink } from "./redis-link.ts";
export declare class RedisRows {
    #private;
    constructor(link: RedisLink, names: Names, now: () => number);
    read(keys: readonly string[]): Promise<(Stored | null)[]>;
    write(puts: readonly Put[]): Promise<PutResult[]>;
}
