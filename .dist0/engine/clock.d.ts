export interface Timer {
    cancel(): void;
}
export interface Clock {
    /** Monotonic milliseconds of this process: for budgets and intervals, never stored. */
    monotonic(): number;
    /** `background`: must not keep the process alive. */
    after(ms: number, run: () => void, background?: boolean): Timer;
}
export declare const systemClock: Clock;
export declare function sleep(clock: Clock, ms: number): Promise<void>;
