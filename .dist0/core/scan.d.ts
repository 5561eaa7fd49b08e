import { type Instant } from "./record.ts";
import type { LeaseQuery, LedgerStats, ListQuery, Page, Stored, SweepQuery } from "./store.ts";
/** Where a page ended. Creation time and key never change, so rows added meanwhile shift nothing. */
export interface Position {
    readonly createdAt: number;
    readonly key: string;
}
export declare function checkLimit(limit: number, where: string): void;
export declare function encodeCursor({ createdAt, key }: Position): string;
export declare function decodeCursor(cursor: string): Position;
/** Queued work that may be handed out now, the longest due first. */
export declare function dueRows(rows: readonly Stored[], query: LeaseQuery, at: Instant): Stored[];
export declare function pageOf(rows: readonly Stored[], query: ListQuery, at: Instant): Page;
export declare function statsOf(rows: readonly Stored[], at: Instant): LedgerStats;
/** Settled and past `keep`. The state is checked too: a doubt must never be swept, whatever its row says. */
export declare function sweepableRows(rows: readonly Stored[], query: SweepQuery, now: number): Stored[];
