/**
 * The life of one attempt: one timer that keeps the lease by heartbeats and ends the attempt at its timeout. A short
 * attempt pays for one timer that never fires.
 */
import { NevertwiceError } from "../core/errors.ts";
import type { Stored } from "../core/store.ts";
import type { Hold } from "../core/transition.ts";
import type { Clock, Timer } from "./clock.ts";
import type { Ledger } from "./ledger.ts";

export type Interruption = { readonly kind: "timeout" } | { readonly kind: "lease-lost" };

export class Pulse {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  // Made when somebody asks for the signal: most attempts never do, and a controller costs more than a claim's bookkeeping.
  #abort: AbortController | null = null;
  #stored: Stored;
  #timer: Timer | null = null;
  #timeoutAt = Number.POSITIVE_INFINITY;
  #nextBeatAt: number;
  #ended = false;
  #beating = false;
  #interrupt: ((why: Interruption) => void) | null = null;
  #interrupted: Interruption | null = null;

  constructor(options: { ledger: Ledger; clock: Clock; leaseMs: number; stored: Stored }) {
    this.#ledger = options.ledger;
    this.#clock = options.clock;
    this.#leaseMs = options.leaseMs;
    this.#stored = options.stored;
    this.#nextBeatAt = this.#clock.monotonic() + this.#leaseMs / 3;
    this.#arm();
  }

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController();
      if (this.#interrupted) this.#abort.abort(reasonFor(this.#interrupted, this.#stored.record.key));
    }
    return this.#abort.signal;
  }

  /** The record as this attempt last wrote it. */
  get stored(): Stored {
    return this.#stored;
  }

  set stored(stored: Stored) {
    this.#keep(stored);
  }

  get hold(): Hold {
    return { fence: this.#stored.record.fence, holder: this.#stored.record.holder as string };
  }

  /** From now on the attempt may take this long. */
  limit(timeoutMs: number): void {
    this.#timeoutAt = this.#clock.monotonic() + timeoutMs;
    this.#arm();
  }

  /** The work's own end, or what cut it short, whichever comes first. The work goes on after an interruption: nobody can stop a byte that left. */
  race<T>(work: Promise<T>): Promise<{ readonly kind: "returned"; readonly value: T } | Interruption> {
    if (this.#interrupted) return Promise.resolve(this.#interrupted);
    return new Promise((resolve, reject) => {
      this.#interrupt = resolve;
      work.then((value) => resolve({ kind: "returned", value }), reject);
    });
  }

  end(): void {
    this.#ended = true;
    this.#timer?.cancel();
    this.#timer = null;
    this.#interrupt = null;
  }

  /** Renews the lease now; false: it is gone, and nothing may be sent under it. */
  async renew(): Promise<boolean> {
    const applied = await this.#ledger.apply(this.#stored, {
      type: "heartbeat",
      hold: this.hold,
      leaseMs: this.#leaseMs,
    });
    if (!applied.ok) return false;
    this.#keep(applied.stored);
    this.#nextBeatAt = this.#clock.monotonic() + this.#leaseMs / 3;
    return true;
  }

  /** The send mark is never forgotten again: a heartbeat from before it may have its answer after it. */
  #keep(stored: Stored): void {
    if (this.#stored.record.state === "sent" && stored.record.state === "claimed") return;
    this.#stored = stored;
  }

  #arm(): void {
    this.#timer?.cancel();
    if (this.#ended) return;
    const wakeAt = Math.min(this.#nextBeatAt, this.#timeoutAt);
    // In the background: the user's own work keeps the process alive, a heartbeat alone must not.
    this.#timer = this.#clock.after(wakeAt - this.#clock.monotonic(), () => void this.#beat(), true);
  }

  async #beat(): Promise<void> {
    if (this.#ended) return;
    const now = this.#clock.monotonic();
    if (now >= this.#timeoutAt) return this.#cut({ kind: "timeout" });
    // A timer may fire a fraction of a millisecond early: that is no reason for a heartbeat.
    if (now < this.#nextBeatAt) return this.#arm();
    this.#nextBeatAt = now + this.#leaseMs / 3;
    // Armed before the store is asked: one that hangs must disable neither the timeout nor the end of the lease.
    this.#arm();
    if (!this.#beating) return this.#renewNow();
    if (this.#leaseOver()) this.#cut({ kind: "lease-lost" });
  }

  async #renewNow(): Promise<void> {
    this.#beating = true;
    try {
      if (!(await this.renew()) && !this.#ended) this.#cut({ kind: "lease-lost" });
    } catch {
      // The store did not answer. The lease still has two thirds to go: the next beat tries again, and a lease that
      // has run out by then is refused.
      if (!this.#ended && this.#leaseOver()) this.#cut({ kind: "lease-lost" });
    } finally {
      this.#beating = false;
    }
  }

  #leaseOver(): boolean {
    const { lease } = this.#stored.record;
    const at = this.#ledger.instant();
    return lease === null || lease.epoch !== at.epoch || lease.until <= at.steady;
  }

  #cut(why: Interruption): void {
    this.#interrupted = why;
    const interrupt = this.#interrupt;
    this.end();
    this.#abort?.abort(reasonFor(why, this.#stored.record.key));
    interrupt?.(why);
  }
}

function reasonFor(why: Interruption, key: string): Error {
  if (why.kind === "timeout") return new DOMException("The attempt ran into its timeout.", "TimeoutError");
  return new NevertwiceError(
    "LEASE_LOST",
    `the lease of this attempt is over (${key}): stop the work. What it already sent is now in doubt; what it has not sent must not be.`,
    { key },
  );
}
