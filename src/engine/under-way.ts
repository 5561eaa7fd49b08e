/**
 * What one nevertwice() has under way, so that close() can wait for it or hand it back.
 *
 * From close() on nothing begins any more, with one exception: what runs may call on, since its end may depend on it. An
 * action that calls another one inside its `run` would otherwise be in doubt for being closed.
 */
import { NevertwiceError } from "../core/errors.ts";
import { type Clock, noLongerThan } from "./clock.ts";
import { insideAttemptOf } from "./context.ts";

/** Something that holds a lease while user code outside of any attempt goes on, such as a run between two steps. */
export interface Holding {
  /** Ends it if it is about to end, otherwise hands it back. */
  release(): Promise<void>;
}

// An attempt that ran into its timeout is in doubt, and its answer may still come. close() waits this long for it.
const LATE_ANSWERS_MS = 1_000;

export class UnderWay {
  readonly #work = new Set<Promise<unknown>>();
  readonly #late = new Set<Promise<unknown>>();
  readonly #holdings = new Set<Holding>();
  readonly #onClose = new Set<() => void>();
  #closed = false;

  get closed(): boolean {
    return this.#closed;
  }

  /** Whether this code runs inside an attempt of this instance that has not ended: whoever waits for close() there waits for itself. */
  get inside(): boolean {
    return insideAttemptOf(this);
  }

  /** A closed store must not be taken for one that is down, which an action may answer by running unguarded. */
  requireOpen(): void {
    if (!this.#closed || this.inside) return;
    throw closedError();
  }

  /** Work that close() waits for. It has to end by itself, and may not wait for user code outside of an attempt. */
  during<T>(work: Promise<T>): Promise<T> {
    return kept(this.#work, work);
  }

  /** The answer of an attempt that ended without it: welcome for a moment after close(), and no longer. */
  late(work: Promise<unknown>): void {
    void kept(this.#late, work);
  }

  /** Released by close(), after what runs has ended. Returns the way to forget it. */
  hold(holding: Holding): () => void {
    this.#holdings.add(holding);
    return () => this.#holdings.delete(holding);
  }

  /** Called as soon as close() is. Returns the way to forget it. */
  onClose(listener: () => void): () => void {
    this.#onClose.add(listener);
    return () => this.#onClose.delete(listener);
  }

  close(): void {
    this.#closed = true;
    for (const listener of [...this.#onClose]) listener();
    this.#onClose.clear();
  }

  get idle(): boolean {
    return this.#work.size === 0;
  }

  async ended(): Promise<void> {
    await Promise.allSettled(this.#work);
  }

  async release(): Promise<void> {
    await Promise.allSettled([...this.#holdings].map((one) => one.release()));
  }

  async lateAnswers(clock: Clock): Promise<void> {
    if (this.#late.size === 0) return;
    await noLongerThan(clock, Promise.allSettled(this.#late), LATE_ANSWERS_MS);
  }
}

export function closedError(more = ""): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `this nevertwice() is closed, and nothing was run.${more} Call before close(), or make a new one.`,
  );
}

function kept<T>(all: Set<Promise<unknown>>, work: Promise<T>): Promise<T> {
  all.add(work);
  const over = () => {
    all.delete(work);
  };
  work.then(over, over);
  return work;
}
