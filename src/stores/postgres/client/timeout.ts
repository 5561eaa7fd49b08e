/** Nothing waits for a server forever: a query without an answer is an error after this long, and its session is done for. */
import { performance } from "node:perf_hooks";
import { clearTimeout, type RealTimer, setTimeout } from "../../../engine/real-timers.ts";

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
  /** Its neighbours in line. */
  before: Wait | null;
  after: Wait | null;
  over: boolean;
}

/**
 * The same for what is asked all the time. Everybody waits equally long, so who came first gives up first, and one timer
 * serves all: two that are set and cleared for every query show in a lone caller's time. So does a Set that each comes and
 * goes through alone: they stand in a linked list.
 */
export class Patience {
  readonly #timeoutMs: number;
  #first: Wait | null = null;
  #last: Wait | null = null;
  #timer: RealTimer | null = null;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  begin(giveUp: (error: QueryTimeout) => void): Wait {
    const until = performance.now() + this.#timeoutMs;
    const wait: Wait = { until, giveUp, before: this.#last, after: null, over: false };
    if (this.#timer === null) this.#timer = setTimeout(this.#look, this.#timeoutMs);
    else if (this.#first === null) this.#timer.ref();
    if (this.#last === null) this.#first = wait;
    else this.#last.after = wait;
    this.#last = wait;
    return wait;
  }

  end(wait: Wait): void {
    if (wait.over) return;
    wait.over = true;
    if (wait.before === null) this.#first = wait.after;
    else wait.before.after = wait.after;
    if (wait.after === null) this.#last = wait.before;
    else wait.after.before = wait.before;
    wait.before = null;
    wait.after = null;
    // The timer goes on for those who come next, and keeps no program alive for their sake.
    if (this.#first === null) this.#timer?.unref();
  }

  readonly #look = (): void => {
    this.#timer = null;
    const now = performance.now();
    for (let wait = this.#first; wait !== null; wait = this.#first) {
      // A timer may fire a fraction of a millisecond early.
      if (wait.until > now + 1) {
        this.#timer = setTimeout(this.#look, wait.until - now);
        return;
      }
      this.end(wait);
      wait.giveUp(new QueryTimeout(this.#timeoutMs));
    }
  };
}
