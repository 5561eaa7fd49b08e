import type { Instant } from "../core/record.ts";
/** One epoch for all: leases are judged by the server's time, whichever process or server restarted meanwhile. */
export declare const REDIS_EPOCH = "redis";
export declare class ServerClock {
    #private;
    /** Epoch ms, whole. Never backwards once a server has answered: it stands still until the server has caught up. */
    now(): number;
    instant(): Instant;
    /** `sentAt` and `receivedAt` by performance.now(), around the server's `time`. */
    measured(time: number, sentAt: number, receivedAt: number): void;
}
