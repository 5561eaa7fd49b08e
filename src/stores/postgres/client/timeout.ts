/** Nothing waits for a server forever: a query without an answer is an error after this long, and its session is done for. */
import { clearTimeout, setTimeout } from "../../../engine/real-timers.ts";

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
