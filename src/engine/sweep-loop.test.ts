import { expect, it } from "vitest";
import { manualClock } from "../../test/support/manual-clock.ts";
import { type Pass, SweepLoop } from "./sweep-loop.ts";

const EVERY_MS = 30_000;
const HALF = () => 0.5;
const NOTHING: Pass = { changed: 0, more: false };

/** A loop over passes of the test's own, on a clock that only the test moves; what a pass takes is moved inside it. */
function loopOf(work: Partial<Record<"lapse" | "settle" | "remove", () => Promise<Pass>>>) {
  const clock = manualClock();
  const errors: unknown[] = [];
  const none = async () => NOTHING;
  const loop = new SweepLoop({
    work: { lapse: none, settle: none, remove: none, ...work },
    clock,
    everyMs: EVERY_MS,
    random: HALF,
    onError: (error) => {
      errors.push(error);
      throw new Error("the logger fails too");
    },
  });
  loop.start();
  return { clock, loop, errors };
}

it("the background sweep goes on while passes are full: 50 000 expired records are gone within 51 passes and one interval", async () => {
  let left = 50_000;
  let passes = 0;
  const { clock, loop } = loopOf({
    remove: async () => {
      passes += 1;
      const changed = Math.min(1_000, left);
      left -= changed;
      return { changed, more: changed === 1_000 };
    },
  });
  await clock.advance(EVERY_MS);
  expect(left).toBe(0);
  expect(passes).toBe(51);
  await clock.advance(EVERY_MS);
  expect(passes).toBe(52);
  await loop.stop();
});

it("a pause is three times as long as the pass before it took", async () => {
  const begun: number[] = [];
  const { clock, loop } = loopOf({
    remove: async () => {
      begun.push(clock.monotonic());
      // Time that passes while the store works.
      await clock.advance(100);
      return { changed: 1_000, more: true };
    },
  });
  await clock.advance(EVERY_MS);
  const gaps = begun.slice(1, 6).map((at, i) => at - (begun[i] as number));
  expect(gaps).toEqual([400, 400, 400, 400, 400]);
  await loop.stop();
});

it("G4: a backlog of removals does not delay the look for silent holders", async () => {
  let looks = 0;
  const { clock, loop } = loopOf({
    lapse: async () => {
      looks += 1;
      return NOTHING;
    },
    remove: async () => ({ changed: 1_000, more: true }),
  });
  await clock.advance(10 * EVERY_MS);
  expect(looks).toBeGreaterThanOrEqual(9);
  await loop.stop();
});

it("a store that fails, and a logger that fails with it, never stop the loop", async () => {
  let tries = 0;
  const { clock, loop, errors } = loopOf({
    remove: async () => {
      tries += 1;
      throw new Error("the store is down");
    },
  });
  await clock.advance(5 * EVERY_MS);
  expect(tries).toBeGreaterThanOrEqual(4);
  expect(errors).toHaveLength(tries);
  await loop.stop();
});

it("a long round that finds nothing is followed by a long rest, one that finds much is not", async () => {
  let passes = 0;
  let changed = 0;
  const { clock, loop } = loopOf({
    remove: async () => {
      passes += 1;
      await clock.advance(1_000);
      return { changed, more: false };
    },
  });
  await clock.advance(EVERY_MS);
  const idle = passes;
  await clock.advance(150_000);
  expect(passes).toBe(idle);
  await clock.advance(100_000);
  expect(passes).toBe(idle + 1);
  changed = 100_000;
  await clock.advance(300_000);
  const busy = passes;
  await clock.advance(300_000);
  expect(passes - busy).toBeGreaterThanOrEqual(8);
  await loop.stop();
});

it("stop() ends it between two passes of a backlog", async () => {
  let passes = 0;
  const { clock, loop } = loopOf({
    remove: async () => {
      passes += 1;
      return { changed: 1_000, more: true };
    },
  });
  await clock.advance(EVERY_MS * 0.35);
  const before = passes;
  expect(before).toBeGreaterThan(2);
  await loop.stop();
  await clock.advance(10 * EVERY_MS);
  expect(passes).toBe(before);
  expect(clock.timers).toBe(0);
});
