/**
 * What the ledger did not answer while a worker was at it: looks for due work, and intents that were leased and could not be
 * begun. drain() and tick() report success only where there is none of it: no answer is not the answer that nothing is due.
 */
import { isOfAllRecords, isStoreDown } from "../core/damaged-record.ts";

// A short outage is waited out: five looks, 3.75 seconds of pauses.
const MOST_FAILED_ROUNDS = 5;
const FIRST_PAUSE_MS = 250;
// A worker that runs for months meets many outages; more intents than this are not remembered.
const MOST_REMEMBERED = 10_000;

export class Unanswered {
  /** By what was looked for. */
  readonly #looks = new WeakMap<object, { readonly error: unknown }>();
  /** By key. */
  readonly #intents = new Map<string, { readonly error: unknown }>();

  lookFailed(looked: object, error: unknown): void {
    this.#looks.set(looked, { error });
  }

  lookAnswered(looked: object): void {
    this.#looks.delete(looked);
  }

  /** The last look for one of these failed, with this error. */
  failedLook(looked: readonly object[]): { readonly error: unknown } | null {
    for (const one of looked) {
      const failed = this.#looks.get(one);
      if (failed !== undefined) return failed;
    }
    return null;
  }

  intentCrashed(key: string, error: unknown): void {
    if (!isOfAllRecords(error)) return;
    if (this.#intents.size >= MOST_REMEMBERED) this.#intents.clear();
    this.#intents.set(key, { error });
  }

  intentBegun(key: string): void {
    if (this.#intents.size > 0) this.#intents.delete(key);
  }

  forgetIntents(): void {
    this.#intents.clear();
  }

  /** Throws the store's error where one of them (any, unless given) was leased and could not be begun. */
  refuseIntents(keys: Iterable<string> = this.#intents.keys()): void {
    for (const key of keys) {
      const crashed = this.#intents.get(key);
      if (crashed !== undefined) throw crashed.error;
    }
  }
}

/** The pauses between failed looks of one drain(). */
export class Outage {
  #rounds = 0;

  /** How long to pause before the next look. Throws the error where there were enough of them, or no pause would help. */
  pauseMs(error: unknown): number {
    this.#rounds += 1;
    if (this.#rounds >= MOST_FAILED_ROUNDS || !isStoreDown(error)) throw error;
    return FIRST_PAUSE_MS * 2 ** (this.#rounds - 1);
  }

  over(): void {
    this.#rounds = 0;
  }
}
