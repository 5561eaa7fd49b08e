/**
 * The server's clock, as far as this process can know it. Every answer carries the server's TIME, taken somewhere between
 * our sending and our receiving: two bounds for the difference to our monotonic clock. The estimate moves only when a
 * bound pushes it, so it settles inside the shortest round trip seen and follows a server whose clock is set.
 */
import { performance } from "node:perf_hooks";
import type { Instant } from "../../core/record.ts";
import { wallNow } from "../../engine/real-timers.ts";

/** One epoch for all: leases are judged by the server's time, whichever process or server restarted meanwhile. */
export const REDIS_EPOCH = "redis";

export class ServerClock {
  #offset = wallNow() - performance.now();
  #measured = false;
  #last = 0;

  /** Epoch ms, whole. Never backwards once a server has answered: it stands still until the server has caught up. */
  now(): number {
    const now = Math.floor(performance.now() + this.#offset);
    if (now > this.#last) this.#last = now;
    return this.#last;
  }

  instant(): Instant {
    const now = this.now();
    return { now, steady: now, epoch: REDIS_EPOCH };
  }

  /** `sentAt` and `receivedAt` by performance.now(), around the server's `time`. */
  measured(time: number, sentAt: number, receivedAt: number): void {
    const [least, most] = [time - receivedAt, time - sentAt];
    const before = this.#offset;
    this.#offset = Math.min(Math.max(before, least), most);
    // What was read before the first answer was our own clock: a server that is behind it must not be waited for.
    if (!this.#measured) this.#last = 0;
    this.#measured = true;
  }
}
