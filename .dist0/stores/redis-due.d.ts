/**
 * Handing out queued work. A script picks what is due and puts it aside for a moment, so that no two workers get in each
 * other's way; core's own claim decides what the record becomes, and the swap makes it so. The rules stand in one place,
 * and a worker that dies between the two delays its records by that moment, no more.
 */
import type { Instant } from "../core/record.ts";
import type { LeaseQuery, Stored } from "../core/store.ts";
import { type Names } from "./redis-buckets.ts";
import { type RedisLink } from "./redis-link.ts";
import type { RedisRows } from "./redis-rows.ts";
import type { RedisUpkeep } from "./redis-upkeep.ts";
export declare class RedisDue {
    #private;
    constructor(parts: {
        link: RedisLink;
        names: Names;
        rows: RedisRows;
        upkeep: RedisUpkeep;
        instant: () => Instant;
    });
    lease(query: LeaseQuery): Promise<Stored[]>;
}
