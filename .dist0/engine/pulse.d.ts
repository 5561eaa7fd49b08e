import type { Stored } from "../core/store.ts";
import type { Hold } from "../core/transition.ts";
import type { Clock } from "./clock.ts";
import type { Ledger } from "./ledger.ts";
export type Interruption = {
    readonly kind: "timeout";
} | {
    readonly kind: "lease-lost";
};
export type Ended<T> = {
    readonly kind: "returned";
    readonly value: T;
} | {
    readonly kind: "threw";
    readonly error: unknown;
} | Interruption;
/** Wakes each pulse when it wants to be woken, with one timer for all. */
export declare class Heart {
    #private;
    readonly ledger: Ledger;
    readonly clock: Clock;
    constructor(ledger: Ledger, clock: Clock);
    add(pulse: Pulse): void;
    remove(pulse: Pulse): void;
    wakeBy(at: number): void;
}
export declare class Pulse {
    #private;
    constructor(heart: Heart, options: {
        leaseMs: number;
        timeoutMs: number;
        stored: Stored;
    });
    get signal(): AbortSignal;
    /** The record as this attempt last wrote it. */
    get stored(): Stored;
    /** The send mark is never forgotten again: a heartbeat from before it may have its answer after it. */
    set stored(stored: Stored);
    get hold(): Hold;
    get wakeAt(): number;
    /** From now on the attempt may take this long. */
    limit(timeoutMs: number): void;
    /** The work's own end, or what cut it short, whichever comes first. The work goes on after an interruption: nobody can stop a byte that left. */
    race<T>(work: Promise<T>): Promise<Ended<T>>;
    end(): void;
    /** Renews the lease now; false: it is gone, and nothing may be sent under it. */
    renew(): Promise<boolean>;
    wake(): void;
}
