/** What a caller gets. */
import { NevertwiceError } from "./errors.ts";
import { type Instant, type LedgerRecord } from "./record.ts";
export type Outcome<R> = {
    readonly status: "done";
    readonly key: string;
    readonly result: R;
    readonly replayed: boolean;
    readonly attempt: number;
    /** Epoch ms of the confirmation. */
    readonly at: number;
    /** Free fields that differ from the input that was sent. */
    readonly differs?: readonly string[];
    /** Set when the result could not be stored, so that a replay has none; says why. */
    readonly resultOmitted?: string;
} | {
    readonly status: "in_flight";
    readonly key: string;
    readonly since: number;
    readonly until: number;
} | {
    readonly status: "queued";
    readonly key: string;
    readonly dueAt: number;
} | {
    readonly status: "failed";
    readonly key: string;
    readonly error: unknown;
    readonly final: boolean;
    readonly retryAt?: number;
} | {
    readonly status: "unknown";
    readonly key: string;
    readonly since: number;
    readonly attempt: number;
    readonly why: string;
} | {
    readonly status: "conflict";
    readonly key: string;
    readonly differs: readonly string[];
};
export type Absent = {
    readonly status: "absent";
    readonly key: string;
};
/** How a record reads to somebody who does not hold it. `open` turns the stored result back into a value. */
export declare function outcomeOfRecord<R>(record: LedgerRecord, at: Instant, read: {
    result(record: LedgerRecord): {
        value: R;
        omitted?: string;
    };
    error(record: LedgerRecord): unknown;
}): Outcome<R> | Absent;
/** The error that `action()` throws for an outcome that is not done. */
export declare function errorForOutcome(outcome: Outcome<unknown> | Absent, action: string, cause?: unknown): NevertwiceError;
