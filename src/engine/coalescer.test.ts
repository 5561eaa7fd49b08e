import { runInNewContext } from "node:vm";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { gate } from "../../test/support/gate.ts";
import { Coalescer, type CoalescerOptions } from "./coalescer.ts";

function coalescer(options: Partial<CoalescerOptions<string, string>> = {}) {
  const batches: string[][] = [];
  const made = new Coalescer<string, string>({
    flush: async (batch) => {
      batches.push([...batch]);
      return batch.map((one) => one.toUpperCase());
    },
    maxBatch: 500,
    maxInFlight: 2,
    splittable: () => true,
    ...options,
  });
  return { made, batches };
}

const flushing =
  (batches: string[][], bad: (batch: readonly string[]) => boolean) => async (batch: readonly string[]) => {
    batches.push([...batch]);
    if (bad(batch)) throw new Error(`no: ${batch.join()}`);
    return batch.map((one) => one.toUpperCase());
  };

/** However long the machine pauses, no batch is held back to let the event loop turn. */
function standStill(): void {
  const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => clock.mockRestore());
}

describe("Coalescer", () => {
  it("callers of one tick share a batch, sorted by key, each with its own answer", async () => {
    const { made, batches } = coalescer();
    expect(await Promise.all(["c", "a", "b"].map((one) => made.submit(one, one)))).toEqual(["C", "A", "B"]);
    expect(batches).toEqual([["a", "b", "c"]]);
  });

  it("a lone caller is not kept waiting for company", async () => {
    const { made, batches } = coalescer();
    expect(await made.submit("a", "a")).toBe("A");
    expect(batches).toEqual([["a"]]);
  });

  it("a key appears once in a batch; the next request of the same key goes with the next batch", async () => {
    const { made, batches } = coalescer();
    await Promise.all(["a", "a", "b", "a"].map((one) => made.submit(one, one)));
    expect(batches).toEqual([["a", "b"], ["a"], ["a"]]);
  });

  it("no batch is larger than the bound", async () => {
    const { made, batches } = coalescer({ maxBatch: 3 });
    await Promise.all(Array.from("abcdefgh", (one) => made.submit(one, one)));
    expect(batches.map((batch) => batch.length)).toEqual([3, 3, 2]);
  });

  it("in a crowd a batch holds half of it, up to its own bound, and goes back to the usual when the crowd is gone", async () => {
    const { made, batches } = coalescer({ maxBatch: 4, mostInCrowd: 8 });
    const all = (count: number) => Promise.all(Array.from({ length: count }, (_, i) => made.submit(`${i}`, `${i}`)));
    const sizes = async (count: number) => {
      batches.length = 0;
      await all(count);
      return batches.map((batch) => batch.length);
    };
    expect(await sizes(8)).toEqual([4, 4]);
    expect(await sizes(12)).toEqual([6, 6]);
    expect(await sizes(40)).toEqual([8, 8, 8, 8, 8]);
    for (let i = 0; i < 200; i += 1) await all(1);
    expect(await sizes(8)).toEqual([4, 4]);
  });

  it("no more batches are under way at once than allowed; the rest gathers", async () => {
    const doors = Array.from({ length: 3 }, () => gate());
    const batches: string[][] = [];
    const { made } = coalescer({
      flush: async (batch) => {
        const door = doors[batches.push([...batch]) - 1];
        await door?.opened;
        return [...batch];
      },
    });
    const tick = () => new Promise((done) => setImmediate(done));
    const all: Promise<string>[] = [];
    for (const one of "abcde") {
      all.push(made.submit(one, one));
      await tick();
    }
    expect(batches).toEqual([["a"], ["b"]]);
    for (const door of doors) door.open();
    await Promise.all(all);
    expect(batches).toEqual([["a"], ["b"], ["c", "d", "e"]]);
  });

  it("a batch that fails for one row is split: its neighbours succeed", async () => {
    const batches: string[][] = [];
    const { made } = coalescer({ flush: flushing(batches, (batch) => batch.includes("bad")) });
    const ends = await Promise.allSettled(["a", "bad", "c", "d"].map((one) => made.submit(one, one)));
    expect(ends.map((end) => end.status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect(batches.length).toBeLessThanOrEqual(7);
  });

  it("a failure of the whole store is not split", async () => {
    const batches: string[][] = [];
    const { made } = coalescer({ flush: flushing(batches, () => true), splittable: () => false });
    const ends = await Promise.allSettled(["a", "b", "c"].map((one) => made.submit(one, one)));
    expect(ends.map((end) => end.status)).toEqual(Array(3).fill("rejected"));
    expect(batches).toHaveLength(1);
  });

  it("goes on after a failure", async () => {
    const batches: string[][] = [];
    const { made } = coalescer({ flush: flushing(batches, () => batches.length === 1) });
    await expect(made.submit("a", "a")).rejects.toThrow("no: a");
    expect(await made.submit("a", "a")).toBe("A");
  });

  it("whoever has been alone for long goes out at once; a crowd that comes all the same shares its batches", async () => {
    standStill();
    const { made, batches } = coalescer();
    const enter = (one: string) =>
      new Promise<string>((resolve, reject) => made.enter({ key: one, request: one, resolve, reject }, true));
    const early = enter("early");
    expect(batches).toEqual([]);
    await early;
    for (let i = 0; i < 20; i += 1) await made.submit(`${i}`, `${i}`);
    batches.length = 0;
    const all = [enter("a"), ...["d", "c", "b"].map((one) => made.submit(one, one))];
    expect(batches).toEqual([["a"]]);
    await Promise.all(all);
    expect(batches).toEqual([["a"], ["b", "c", "d"]]);
    // Company was found, so for a while everybody waits for it again.
    const later = enter("e");
    expect(batches).toHaveLength(2);
    await later;
  });

  it("an answer may come by a promise of another realm", async () => {
    const { made } = coalescer({ flush: runInNewContext("async (batch) => batch") });
    expect(await made.submit("a", "a")).toBe("a");
  });

  it("a lone caller in a tight loop lets the event loop turn", async () => {
    const coalescer = new Coalescer<string, string>({
      // Busy for a millisecond and never asynchronous, like a commit on the loop.
      flush: (keys) => {
        const end = performance.now() + 1;
        while (performance.now() < end);
        return Promise.resolve(keys);
      },
      maxBatch: 10,
      maxInFlight: 2,
      splittable: () => false,
    });
    let turns = 0;
    const count = () => {
      turns += 1;
      if (turns < 1_000) setImmediate(count);
    };
    setImmediate(count);
    for (let i = 0; i < 50; i += 1) {
      await coalescer.submit(`k${i}`, `k${i}`);
      // What a caller does between two requests, in promises alone.
      for (let hop = 0; hop < 10; hop += 1) await null;
    }
    expect(turns).toBeGreaterThan(5);
  });
});
