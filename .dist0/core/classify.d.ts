/**
 * not-sent: surely nothing happened, worth another try · refused: surely nothing happened, and trying the same again
 * at once is pointless (4xx), a later call may · rejected: refused for good · doubt: may have happened
 */
export type Verdict = {
    readonly kind: "not-sent";
    readonly retryAfterMs: number | null;
    readonly cause: unknown;
} | {
    readonly kind: "refused";
    readonly cause: unknown;
} | {
    readonly kind: "rejected";
    readonly cause: unknown;
} | {
    readonly kind: "doubt";
    readonly why: string;
};
export declare function classify(error: unknown, now: number): Verdict;
