/** A caller's patience. */
import type { Clock } from "./clock.ts";
import type { Ledger } from "./ledger.ts";
import type { UnderWay } from "./under-way.ts";

const FIRST_POLL_MS = 5;
const LONGEST_POLL_MS = 250;
// A call that is about to be tried again when close() comes may have this moment; what would take longer is left to the next call.
const GRACE_MS = 1_000;

export interface WaitServices {
  readonly clock: Clock;
  readonly random: () => number;
  /** Its close() ends the wait; absent for a call inside an attempt, whose end may depend on this call. */
  readonly underWay?: UnderWay | undefined;
}

/** How long a call may go on waiting; what would end after it is not begun. */
export class WaitBudget {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #underWay: UnderWay | undefined;
  readonly #endsAt: number;
  #graceEndsAt: number | null = null;
  #pollMs = FIRST_POLL_MS;

  constructor(services: WaitServices, waitMs: number) {
    this.#clock = services.clock;
    this.#random = services.random;
    this.#underWay = services.underWay;
    this.#endsAt = services.clock.monotonic() + waitMs;
  }

  /** close() was called a while ago: what has not begun is left to the next call. */
  get closed(): boolean {
    return this.#underWay?.closed === true && this.#graceMs() <= 0;
  }

  /** What is left of the moment that a call may go on after close(); it begins when this call first notices the close. */
  #graceMs(): number {
    const now = this.#clock.monotonic();
    this.#graceEndsAt ??= now + GRACE_MS;
    return this.#graceEndsAt - now;
  }

  /** False: it would take too long, or nothing is begun any more. */
  async pause(ms: number): Promise<boolean> {
    if (this.#clock.monotonic() + ms > this.#endsAt) return false;
    return this.#nap(Math.max(0, ms), () => undefined);
  }

  /**
   * Until the record may have changed: when the store says so, where it can, and after a while in any case. A little
   * longer each time, with jitter, so that a crowd of waiters spreads out.
   */
  async change(ledger: Ledger, key: string): Promise<boolean> {
    const left = this.#endsAt - this.#clock.monotonic();
    if (left <= 0) return false;
    const napMs = Math.min(left, this.#pollMs * (0.5 + this.#random()));
    this.#pollMs = Math.min(LONGEST_POLL_MS, this.#pollMs * 1.6);
    return this.#nap(napMs, (wake) => ledger.store.watch?.(key, wake));
  }

  async #nap(ms: number, watch: (wake: () => void) => (() => void) | undefined): Promise<boolean> {
    const underWay = this.#underWay;
    if (underWay?.closed && ms > this.#graceMs()) return false;
    const endsAt = this.#clock.monotonic() + ms;
    let cut = false;
    await new Promise<void>((done) => {
      const wake = () => {
        timer.cancel();
        forget?.();
        unwatch?.();
        done();
      };
      const timer = this.#clock.after(ms, wake);
      const forget = underWay?.onClose(() => {
        cut = endsAt - this.#clock.monotonic() > this.#graceMs();
        if (cut) wake();
      });
      const unwatch = watch(wake);
    });
    return !cut;
  }
}
