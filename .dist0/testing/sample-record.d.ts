/** Records to test with: valid ones, in the states and at the times a test is about. */
import type { Instant, LedgerRecord } from "../core/record.ts";
export declare const MINUTE = 60000;
export declare const LONG: number;
/** A valid record, with the times its state comes with; a test names only what it is about. */
export declare function sampleRecord(overrides?: Partial<LedgerRecord>): LedgerRecord;
/** Every field set to something that is neither null, empty nor its neighbour's value. */
export declare function filledRecord(overrides?: Partial<LedgerRecord>): LedgerRecord;
export declare function dueRecord(at: Instant, key: string, overrides?: Partial<LedgerRecord>): LedgerRecord;
export declare function leasedRecord(at: Instant, key: string, leftMs: number, overrides?: Partial<LedgerRecord>): LedgerRecord;
export declare function settledRecord(at: Instant, key: string, overrides?: Partial<LedgerRecord>): LedgerRecord;
/** What has lapsed is `nt1_claimed_lapsed`, `nt1_sent_lapsed` and `nt1_otherboot`. */
export declare function lapsedAndNot(at: Instant): LedgerRecord[];
export declare function numberedKey(index: number): string;
export declare function times<T>(count: number, make: (index: number) => T): T[];
