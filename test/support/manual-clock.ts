/** An engine clock that stands still until the test moves it. */
import type { Clock } from "../../src/engine/clock.ts";

export interface ManualClock extends Clock {
  /** Moves on, running what falls due in order; callbacks may set further timers. */
  advance(ms: number): Promise<void>;
  /** How many timers wait. */
  readonly timers: number;
}

export function manualClock(): ManualClock {
  let now = 1_000;
  let waiting: { at: number; run: () => void }[] = [];
  const settle = () => new Promise((done) => setImmediate(done));
  return {
    monotonic: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      waiting.push(timer);
      return {
        cancel: () => {
          waiting = waiting.filter((one) => one !== timer);
        },
      };
    },
    async advance(ms) {
      const end = now + ms;
      for (;;) {
        const [next] = waiting.filter((one) => one.at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        waiting = waiting.filter((one) => one !== next);
        now = Math.max(now, next.at);
        next.run();
        await settle();
        await settle();
      }
      now = end;
      await settle();
    },
    get timers() {
      return waiting.length;
    },
  };
}
