import type { Task } from "nevertwice/outbox";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";

interface Research {
  topic: string;
  note?: string;
}

eachStore("queue", (open) => {
  const researching = () => {
    const bench = open();
    const queue = bench.nt.queue<Research, string>("research", { key: ["topic"], free: ["note"], lease: "60s" });
    return { ...bench, queue };
  };

  it("B5 several agents claim from one queue, oldest first, no two the same", async () => {
    const { queue, another, clock } = researching();
    for (const topic of ["a", "b", "c", "d"]) {
      await queue.add({ topic });
      clock.advance(1_000);
    }
    const other = another().queue<Research, string>("research", { key: ["topic"], free: ["note"] });
    const taken = [await queue.take(), await other.take(), await queue.take(), await other.take(), await queue.take()];
    expect(taken.map((task) => task?.input.topic ?? null)).toEqual(["a", "b", "c", "d", null]);
    for (const task of taken) await task?.done("ok");
  });

  it("R7 A hands a task to B by an intent key; A's retry is harmless and in the end tells what it came to", async () => {
    const { queue, another, store } = researching();
    const b = another().queue<Research, string>("research", { key: ["topic"], free: ["note"] });
    const handed = await Promise.all([1, 2, 3].map((n) => queue.add({ topic: "rates", note: `wording ${n}` })));
    expect(handed.filter(({ created }) => created)).toHaveLength(1);
    const task = await b.take();
    expect(await b.take()).toBeNull();
    expect(await queue.add({ topic: "rates", note: "again" })).toMatchObject({ created: false, state: "claimed" });
    expect(await task?.done("4.1 %")).toMatchObject({ status: "done", replayed: false });
    expect(await queue.add({ topic: "rates", note: "and again" })).toMatchObject({
      created: false,
      state: "confirmed",
      result: "4.1 %",
    });
    expect(await b.take()).toBeNull();
    expect((await store.stats()).total).toBe(1);
  });

  it("an agent that falls silent loses its task to the next one; what it says later is evidence all the same", async () => {
    const { queue, another, clock, record } = researching();
    await queue.add({ topic: "rates" });
    const silent = await queue.take();
    clock.advance(60_001);
    const other = another().queue<Research, string>("research", { key: ["topic"] });
    const second = await other.take();
    expect(second).toMatchObject({ input: { topic: "rates" }, attempt: 2 });
    expect(await silent?.done("first")).toMatchObject({ status: "done", replayed: false });
    expect(await second?.done("second")).toMatchObject({ status: "done", replayed: true, result: "first" });
    expect((await record(silent?.key as string)).state).toBe("confirmed");
  });

  it("fail: back to the queue after a pause, then a dead letter", async () => {
    const { nt, clock } = open();
    const queue = nt.queue<Research, string>("research", { key: ["topic"], retry: { attempts: 2, backoff: "1s" } });
    await queue.add({ topic: "rates" });
    expect(await (await queue.take())?.fail(new Error("no source"))).toMatchObject({ status: "queued" });
    clock.advance(1_001);
    expect(await (await queue.take())?.fail(new Error("no source"))).toMatchObject({ status: "failed", final: false });
    clock.advance(60_000);
    expect(await queue.take()).toBeNull();
    await queue.add({ topic: "moon" });
    expect(await (await queue.take())?.fail("nonsense", { final: true })).toMatchObject({
      status: "failed",
      final: true,
    });
  });

  it("giveBack is not counted as a try", async () => {
    const { queue, clock } = researching();
    await queue.add({ topic: "rates" });
    await (await queue.take())?.giveBack({ delay: "10s" });
    expect(await queue.take()).toBeNull();
    clock.advance(10_001);
    expect(await queue.take()).toMatchObject({ attempt: 1 });
  });

  it("take waits for a task, if told to", async () => {
    const { queue } = researching();
    const waiting = queue.take({ wait: "20s" });
    await queue.add({ topic: "rates" });
    expect(await waiting).toMatchObject({ input: { topic: "rates" } });
  });

  it("stale, unreadable and not yet first in line: passed over, and the next is handed out", async () => {
    const { nt, clock, another } = open();
    const loose = another().queue<{ topic: number }>("research", { key: ["topic"] });
    const queue = nt.queue<Research, string>("research", { input: z.object({ topic: z.string() }), key: ["topic"] });
    await queue.add({ topic: "stale" }, { expires: "1s" });
    await loose.add({ topic: 7 });
    await queue.addMany([{ topic: "first" }, { topic: "second" }], { orderKey: "line" });
    clock.advance(1_001);
    const first = await queue.take();
    expect(first?.input.topic).toBe("first");
    expect(await queue.take()).toBeNull();
    await first?.done("ok");
    clock.advance(10_000);
    expect((await queue.take())?.input.topic).toBe("second");
    expect(await queue.status({ topic: "stale" })).toMatchObject({
      status: "failed",
      final: false,
      error: { code: "EXPIRED" },
    });
  });
});

describe("queue, a store that does not answer", () => {
  const settles = {
    done: { end: (task: Task<Research, string>) => task.done("ok"), state: "confirmed" },
    fail: { end: (task: Task<Research, string>) => task.fail(new Error("no")), state: "pending" },
    giveBack: { end: (task: Task<Research, string>) => task.giveBack(), state: "pending" },
  } as const;

  it.each(["done", "fail", "giveBack"] as const)(
    "%s may be repeated until it was acknowledged, and is the same afterwards",
    async (how) => {
      const faults: Faults = {};
      const { nt, record } = openMemory({ wrap: (store) => faulty(store, faults) });
      const queue = nt.queue<Research, string>("research", { key: ["topic"], lease: "60s" });
      await queue.add({ topic: "rates" });
      const task = (await queue.take()) as Task<Research, string>;
      const { end, state } = settles[how];
      faults.down = true;
      await expect(end(task)).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(
          new RegExp(`^(?!.*(Nothing was run|next call)).*still held.*Call ${how}\\(\\) again until it returns`, "s"),
        ),
      });
      expect(await record(task.key)).toMatchObject({ state: "claimed" });
      faults.down = false;
      await until(async () =>
        end(task).then(
          () => true,
          () => false,
        ),
      );
      expect(await record(task.key)).toMatchObject({ state });
      const after = await record(task.key);
      await end(task);
      expect(await record(task.key)).toEqual(after);
      expect(task.signal.aborted).toBe(false);
    },
  );

  it("done() whose reply was lost was ours: repeated, it is no replay", async () => {
    const faults: Faults = {};
    const { nt, record } = openMemory({ wrap: (store) => faulty(store, faults) });
    const queue = nt.queue<Research, string>("research", { key: ["topic"] });
    await queue.add({ topic: "rates" });
    const task = (await queue.take()) as Task<Research, string>;
    faults.afterWrite = () => {
      faults.down = true;
      throw new Error("the reply was lost");
    };
    await expect(task.done("ok")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await record(task.key)).toMatchObject({ state: "confirmed" });
    delete faults.afterWrite;
    faults.down = false;
    await until(async () =>
      task.done("ok").then(
        () => true,
        () => false,
      ),
    );
    expect(await task.done("ok")).toMatchObject({ status: "done", replayed: false, result: "ok" });
  });

  it("its lease is kept by heartbeats while done() cannot be written", async () => {
    const faults: Faults = {};
    const { nt, record } = openMemory({ wrap: (store) => faulty(store, faults) });
    const queue = nt.queue<Research, string>("research", { key: ["topic"], lease: "2s" });
    await queue.add({ topic: "rates" });
    const task = (await queue.take()) as Task<Research, string>;
    faults.down = true;
    await expect(task.done("ok")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const before = (await record(task.key)).lease?.until ?? 0;
    faults.down = false;
    await until(async () => ((await record(task.key)).lease?.until ?? 0) > before, "a heartbeat");
    await task.done("ok");
  });
});

describe("queue, what it refuses", () => {
  it("its name belongs to it alone, and a task ends once", async () => {
    const { nt } = openMemory();
    const queue = nt.queue<Research, string>("research");
    expect(() => nt.queue("research")).toThrow("defined twice");
    expect(() => nt.action("research", { run: async () => 1 })).toThrow("defined twice");
    expect(() => nt.queue("other", { lese: "1s" } as object)).toThrow('no option "lese"');
    await queue.add({ topic: "rates" });
    const task = await queue.take();
    await task?.done("ok");
    expect(await task?.done("ok")).toMatchObject({ status: "done", replayed: false });
    await expect(task?.fail(new Error("late"))).rejects.toThrow("ended before, by done()");
    await expect(task?.giveBack()).rejects.toThrow("ended before, by done()");
  });
});
