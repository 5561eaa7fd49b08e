/**
 * A server's clock, read without asking it: its distance from this process's monotonic clock, measured at the first
 * answer and again with every other that tells the time. Hosts whose wall clocks disagree, or are set, still judge a lease
 * alike.
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

export interface ServerClockOptions {
  /** One for all: leases are judged by the server's time, whichever process or server restarted meanwhile. */
  readonly epoch: string;
  /** A correction backwards up to here stands still instead. */
  readonly standStillMs: number;
  /** Marks what was read before the first answer: it is this host's wall clock, plus so much. */
  readonly provisionalMs: number;
}

interface Range {
  readonly least: number;
  readonly most: number;
}

// Crystals differ by some ten millionths and NTP bends clocks by up to 500: what was measured long ago says less.
const DRIFT = 500e-6;
const REMEASURE_MS = 1_000;

export class ServerClock {
  readonly #options: ServerClockOptions;
  /** Server time minus monotonic time is between these; null until the first answer. */
  #offset: Range | null = null;
  #observedAt = 0;
  #last = 0;

  constructor(options: ServerClockOptions) {
    this.#options = options;
  }

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

  /** Epoch ms. */
  now(): number {
    const { standStillMs, provisionalMs } = this.#options;
    if (this.#offset === null) return Math.floor(wallNow()) + provisionalMs;
    const now = Math.floor(performance.now() + (this.#offset.least + this.#offset.most) / 2);
    if (now < this.#last && this.#last - now <= standStillMs) return this.#last;
    this.#last = now;
    return now;
  }

  instant(): Instant {
    const now = this.now();
    return { now, steady: now, epoch: this.#options.epoch };
  }
}
