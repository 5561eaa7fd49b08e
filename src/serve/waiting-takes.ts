/**
 * Takes that wait for work. Of those that wait for the same, only the first looks, and the next one when it has got
 * something or gone: what many idle takes cost does not grow with their number. Those that wait for different work look
 * less often, the more they are, so that claims and heartbeats are not held up.
 */
import type { EngineServices } from "../engine/engine.ts";
import { type WantedWork, workNews } from "../engine/work-news.ts";

const POLL_MS = 250;
const MOST_POLL_MS = 10_000;
/** All lines together look at most about this often. */
const LOOKS_PER_SECOND = 40;

interface Waiter {
  /** Its turn has come. */
  first: () => void;
}

export class WaitingTakes {
  readonly #lines = new Map<string, Waiter[]>();

  /** Looks again and again, when it is this one's turn, until something is found or the time is up. */
  async wait<T>(
    services: EngineServices,
    wanted: WantedWork & { readonly line: string },
    { leftMs, look, signal }: { leftMs(): number; look(): Promise<readonly T[]>; signal: AbortSignal },
  ): Promise<readonly T[]> {
    const { underWay } = services;
    const isOver = () => leftMs() <= 0 || signal.aborted || underWay.closed;
    const me: Waiter = { first: () => {} };
    const line = this.#lines.get(wanted.line) ?? [];
    this.#lines.set(wanted.line, line);
    line.push(me);
    try {
      let looksAtOnce = line[0] !== me;
      while (line[0] !== me && !isOver()) await this.#turn(services, me, leftMs(), signal);
      while (!isOver()) {
        if (!looksAtOnce) await workNews(services, wanted, Math.min(leftMs(), this.#pauseMs()), signal);
        looksAtOnce = false;
        if (signal.aborted || underWay.closed) return [];
        const found = await look();
        if (found.length > 0) return found;
      }
      return [];
    } finally {
      line.splice(line.indexOf(me), 1);
      if (line.length === 0) this.#lines.delete(wanted.line);
      else line[0]?.first();
    }
  }

  #pauseMs(): number {
    return Math.min(MOST_POLL_MS, Math.max(POLL_MS, (this.#lines.size * 1_000) / LOOKS_PER_SECOND));
  }

  #turn({ clock, underWay }: EngineServices, me: Waiter, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((done) => {
      const over = () => {
        timer.cancel();
        forget();
        signal.removeEventListener("abort", over);
        done();
      };
      const timer = clock.after(ms, over);
      const forget = underWay.onClose(over);
      me.first = over;
      signal.addEventListener("abort", over);
      if (signal.aborted) over();
    });
  }
}
