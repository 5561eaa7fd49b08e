/**
 * The life of one attempt: heartbeats that keep its lease, and its end at the timeout. All attempts of a process share
 * one timer; a short attempt comes into a list and leaves it, and never sees the timer fire.
 */
import { AsyncResource } from "node:async_hooks";
import { NevertwiceError } from "../core/errors.ts";
import type { Stored } from "../core/store.ts";
import type { Hold } from "../core/transition.ts";
import type { Clock, Timer } from "./clock.ts";
import type { Ledger } from "./ledger.ts";

export type Interruption = { readonly kind: "timeout" } | { readonly kind: "lease-lost" };

export type Ended<T> =
  | { readonly kind: "returned"; readonly value: T }
  | { readonly kind: "threw"; readonly error: unknown }
  | Interruption;

/** Whoever waits for an attempt's end. One of these is called, once, and must not throw. */
export interface Watcher<T> {
  returned(value: T): void;
  threw(error: unknown): void;
  cut(why: Interruption): void;
}

/**
 * Wakes each pulse when it wants to be woken, with one timer for all. A linked list, not a Set: a Set that thousands come
 * and go through leaves old tables behind, and each keeps what was in it alive until the next full collection.
 */
export class Heart {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly #missed: MissedHeartbeats;
  #first: Pulse | null = null;
  #timer: Timer | null = null;
  #firesAt = Number.POSITIVE_INFINITY;

  constructor(ledger: Ledger, clock: Clock, missed: MissedHeartbeats = () => {}) {
    this.ledger = ledger;
    this.clock = clock;
    this.#missed = missed;
  }

  /** No heartbeat could be sent for this long. */
  missed(stored: Stored, times: { readonly leaseMs: number; readonly silentMs: number }): void {
    this.#missed(stored.record.action, times);
  }

  /** No attempt is under way in this process. */
  get still(): boolean {
    return this.#first === null;
  }

  add(pulse: Pulse): void {
    pulse.next = this.#first;
    if (this.#first !== null) this.#first.previous = pulse;
    this.#first = pulse;
    this.wakeBy(pulse.wakeAt);
  }

  /** To be called once for each pulse that was added. */
  remove(pulse: Pulse): void {
    const { previous, next } = pulse;
    if (previous === null) this.#first = next;
    else previous.next = next;
    if (next !== null) next.previous = previous;
    pulse.previous = null;
    pulse.next = null;
    // The timer stays though nobody is left: whoever comes next wants to be woken later than it fires, and a lone caller
    // need not set one for each call. It fires for nobody once, and keeps no process alive.
  }

  wakeBy(at: number): void {
    if (at >= this.#firesAt) return;
    this.#timer?.cancel();
    this.#firesAt = at;
    // In the background: the user's own work keeps the process alive, a heartbeat alone must not.
    this.#timer = this.clock.after(at - this.clock.monotonic(), () => this.#fire(), true);
  }

  #fire(): void {
    this.#timer = null;
    this.#firesAt = Number.POSITIVE_INFINITY;
    const now = this.clock.monotonic();
    let wakeAt = Number.POSITIVE_INFINITY;
    const beating: Pulse[] = [];
    for (let pulse = this.#first; pulse !== null; pulse = pulse.next) beating.push(pulse);
    for (const pulse of beating) {
      if (!pulse.ended && pulse.wakeAt <= now) pulse.wake();
      if (!pulse.ended) wakeAt = Math.min(wakeAt, pulse.wakeAt);
    }
    if (wakeAt !== Number.POSITIVE_INFINITY) this.wakeBy(wakeAt);
  }
}

/** The event loop was blocked while an attempt ran, for so long that its lease was too short for it. */
export type MissedHeartbeats = (action: string, times: { readonly leaseMs: number; readonly silentMs: number }) => void;

export class Pulse {
  readonly #heart: Heart;
  readonly #leaseMs: number;
  // Made when somebody asks for the signal: most attempts never do, and a controller costs more than a claim's bookkeeping.
  #abort: AbortController | null = null;
  readonly beganAt: number;
  /** Its neighbours in the heart's list. */
  previous: Pulse | null = null;
  next: Pulse | null = null;
  #stored: Stored;
  #timeoutAt: number;
  #nextBeatAt: number;
  #watcher: Watcher<never> | null = null;
  /** The watcher's own async context: the timer that cuts an attempt short was set in anybody's. */
  #scope: AsyncResource | null = null;
  #interrupted: Interruption | null = null;
  #ended = false;
  #beating = false;

  constructor(heart: Heart, options: { leaseMs: number; timeoutMs: number; stored: Stored }) {
    this.#heart = heart;
    this.#leaseMs = options.leaseMs;
    this.#stored = options.stored;
    const now = heart.clock.monotonic();
    this.beganAt = now;
    this.#nextBeatAt = now + this.#leaseMs / 3;
    this.#timeoutAt = now + options.timeoutMs;
    heart.add(this);
  }

  get ended(): boolean {
    return this.#ended;
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

  /** The send mark is never forgotten again: a heartbeat from before it may have its answer after it. */
  set stored(stored: Stored) {
    if (this.#stored.record.state === "sent" && stored.record.state === "claimed") return;
    this.#stored = stored;
  }

  get hold(): Hold {
    return { fence: this.#stored.record.fence, holder: this.#stored.record.holder as string };
  }

  get wakeAt(): number {
    return Math.min(this.#nextBeatAt, this.#timeoutAt);
  }

  /** From now on the attempt may take this long. */
  limit(timeoutMs: number): void {
    this.#timeoutAt = this.#heart.clock.monotonic() + timeoutMs;
    this.#heart.wakeBy(this.wakeAt);
  }

  /** The work's own end, or what cut it short, whichever comes first. The work goes on after an interruption: nobody can stop a byte that left. */
  race<T>(work: Promise<T>): Promise<Ended<T>> {
    return new Promise((resolve) =>
      this.watch(work, {
        returned: (value) => resolve({ kind: "returned", value }),
        threw: (error) => resolve({ kind: "threw", error }),
        cut: resolve,
      }),
    );
  }

  /** The same for a watcher. */
  watch<T>(work: Promise<T>, watcher: Watcher<T>): void {
    if (this.#interrupted) {
      watcher.cut(this.#interrupted);
      return;
    }
    this.#watcher = watcher;
    this.#scope = new AsyncResource("nevertwice.attempt", NOBODY_WAITS_FOR_ITS_END);
    work.then(
      (value) => (this.#leaves() as Watcher<T> | null)?.returned(value),
      (error: unknown) => this.#leaves()?.threw(error),
    );
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#watcher = null;
    this.#heart.remove(this);
  }

  /** After an end that could not be written: the lease is kept again, from a heartbeat right now on. */
  resume(): void {
    if (!this.#ended || this.#interrupted !== null) return;
    this.#ended = false;
    this.#nextBeatAt = this.#heart.clock.monotonic();
    this.#heart.add(this);
  }

  /** Aborts the signal without a change to the lease: its owner lets go of it. */
  abort(reason: unknown): void {
    this.#abort ??= new AbortController();
    this.#abort.abort(reason);
  }

  /** The watcher, who hears of one end only. */
  #leaves(): Watcher<never> | null {
    const watcher = this.#watcher;
    this.#watcher = null;
    // Work that blocked the event loop ends before the timer it held up: a heartbeat that is overdue by now was missed.
    if (watcher !== null) this.#noteSilence(this.#heart.clock.monotonic());
    return watcher;
  }

  /** O9: a lease has to be three times as long as its holder may be silent, so that a slow run is not taken for a dead one. */
  #noteSilence(now: number): void {
    const lateMs = now - this.#nextBeatAt;
    if (lateMs <= this.#leaseMs / 3 || this.#beating) return;
    this.#heart.missed(this.#stored, { leaseMs: this.#leaseMs, silentMs: lateMs + this.#leaseMs / 3 });
  }

  /** Renews the lease now; false: it is gone, and nothing may be sent under it. */
  async renew(): Promise<boolean> {
    const { ledger, clock } = this.#heart;
    const applied = await ledger.apply(this.#stored, { type: "heartbeat", hold: this.hold, leaseMs: this.#leaseMs });
    if (!applied.ok) return false;
    this.stored = applied.stored;
    this.#nextBeatAt = clock.monotonic() + this.#leaseMs / 3;
    return true;
  }

  wake(): void {
    const now = this.#heart.clock.monotonic();
    this.#noteSilence(now);
    if (now >= this.#timeoutAt) {
      this.#cut({ kind: "timeout" });
      return;
    }
    // Set before the store is asked: one that hangs must disable neither the timeout nor the end of the lease.
    this.#nextBeatAt = now + this.#leaseMs / 3;
    if (!this.#beating) void this.#beat();
    else if (this.#leaseOver()) this.#cut({ kind: "lease-lost" });
  }

  async #beat(): Promise<void> {
    this.#beating = true;
    try {
      if (!(await this.renew())) this.#cut({ kind: "lease-lost" });
    } catch {
      // The store did not answer. While the lease lives the next beat tries again; one that has run out by then is lost.
      if (this.#leaseOver()) this.#cut({ kind: "lease-lost" });
    } finally {
      this.#beating = false;
    }
  }

  #leaseOver(): boolean {
    const { lease } = this.#stored.record;
    const at = this.#heart.ledger.instant();
    return lease === null || lease.epoch !== at.epoch || lease.until <= at.steady;
  }

  #cut(why: Interruption): void {
    if (this.#ended) return;
    this.#interrupted = why;
    const watcher = this.#leaves();
    this.end();
    this.#abort?.abort(reasonFor(why, this.#stored.record.key));
    if (watcher !== null) this.#scope?.runInAsyncScope(watcher.cut, watcher, why);
  }
}

const NOBODY_WAITS_FOR_ITS_END = { requireManualDestroy: true };

function reasonFor(why: Interruption, key: string): Error {
  if (why.kind === "timeout") return new DOMException("The attempt ran into its timeout.", "TimeoutError");
  return new NevertwiceError(
    "LEASE_LOST",
    `the lease of this attempt is over (${key}): stop the work. What it already sent is now in doubt; what it has not sent must not be.`,
    { key },
  );
}
