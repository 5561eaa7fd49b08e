/** Facts about ended attempts that the store could not be told yet. Kept until it listens, bounded, flushed on close. */
import type { LedgerEvent } from "../core/transition.ts";
import type { Clock } from "./clock.ts";
import type { Ledger } from "./ledger.ts";
interface Fact {
    readonly key: string;
    readonly event: Extract<LedgerEvent, {
        readonly type: "confirm" | "not-sent" | "doubt";
    }>;
}
export declare class Untold {
    #private;
    constructor(ledger: Ledger, clock: Clock);
    get size(): number;
    add(fact: Fact): void;
    /** Tells what can be told now. */
    tick(): Promise<void>;
    stop(): void;
}
export {};
