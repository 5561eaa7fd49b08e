import type { ListQuery, Page, Stored } from "../core/store.ts";
import { type LeaseTables } from "./postgres-groups.ts";
import type { Statement } from "./postgres-write.ts";
/** One row more than asked for shows that there is another page. */
export declare function listStatement({ table, meta }: LeaseTables, query: ListQuery, now: number): Statement;
export declare function pageOf(rows: readonly Stored[], { limit }: ListQuery): Page;
