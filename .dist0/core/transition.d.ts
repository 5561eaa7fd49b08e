/**
 * The ledger's state machine: one pure function. Stores swap what it returns; nothing else decides what may follow what.
 *
 * Two rules run through it. Permissions (claim, mark, heartbeat) need a live lease and the present fence. Facts about
 * success are welcome late, from any fence: the effect happened, whoever says so. Facts about failure are not: an old
 * attempt's refusal says nothing about the attempt that followed it.
 */
import { type Fingerprint, type Instant, type LedgerRecord, type Payload, type StoredError } from "./record.ts";
/** What a record needs to begin. */
export interface Intent {
    readonly key: string;
    readonly tenant: string;
    readonly action: string;
    readonly version: number;
    readonly scope: string | null;
    readonly fingerprint: Fingerprint;
    readonly input: Payload | null;
    readonly keepMs: number | null;
}
/** Who holds an attempt: the fence it was claimed with and the random id of the claimer. */
export interface Hold {
    readonly fence: number;
    readonly holder: string;
}
/** Why an attempt in doubt may be run again. */
export type ResendPermit = {
    readonly because: "asked-for";
} | {
    readonly because: "provider-key";
    readonly windowMs: number;
};
export type LedgerEvent = {
    readonly type: "enqueue";
    readonly intent: Intent;
    readonly dueAt: number;
    readonly by?: string;
    readonly reason?: string;
} | {
    readonly type: "claim";
    /** Absent when a worker takes what the ledger already holds. */
    readonly intent?: Intent;
    readonly to: "claimed" | "sent";
    readonly holder: string;
    readonly leaseMs: number;
    /** The first claim of a call begins a new round of tries. */
    readonly newRound: boolean;
    readonly by?: string;
    readonly reason?: string;
} | {
    readonly type: "resend";
    readonly permit: ResendPermit;
    readonly holder: string;
    readonly leaseMs: number;
    readonly newRound: boolean;
} | {
    readonly type: "mark";
    readonly hold: Hold;
    readonly leaseMs: number;
    readonly timeoutMs: number;
    readonly draft: Payload | null;
} | {
    readonly type: "heartbeat";
    readonly hold: Hold;
    readonly leaseMs: number;
} | {
    readonly type: "confirm";
    readonly hold: Hold;
    readonly result: Payload | null;
} | {
    readonly type: "not-sent";
    readonly hold: Hold;
    readonly error: StoredError;
    /** When to try next; null: no tries left, or refused. */
    readonly retryAt: number | null;
    /** Refused for good. */
    readonly final: boolean;
} | {
    readonly type: "doubt";
    readonly hold: Hold;
    readonly why: string;
    readonly error: StoredError | null;
} | {
    readonly type: "lapse";
} | {
    readonly type: "probed";
    readonly fence: number;
    readonly quietForMs: number;
    readonly answer: {
        readonly as: "done";
        readonly result: Payload | null;
    } | {
        readonly as: "not-done";
    };
} | {
    readonly type: "resolve";
    readonly as: "done" | "not-done" | "failed";
    readonly result: Payload | null;
    readonly by: string;
    readonly reason: string;
} | {
    readonly type: "retry";
    readonly by: string;
    readonly reason: string;
};
export type Refusal = "absent" | "exists" | "leased" | "not-due" | "final" | "in-doubt" | "not-in-doubt" | "not-failed" | "stale" | "lease-lost" | "no-room" | "too-early" | "window-over";
export type Change = {
    readonly ok: true;
    readonly record: LedgerRecord;
} | {
    readonly ok: false;
    readonly refusal: Refusal;
};
export declare function transition(current: LedgerRecord | null, event: LedgerEvent, at: Instant): Change;
/** The provider's window runs from the first time the key may have reached it. */
export declare function windowOver(record: LedgerRecord, windowMs: number, at: Instant): boolean;
/** How long until every earlier attempt has had time to arrive; 0: it has. */
export declare function quietInMs(record: LedgerRecord, quietForMs: number, at: Instant): number;
