/** Time and chance, handed in so that tests can hold them. */
import { performance } from "node:perf_hooks";
import { clearTimeout, setTimeout } from "./real-timers.ts";

export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Monotonic milliseconds of this process: for budgets and intervals, never stored. */
  monotonic(): number;
  /** `background`: must not keep the process alive. */
  after(ms: number, run: () => void, background?: boolean): Timer;
}

// Node's timers overflow above 2^31 - 1 ms and would fire at once.
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  after(ms, run, background = false) {
    const handle = setTimeout(run, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
    if (background) handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
};

/** The work's end, or the end of this time. */
export function noLongerThan(clock: Clock, work: Promise<unknown>, ms: number): Promise<unknown> {
  return new Promise((done, fail) => {
    const timer = clock.after(ms, () => done(undefined));
    work.then(done, fail).finally(() => timer.cancel());
  });
}

export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise((done) => {
    clock.after(ms, done);
  });
}
