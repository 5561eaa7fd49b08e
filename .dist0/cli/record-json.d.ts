/** Records and outcomes as --json shows them. Times are epoch ms, as in the program's own outcomes. */
import type { Absent, Outcome } from "../core/outcome.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
export declare function recordJson(record: LedgerRecord, at: Instant): {
    key: string;
    action: string;
    version: number;
    tenant: string;
    scope: string | null;
    state: import("../core/record.ts").State;
    status: "absent" | "conflict" | "done" | "failed" | "in_flight" | "queued" | "unknown";
    lapsed: boolean;
    expired: boolean;
    attempt: number;
    queued: boolean;
    createdAt: number;
    updatedAt: number;
    dueAt: number | null;
    doubtSince: number | null;
    why: string | null;
    settledAt: number | null;
    expiresAt: number | null;
    final: boolean;
    error: import("../core/record.ts").StoredError | null;
};
export declare function fullRecordJson(record: LedgerRecord, at: Instant): {
    key: string;
    action: string;
    version: number;
    tenant: string;
    scope: string | null;
    state: import("../core/record.ts").State;
    status: "absent" | "conflict" | "done" | "failed" | "in_flight" | "queued" | "unknown";
    lapsed: boolean;
    expired: boolean;
    attempt: number;
    queued: boolean;
    createdAt: number;
    updatedAt: number;
    dueAt: number | null;
    doubtSince: number | null;
    why: string | null;
    settledAt: number | null;
    expiresAt: number | null;
    final: boolean;
    error: import("../core/record.ts").StoredError | null;
    fence: number;
    tries: number;
    holder: string | null;
    leaseLeftMs: number | null;
    firstSentAt: number | null;
    lastSentAt: number | null;
    doubted: boolean;
    keepMs: number | null;
    input: {
        sealed: boolean;
        omitted?: never;
        value?: never;
    } | {
        sealed?: never;
        omitted: string;
        value?: never;
    } | {
        sealed?: never;
        omitted?: never;
        value: unknown;
    } | null;
    draft: {
        sealed: boolean;
        omitted?: never;
        value?: never;
    } | {
        sealed?: never;
        omitted: string;
        value?: never;
    } | {
        sealed?: never;
        omitted?: never;
        value: unknown;
    } | null;
    result: {
        sealed: boolean;
        omitted?: never;
        value?: never;
    } | {
        sealed?: never;
        omitted: string;
        value?: never;
    } | {
        sealed?: never;
        omitted?: never;
        value: unknown;
    } | null;
    history: readonly import("../core/record.ts").HistoryEntry[];
};
export declare function outcomeJson(outcome: Outcome<unknown> | Absent): Absent | {
    readonly status: "done";
    readonly key: string;
    readonly result: unknown;
    readonly replayed: boolean;
    readonly attempt: number;
    readonly at: number;
    readonly differs?: readonly string[];
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
    readonly status: "unknown";
    readonly key: string;
    readonly since: number;
    readonly attempt: number;
    readonly why: string;
} | {
    readonly status: "conflict";
    readonly key: string;
    readonly differs: readonly string[];
} | {
    status: "failed";
    key: string;
    final: boolean;
    retryAt?: number;
    error: import("../core/record.ts").StoredError;
};
