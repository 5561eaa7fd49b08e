import { expect, it } from "vitest";
import { until } from "../../test/support/gate.ts";
import { manualClock } from "../../test/support/manual-clock.ts";
import { memoryStore } from "../stores/memory.ts";
import { sampleRecord } from "../testing/index.ts";
import type { CallDefaults } from "./call.ts";
import { systemClock } from "./clock.ts";
import type { Engine } from "./engine.ts";
import { Events } from "./events.ts";
import { Ledger } from "./ledger.ts";
import { type Pass, SweepLoop, type SweepWork } from "./sweep-loop.ts";
import { Sweeper } from "./sweeper.ts";

const EVERY_MS = 30_000;
const HALF = () => 0.5;
const NOTHING: Pass = { changed: 0, more: false };

/** A loop over passes of the test's own, on a clock that only the test moves; what a pass takes is moved inside it. */
function loopOf(work: Partial<SweepWork>) {
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

it("passes grow while they are full, and the pauses between them shrink to a quarter of a pass", async () => {
  const begun: number[] = [];
  const sizes: number[] = [];
  const { clock, loop } = loopOf({
    remove: async (times) => {
      begun.push(clock.monotonic());
      sizes.push(times);
      // Time that passes while the store works.
      await clock.advance(100);
      return { changed: 1_000 * times, more: true };
    },
  });
  await clock.advance(EVERY_MS);
  const gaps = begun.slice(1, 7).map((at, i) => at - (begun[i] as number) - 100);
  expect(gaps).toEqual([300, 150, 75, 37.5, 30, 30]);
  expect(sizes.slice(0, 7)).toEqual([1, 2, 4, 8, 10, 10, 10]);
  await loop.stop();
});

it("a pass that was not full is followed by one of half its size", async () => {
  const sizes: number[] = [];
  let left = 4_500;
  const { clock, loop } = loopOf({
    remove: async (times) => {
      sizes.push(times);
      const changed = Math.min(1_000 * times, left);
      left -= changed;
      return { changed, more: changed === 1_000 * times };
    },
  });
  await clock.advance(4 * EVERY_MS);
  expect(sizes.slice(0, 5)).toEqual([1, 2, 4, 2, 1]);
  await loop.stop();
});

it.each([500, 2_000, 5_000])(
  "a backlog stays bounded where %i records expire a second and a pass mostly waits for its turn",
  async (perSecond) => {
    const everyMs = 1_000;
    const clock = manualClock();
    const started = clock.monotonic();
    let removed = 0;
    const backlog = () => Math.floor(((clock.monotonic() - started) * perSecond) / 1_000) - removed;
    const remove = async (times: number): Promise<Pass> => {
      // Half a second until its turn, and what removing costs.
      await clock.advance(500);
      const changed = Math.min(1_000 * times, backlog());
      await clock.advance(changed * 0.013);
      removed += changed;
      return { changed, more: changed === 1_000 * times };
    };
    const none = async () => NOTHING;
    const work = { lapse: none, settle: none, remove };
    const loop = new SweepLoop({ work, clock, everyMs, random: HALF, onError: () => {} });
    loop.start();
    const seen: number[] = [];
    for (let second = 0; second < 120; second += 1) {
      await clock.advance(1_000);
      seen.push(backlog());
    }
    // Within the second minute it is no longer than in the first, and never as much as expires in ten seconds.
    expect(Math.max(...seen)).toBeLessThan(10 * perSecond);
    expect(Math.max(...seen.slice(60))).toBeLessThanOrEqual(Math.max(...seen.slice(0, 60)));
    await loop.stop();
  },
);

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

it("long rounds that find nothing are followed by longer and longer rests, one that finds much is not", async () => {
  let passes = 0;
  let changed = 0;
  const { clock, loop } = loopOf({
    remove: async () => {
      passes += 1;
      await clock.advance(1_000);
      return { changed, more: false };
    },
  });
  // Each rest is at most twice as long as the one before: 60 s, 120 s, then what it comes to.
  await clock.advance(EVERY_MS);
  expect(passes).toBe(1);
  await clock.advance(60_000);
  expect(passes).toBe(2);
  await clock.advance(130_000);
  const idle = passes;
  expect(idle).toBe(3);
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

it("G4: 1 700 holders that fell silent at once are visible as unknown after one interval", async () => {
  const store = memoryStore();
  const lease = { until: 0, epoch: "an earlier boot" };
  const silent = Array.from({ length: 1_700 }, (_, n) => ({
    record: sampleRecord({ key: `nt1_${n}`, state: "sent", attempt: 1, fence: 1, holder: `h.${n}`, lease }),
    expected: null,
  }));
  await store.write(silent);
  const events = new Events();
  const ledger = new Ledger({ store, clock: systemClock, events, random: HALF });
  // What a pass over silent holders needs of the engine.
  const engine = { services: { ledger, events, underWay: { closed: false } } } as unknown as Engine;
  const sweeper = new Sweeper(engine, new Map(), {} as CallDefaults);
  let begun = 0;
  let ended = 0;
  const lapse = async (): Promise<Pass> => {
    begun += 1;
    const pass = await sweeper.lapse();
    ended += 1;
    return pass;
  };
  const { clock, loop } = loopOf({ lapse });
  for (let second = 0; second < EVERY_MS / 1_000; second += 1) {
    await clock.advance(1_000);
    await until(() => begun === ended, "the end of the pass");
  }
  const { unknown, sent } = (await store.stats()).states;
  expect({ unknown, sent }).toEqual({ unknown: 1_700, sent: 0 });
  await loop.stop();
});
