/**
 * A circuit breaker in front of the store (O10). After a run of failures it answers at once instead of letting every
 * caller wait for a dead store, and lets one caller through now and then to see whether the store is back.
 */
import type { Clock } from "./clock.ts";

export type BreakerState = "closed" | "open" | "half-open";

export interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly failures: number;
  /** How long it stays open at first; doubled at each failed trial, up to `maxOpenMs`. */
  readonly openMs: number;
  readonly maxOpenMs: number;
  readonly onChange?: (state: BreakerState, cause: unknown) => void;
}

export class Breaker {
  readonly #clock: Clock;
  readonly #options: BreakerOptions;
  #state: BreakerState = "closed";
  #failures = 0;
  #openMs: number;
  #opensAgainAt = 0;
  #lastError: unknown;

  constructor(clock: Clock, options: BreakerOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#openMs = options.openMs;
  }

  get state(): BreakerState {
    return this.#state;
  }

  get lastError(): unknown {
    return this.#lastError;
  }

  /** False: do not even try. In the half-open state only the caller that turned it half-open is let through. */
  allows(): boolean {
    if (this.#state === "closed") return true;
    if (this.#state === "half-open" || this.#clock.monotonic() < this.#opensAgainAt) return false;
    this.#change("half-open");
    return true;
  }

  succeeded(): void {
    this.#failures = 0;
    if (this.#state === "closed") return;
    this.#openMs = this.#options.openMs;
    this.#change("closed");
  }

  failed(error: unknown): void {
    this.#lastError = error;
    this.#failures += 1;
    if (this.#state === "half-open") this.#openMs = Math.min(this.#openMs * 2, this.#options.maxOpenMs);
    else if (this.#state === "open" || this.#failures < this.#options.failures) return;
    this.#opensAgainAt = this.#clock.monotonic() + this.#openMs;
    this.#change("open");
  }

  /** The next caller is the trial, however long it was to stay open. */
  tryNow(): void {
    if (this.#state === "open") this.#opensAgainAt = this.#clock.monotonic();
  }

  /** The trial ended without a verdict on the store (one bad row, a setting): the next caller is the trial. */
  undecided(): void {
    if (this.#state !== "half-open") return;
    this.#state = "open";
    this.#opensAgainAt = this.#clock.monotonic();
  }

  #change(state: BreakerState): void {
    this.#state = state;
    this.#options.onChange?.(state, this.#lastError);
  }
}
