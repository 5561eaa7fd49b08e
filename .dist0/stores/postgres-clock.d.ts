import type { Instant } from "../core/record.ts";
export interface Observation {
    /** What the server's clock showed, epoch ms. */
    readonly serverMs: number;
    /** On performance.now(). */
    readonly askedAt: number;
    readonly answeredAt: number;
}
export declare class ServerClock {
    #private;
    /** Worth asking for again: an answer without the time in it is cheaper, and crystals do not drift that fast. */
    get stale(): boolean;
    /** The server's clock showed `serverMs` somewhere between the question and the answer. */
    observe({ serverMs, askedAt, answeredAt }: Observation): void;
    instant(): Instant;
}
/** Made before the server's clock was known. */
export declare function isProvisional(time: number): boolean;
