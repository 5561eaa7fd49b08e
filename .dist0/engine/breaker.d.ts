/**
 * A circuit breaker in front of the store (O10). After a run of failures it answers at once instead of letting every
 * caller wait for a dead store, and lets one caller through now and then to see whether the store is back.
 */
import type { Clock } from "./clock.ts";
export type BreakerState = "closed" | "open" | "half-open";
export interface BreakerOptions {
    /** Failures in a row that open it. */
    readonly failures: number;
    /** How long it stays open at first; doubled at each failed trial, up to `maxOpenMs`. */
    readonly openMs: number;
    readonly maxOpenMs: number;
    readonly onChange?: (state: BreakerState, cause: unknown) => void;
}
export declare class Breaker {
    #private;
    constructor(clock: Clock, options: BreakerOptions);
    get state(): BreakerState;
    get lastError(): unknown;
    /** False: do not even try. In the half-open state only the caller that turned it half-open is let through. */
    allows(): boolean;
    succeeded(): void;
    failed(error: unknown): void;
    /** The trial ended without a verdict on the store (one bad row, a setting): the next caller is the trial. */
    undecided(): void;
}
