/** Handing out due work in SQL: what core's claim does to a record, done to a row (a test compares the two). */
import type { LeaseQuery } from "../core/store.ts";
import { type LeaseTables } from "./postgres-groups.ts";
import type { Statement } from "./postgres-write.ts";
/** The longest due first, from the index of due work alone. SKIP LOCKED: workers pass each other by. */
export declare function leaseDue({ table }: LeaseTables, query: LeaseQuery, now: number): Statement;
/** Queued work whose holder fell silent before sending: found first, then locked as it is. */
export declare function leaseLapsed(tables: LeaseTables, query: LeaseQuery, now: number): Statement;
