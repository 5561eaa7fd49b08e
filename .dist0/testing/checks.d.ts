import { type ErrorCode } from "../core/errors.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { LeaseQuery, PutResult, Store, Stored } from "../core/store.ts";
/** What a worker asks for, unless a test asks for something else. */
export declare const LEASE: LeaseQuery;
export declare function seed(store: Store, records: readonly LedgerRecord[]): Promise<Stored[]>;
export declare function insert(store: Store, record: LedgerRecord): Promise<Stored>;
export declare function wonVersion(result: PutResult | undefined, what: string): number;
export declare function lostTo(result: PutResult | undefined, what: string): Stored | null;
export declare function readOne(store: Store, key: string): Promise<Stored | null>;
export declare function assertHolds(store: Store, expected: Stored, what: string): Promise<void>;
export declare function assertRoundTrip(store: Store, record: LedgerRecord, what: string): Promise<void>;
export declare function assertRefused(call: Promise<unknown>, code: ErrorCode | null, what: string): Promise<void>;
export declare function keysOf(rows: readonly Stored[]): string[];
export declare function sortedKeys(rows: readonly Stored[]): string[];
