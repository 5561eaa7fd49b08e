/** An action's options, checked once when the action is made, in milliseconds from then on. */
import { type Duration } from "./duration.ts";
export interface RetryOptions {
    /** Tries in one round, the first one included. */
    readonly attempts?: number;
    readonly backoff?: Duration;
    readonly max?: Duration;
}
/** What a probe may answer; anything else counts as "unknown". */
export type ProbeAnswer<R> = {
    readonly as: "done";
    readonly result?: R;
} | {
    readonly as: "not-done";
} | {
    readonly as: "unknown";
} | "not-done" | "unknown";
/** How an attempt in doubt may be settled without a person. */
export interface SettleOptions<Probe> {
    /** The provider honours our key: send the same bytes again, only this long after the first time. */
    readonly resendWithin?: Duration;
    /** The provider can be asked. */
    readonly probe?: Probe;
    /** How long after the doubt began no earlier attempt can still arrive. Needed with `probe`. */
    readonly quietFor?: Duration;
}
export type DoubtOption<Probe> = "hold" | "retry" | SettleOptions<Probe>;
export interface PolicyOptions<Probe> {
    readonly keep?: Duration | "forever";
    readonly lease?: Duration;
    readonly timeout?: Duration;
    readonly wait?: Duration;
    readonly doubt?: DoubtOption<Probe>;
    readonly retry?: RetryOptions;
    /** The ledger can't be reached: "refuse" (nothing is run), or "run" without its protection. */
    readonly whenStoreDown?: "refuse" | "run";
}
export type DoubtPolicy = {
    readonly kind: "hold";
} | {
    readonly kind: "retry";
} | {
    readonly kind: "settle";
    readonly resendWithinMs: number | null;
    readonly probe: {
        readonly quietForMs: number;
    } | null;
};
export interface Policy {
    readonly keepMs: number | null;
    readonly leaseMs: number;
    readonly timeoutMs: number;
    readonly waitMs: number;
    readonly doubt: DoubtPolicy;
    readonly attempts: number;
    readonly backoffMs: number;
    readonly maxBackoffMs: number;
    readonly failOpen: boolean;
}
/** Retention by the weight of the effect; `keep` takes any of them, or a duration of your own. */
export declare const keepFor: {
    readonly payment: "forever";
    readonly notification: "7d";
    readonly mail: "24h";
    /** A scheduled effect guards its slot for at least two intervals. */
    readonly scheduled: (interval: Duration) => number;
};
export declare function resolvePolicy<Probe>(options: PolicyOptions<Probe>, where: string): Policy;
/** Exponential with full jitter and a cap; a provider's own word (`Retry-After`) is a floor. */
export declare function backoffMs(policy: Policy, tries: number, retryAfterMs: number | null, random: () => number): number;
export interface PolicyWarning {
    readonly code: "KEEP_TOO_SHORT" | "KEEP_SHORT_FOR_MONEY";
    readonly message: string;
}
export declare function policyWarnings(policy: Policy, action: string): PolicyWarning[];
/** The longest one round of tries may take from its first attempt to its last. */
export declare function retryHorizonMs(policy: Policy): number;
