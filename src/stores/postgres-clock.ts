/**
 * The server's clock, read without asking it: its distance from this process's monotonic clock, measured at the first
 * answer and again with every write. Hosts whose wall clocks disagree, or are set, still judge a lease alike.
 */
import { performance } from "node:perf_hooks";
import type { Instant } from "../core/record.ts";

// A correction backwards up to here stands still instead; more than that, somebody has set the server's clock, and all
// hosts must follow it together or they would judge each other's leases by two clocks.
const STAND_STILL_MS = 1_000;

export class ServerClock {
  /** Server time minus monotonic time; null until the first answer. */
  #offset: number | null = null;
  #last = 0;

  get known(): boolean {
    return this.#offset !== null;
  }

  /** The server's clock showed `serverMs` somewhere between the question and the answer. */
  observe(serverMs: number, askedAt: number, answeredAt: number): void {
    const [least, most] = [serverMs - answeredAt, serverMs - askedAt];
    // What fits the new evidence is kept: a slow answer says less than the quick ones before it.
    if (this.#offset === null) this.#offset = (least + most) / 2;
    else this.#offset = Math.min(most, Math.max(least, this.#offset));
  }

  instant(): Instant {
    // Before the first answer only the wall clock is at hand. Half a millisecond marks what was read from it, so that
    // nothing stamped with it is ever written as the server's time (see `isProvisional`).
    const now = this.#offset === null ? Math.floor(Date.now()) + 0.5 : this.#tick(this.#offset);
    return { now, steady: now, epoch: "" };
  }

  #tick(offset: number): number {
    const now = Math.floor(performance.now() + offset);
    if (now < this.#last && this.#last - now <= STAND_STILL_MS) return this.#last;
    this.#last = now;
    return now;
  }
}

/** Made before the server's clock was known. */
export function isProvisional(time: number): boolean {
  return time % 1 === 0.5;
}
