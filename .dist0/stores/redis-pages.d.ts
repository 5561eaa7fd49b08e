/**
 * Listing. What is indexed by creation is merged until the page is full; what is open (claimed, sent) is indexed by its lease
 * and sorted here: there is only as much of it as is under way.
 */
import { type Instant } from "../core/record.ts";
import type { ListQuery, Page } from "../core/store.ts";
import type { Names } from "./redis-buckets.ts";
import type { RedisLink } from "./redis-link.ts";
import type { RedisRows } from "./redis-rows.ts";
export declare class RedisPages {
    #private;
    constructor(link: RedisLink, names: Names, rows: RedisRows);
    list(query: ListQuery, at: Instant): Promise<Page>;
}
