/**
 * Timers and the wall clock of the process, whatever a test has put in their place. A program under test may run with fake
 * timers; a batch that waits for a faked `setImmediate`, or a deadline that never comes because `Date` stands still, would hang
 * a guarded call for ever. So the ledger runs on real time; tests move it by the `clock` option of a store.
 *
 * All of src takes timers from here. They are captured when this module is loaded. If a test faked them before that:
 * - the library of vitest, Jest and Sinon keeps each function that it replaces in its clock, under the name with a `_`;
 * - `node:test` keeps them to itself: `unmocked-timers.ts` then makes do without.
 * `performance` is taken from `node:perf_hooks`: fakes replace the global one.
 */
import {
  clearInterval as clearIntervalNow,
  clearTimeout as clearTimeoutNow,
  setImmediate as setImmediateNow,
  setInterval as setIntervalNow,
  setTimeout as setTimeoutNow,
} from "node:timers";
import { unmockedTimers } from "./unmocked-timers.ts";

/** The function that a fake stands for; the given one where it is none. */
function genuine<T>(given: T, name: string): T {
  const { clock } = given as { clock?: Record<string, T | undefined> };
  const replaced = clock?.[`_${name}`];
  return typeof replaced === "function" ? genuine(replaced, name) : given;
}

const loaded = {
  setTimeout: genuine(setTimeoutNow, "setTimeout"),
  clearTimeout: genuine(clearTimeoutNow, "clearTimeout"),
  setInterval: genuine(setIntervalNow, "setInterval"),
  clearInterval: genuine(clearIntervalNow, "clearInterval"),
  setImmediate: genuine(setImmediateNow, "setImmediate"),
};
// Node's own functions are not bound; those of its test runner are.
const mocked = [loaded.setTimeout, loaded.setInterval, loaded.setImmediate].some(({ name }) => /^bound /.test(name));
const found = mocked ? unmockedTimers() : loaded;

export interface RealTimer {
  ref(): this;
  unref(): this;
  /** Counts from now again. */
  refresh(): this;
}

/** Called without a value; the parameter lets a promise's `resolve` be given as it is. */
type Run = (nothing?: undefined) => void;

export const setTimeout: (run: Run, ms: number) => RealTimer = found.setTimeout;
export const setInterval: (run: Run, ms: number) => RealTimer = found.setInterval;
export const clearTimeout = found.clearTimeout as (timer: RealTimer | null | undefined) => void;
export const clearInterval = found.clearInterval as (timer: RealTimer | null | undefined) => void;
export const setImmediate: (run: Run) => unknown = found.setImmediate;

const tick = genuine(process.nextTick, "nextTick");
export const nextTick = (run: () => void): void => tick.call(process, run);

const GenuineDate = dateOf();

function dateOf(): DateConstructor {
  const given = genuine(Date, "Date") as DateConstructor & { isMock?: boolean };
  // Of node:test: its instances are those of the class that it stands for.
  return given.isMock === true ? (given.prototype.constructor as DateConstructor) : given;
}

/** Epoch ms by this host's wall clock. */
export function wallNow(): number {
  return GenuineDate.now();
}

/** Aborts after the time; `done` lets go of it. */
export function deadline(ms: number): { readonly signal: AbortSignal; done(): void } {
  const aborting = new AbortController();
  const timer = setTimeout(() => aborting.abort(new DOMException(`no answer within ${ms} ms`, "TimeoutError")), ms);
  return { signal: aborting.signal, done: () => clearTimeout(timer) };
}
