import { type CallDefaults } from "./call.ts";
import type { Clock } from "./clock.ts";
import type { Definition } from "./definition.ts";
import type { Engine } from "./engine.ts";
export interface SweepReport {
    /** Holders that fell silent: now `unknown`. */
    readonly lapsed: number;
    /** Doubts settled by their policy. */
    readonly settled: number;
    /** Settled records past their `keep`, removed. */
    readonly removed: number;
}
export declare class Sweeper {
    #private;
    constructor(engine: Engine, definitions: ReadonlyMap<string, Definition>, defaults: CallDefaults);
    tick(): Promise<SweepReport>;
}
/** Calls `tick` now and then, without keeping the process alive. */
export declare class SweepLoop {
    #private;
    constructor(options: {
        sweeper: Sweeper;
        clock: Clock;
        everyMs: number;
        random: () => number;
        onError: (error: unknown) => void;
    });
    start(): void;
    stop(): Promise<void>;
}
