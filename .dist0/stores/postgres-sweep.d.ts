import { type LeaseTables } from "./postgres-groups.ts";
import type { Statement } from "./postgres-write.ts";
export declare const SWEEP_ROWS = 1000;
/**
 * Within a group (one action, one keep) the index is in the order of creation, and nothing expires before its creation
 * plus the keep: only rows that may be over are looked at. A row taken again meanwhile is no longer settled, and stays.
 */
export declare function sweepStatement({ table }: LeaseTables, { limit, now, tenant }: {
    limit: number;
    now: number;
    tenant: string | undefined;
}): Statement;
/**
 * Claims that outlive their youth are marked, and the mark moves past them, at most WATCH_ROWS rows of a group at a
 * time. A row that changes meanwhile is marked by its own writer, which knows its age. Answers with the mark, and
 * whether there is more to do.
 */
export declare function watchStatement({ table, meta }: LeaseTables, now: number): Statement;
