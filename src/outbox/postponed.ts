/** Records that a worker put off itself, by key, and until when (store time): what drain() waits for. */
import type { Clock, Timer } from "../engine/clock.ts";
import type { Ledger } from "../engine/ledger.ts";

// While nobody drains, records that other workers took stay in here; more than this are not kept.
const MOST_REMEMBERED = 10_000;
// Clocks of stores and of this process differ a little: a look that comes just too early is repeated at this distance.
const LEAST_WAIT_MS = 5;

export class Postponed {
  readonly #dueAt = new Map<string, number>();
  readonly #wakes = new Set<() => void>();

  has(key: string): boolean {
    return this.#dueAt.has(key);
  }

  add(key: string, dueAt: number): void {
    if (this.#dueAt.size >= MOST_REMEMBERED) this.#dueAt.clear();
    this.#dueAt.set(key, dueAt);
  }

  begun(key: string): void {
    if (this.#dueAt.size > 0) this.#dueAt.delete(key);
  }

  forgetUntil(now: number): void {
    for (const [key, dueAt] of this.#dueAt) if (dueAt <= now) this.#dueAt.delete(key);
  }

  earliest(): number | null {
    let earliest: number | null = null;
    for (const dueAt of this.#dueAt.values()) if (earliest === null || dueAt < earliest) earliest = dueAt;
    return earliest;
  }

  until(dueAt: number, { ledger, clock }: { readonly ledger: Ledger; readonly clock: Clock }): Promise<void> {
    return this.pause(Math.max(LEAST_WAIT_MS, dueAt - ledger.instant().now), clock);
  }

  /** Ends early where the worker is stopped. */
  pause(ms: number, clock: Clock): Promise<void> {
    return new Promise((done) => {
      let timer: Timer | null = null;
      const over = () => {
        timer?.cancel();
        this.#wakes.delete(over);
        done();
      };
      this.#wakes.add(over);
      timer = clock.after(ms, over);
    });
  }

  /** Ends the wait: the worker is told to stop. */
  stop(): void {
    this.#dueAt.clear();
    for (const wake of [...this.#wakes]) wake();
  }
}
