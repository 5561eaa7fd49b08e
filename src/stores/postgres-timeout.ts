/** Nothing waits for a server forever: a query without an answer is an error after this long, and its session is done for. */
import { performance } from "node:perf_hooks";

export class QueryTimeout extends Error {
  override readonly name = "QueryTimeout";
  readonly timeoutMs: number;
  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`);
    this.timeoutMs = timeoutMs;
  }
}

/** Rejects after `timeoutMs` and calls `giveUp`; an answer that comes later is dropped, never taken for one. */
export function answerWithin<T>(timeoutMs: number, answer: PromiseLike<T>, giveUp: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new QueryTimeout(timeoutMs));
      giveUp();
    }, timeoutMs);
    answer.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

interface Wait {
  readonly until: number;
  readonly giveUp: (error: QueryTimeout) => void;
}

/**
 * The same for what is asked all the time. Everybody waits equally long, so who came first gives up first, and one timer
 * serves all: two that are set and cleared for every query show in a lone caller's time.
 */
export class Patience {
  readonly #timeoutMs: number;
  readonly #waiting = new Set<Wait>();
  #timer: NodeJS.Timeout | null = null;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  begin(giveUp: (error: QueryTimeout) => void): Wait {
    const wait = { until: performance.now() + this.#timeoutMs, giveUp };
    if (this.#timer === null) this.#timer = setTimeout(this.#look, this.#timeoutMs);
    else if (this.#waiting.size === 0) this.#timer.ref();
    this.#waiting.add(wait);
    return wait;
  }

  end(wait: Wait): void {
    // The timer goes on for those who come next, and keeps no program alive for their sake.
    if (this.#waiting.delete(wait) && this.#waiting.size === 0) this.#timer?.unref();
  }

  readonly #look = (): void => {
    this.#timer = null;
    const now = performance.now();
    for (const wait of this.#waiting) {
      // A timer may fire a fraction of a millisecond early.
      if (wait.until > now + 1) {
        this.#timer = setTimeout(this.#look, wait.until - now);
        return;
      }
      this.#waiting.delete(wait);
      wait.giveUp(new QueryTimeout(this.#timeoutMs));
    }
  };
}
