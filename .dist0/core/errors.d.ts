/**
 * What nevertwice throws, and the two words a user's function may throw to say more than an exception can.
 */
export type ErrorCode = "IN_FLIGHT" | "FAILED" | "OUTCOME_UNKNOWN" | "KEY_CONFLICT" | "INVALID_KEY" | "INVALID_INPUT" | "LEASE_LOST" | "STORE_UNAVAILABLE" | "CONFIG";
export interface ErrorDetails {
    readonly key?: string | undefined;
    readonly cause?: unknown;
    readonly outcome?: unknown;
}
/** Every error of nevertwice: a stable `code`, the `key` where one is known, and a sentence that says what to do next. */
export declare class NevertwiceError extends Error {
    readonly name = "NevertwiceError";
    readonly code: ErrorCode;
    readonly key: string | undefined;
    /** The outcome that `attempt()` would have returned, where the error stands for one. */
    readonly outcome: unknown;
    constructor(code: ErrorCode, message: string, details?: ErrorDetails);
}
export interface NotSentOptions {
    /** When the provider said to come back: a duration ("30s", milliseconds) or a Date. */
    readonly retryAfter?: string | number | Date;
}
export interface NotSentMark {
    readonly cause: unknown;
    readonly retryAfter: string | number | Date | undefined;
}
/** Throw this from `run` or `prepare`: nothing left the house, so another try is safe. */
export declare function notSent(cause: unknown, options?: NotSentOptions): Error;
/** Throw this from `run` or `prepare`: the effect was refused for good and did not happen. */
export declare function rejected(cause: unknown): Error;
export declare function notSentMark(error: unknown): NotSentMark | undefined;
export declare function rejectedMark(error: unknown): {
    readonly cause: unknown;
} | undefined;
export declare function messageOf(error: unknown): string;
export declare function isNevertwiceError(error: unknown): error is NevertwiceError;
export declare function configError(message: string, cause?: unknown): NevertwiceError;
