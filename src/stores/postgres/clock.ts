/**
 * The server's clock, read without asking it: its distance from this process's monotonic clock, measured at the first
 * answer and again with every write. Hosts whose wall clocks disagree, or are set, still judge a lease alike.
 */
import { performance } from "node:perf_hooks";
import type { Instant } from "../../core/record.ts";
import { wallNow } from "../../engine/real-timers.ts";

export interface Observation {
  /** What the server's clock showed, epoch ms. */
  readonly serverMs: number;
  /** On performance.now(). */
  readonly askedAt: number;
  readonly answeredAt: number;
}

// A correction backwards up to here stands still instead; more than that, somebody has set the server's clock, and all
// hosts must follow it together or they would judge each other's leases by two clocks.
const STAND_STILL_MS = 1_000;

// Crystals differ by some ten millionths and NTP bends clocks by up to 500: what was measured long ago says less.
const DRIFT = 500e-6;
const REMEASURE_MS = 1_000;

export class ServerClock {
  /** Server time minus monotonic time is between these; null until the first answer. */
  #offset: { readonly least: number; readonly most: number } | null = null;
  #observedAt = 0;
  #last = 0;

  /** Worth asking for again: an answer without the time in it is cheaper, and crystals do not drift that fast. */
  get stale(): boolean {
    return performance.now() - this.#observedAt > REMEASURE_MS;
  }

  /** The server's clock showed `serverMs` somewhere between the question and the answer. */
  observe({ serverMs, askedAt, answeredAt }: Observation): void {
    const seen = { least: serverMs - answeredAt, most: serverMs - askedAt };
    const drift = (answeredAt - this.#observedAt) * DRIFT;
    const known = this.#offset ?? seen;
    const least = Math.max(seen.least, known.least - drift);
    const most = Math.min(seen.most, known.most + drift);
    // Both, where they agree: a slow answer says less than a quick one. Else the server's clock was set, and the last
    // word counts.
    this.#offset = least <= most ? { least, most } : seen;
    this.#observedAt = answeredAt;
  }

  instant(): Instant {
    // Before the first answer only the wall clock is at hand. Half a millisecond marks what was read from it, so that
    // nothing stamped with it is ever written as the server's time (see `isProvisional`).
    const now = this.#offset === null ? Math.floor(wallNow()) + 0.5 : this.#tick(this.#offset);
    return { now, steady: now, epoch: "" };
  }

  #tick(offset: { readonly least: number; readonly most: number }): number {
    const now = Math.floor(performance.now() + (offset.least + offset.most) / 2);
    if (now < this.#last && this.#last - now <= STAND_STILL_MS) return this.#last;
    this.#last = now;
    return now;
  }
}

/** Made before the server's clock was known. */
export function isProvisional(time: number): boolean {
  return time % 1 === 0.5;
}
