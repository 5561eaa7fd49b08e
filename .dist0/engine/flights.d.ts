/** Callers of one process with one key: the first runs, the others wait for it without asking the store. */
import { type InputPrint } from "../core/fingerprint.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Fingerprint } from "../core/record.ts";
import type { Clock } from "./clock.ts";
export declare class Flight {
    #private;
    readonly promise: Promise<Outcome<unknown>>;
    constructor(print: InputPrint, promise: Promise<Outcome<unknown>>);
    fingerprint(): Fingerprint;
    /** The flight's outcome, or null when it is not over within `waitMs`. */
    join(clock: Clock, waitMs: number): Promise<Outcome<unknown> | null>;
}
export declare class Flights {
    #private;
    get(key: string): Flight | undefined;
    start(key: string, print: InputPrint, work: () => Promise<Outcome<unknown>>): Promise<Outcome<unknown>>;
    idle(): Promise<void>;
}
