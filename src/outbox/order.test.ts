import { nevertwice, notSent, type Put, type Store } from "nevertwice";
import { describe, expect, it, onTestFinished } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { faulty } from "../../test/support/store-faults.ts";
import { memoryStore } from "../stores/memory.ts";

interface Job {
  id: string;
}

const SIGNED = { by: "ana", reason: "fixed" };

it("the next one is due as soon as the one before it is settled: a long order does not wait from look to look", async () => {
  // The clock stands still: what was put off to a later time is never due by itself.
  const now = Date.now();
  const nt = nevertwice({
    store: memoryStore({ clock: { instant: () => ({ now, steady: now, epoch: "" }) } }),
    sweep: false,
  });
  onTestFinished(() => nt.close());
  const ran: string[] = [];
  const send = nt.action("job", { key: ["id"], run: async ({ id }: Job) => void ran.push(id) });
  const ids = Array.from({ length: 40 }, (_, i) => String(i));
  for (const id of ids) await send.enqueue({ id }, { orderKey: "o" });
  const worker = nt.worker({ concurrency: 10 });
  await worker.start();
  await until(() => ran.length === ids.length, "all have run");
  expect(ran).toEqual(ids);
});

eachStore("order", (open) => {
  /** Jobs of one order; those in `failing` are refused, but not for good. */
  const bench = () => {
    const opened = open();
    const ran: string[] = [];
    const failing = new Set<string>();
    const options = {
      key: ["id"] as const,
      retry: { attempts: 1 },
      run: async ({ id }: Job) => {
        ran.push(id);
        if (failing.has(id)) throw notSent(new Error("out of order"));
      },
    };
    const send = opened.nt.action("job", options);
    // A millisecond each: what is due at the same moment is leased in no particular order.
    const enqueue = async (id: string, orderKey = "o") => {
      const enqueued = await send.enqueue({ id }, { orderKey });
      opened.clock.advance(1);
      return enqueued;
    };
    return { ...opened, send, enqueue, ran, failing, options };
  };

  it("a dead letter that is enqueued again runs again: it does not wait for itself", async () => {
    const { nt, enqueue, ran, failing, send } = bench();
    failing.add("a");
    await enqueue("a");
    const worker = nt.worker();
    await worker.drain();
    failing.clear();
    await enqueue("a");
    await worker.drain();
    expect(ran).toEqual(["a", "a"]);
    expect(await send.status({ id: "a" })).toMatchObject({ status: "done" });
  });

  it("a dead letter that is enqueued again goes to the end, and those behind its old place do not wait for it", async () => {
    const { nt, enqueue, ran, failing } = bench();
    failing.add("a");
    await enqueue("a");
    const worker = nt.worker({ concurrency: 1 });
    await worker.drain();
    failing.clear();
    await enqueue("b");
    await enqueue("a");
    await enqueue("c");
    await worker.drain();
    expect(ran).toEqual(["a", "b", "a", "c"]);
  });

  it("retry and retryAll bring a dead letter back at the end of its order", async () => {
    const { nt, enqueue, ran, failing, record } = bench();
    for (const id of ["a", "b", "c"]) failing.add(id);
    const { key } = await enqueue("a");
    await enqueue("b");
    await enqueue("c");
    const worker = nt.worker();
    await worker.drain();
    const before = (await record(key)).terms?.place ?? 0;
    failing.clear();
    await enqueue("d");
    await nt.retry({ key }, SIGNED);
    expect((await record(key)).terms?.place).toBeGreaterThan(before);
    await enqueue("e");
    await nt.retryAll({}, SIGNED);
    await worker.drain();
    expect(ran).toEqual(["a", "b", "c", "d", "a", "e", "b", "c"]);
  });

  it("a dead letter that is enqueued with another order, or none, holds up neither", async () => {
    const { nt, enqueue, ran, failing, send } = bench();
    failing.add("a");
    failing.add("b");
    await enqueue("a");
    await enqueue("b");
    await enqueue("c");
    const worker = nt.worker();
    await worker.drain();
    failing.clear();
    await enqueue("x", "other");
    await enqueue("a", "other");
    await send.enqueue({ id: "b" });
    await enqueue("d");
    await worker.drain();
    expect(ran.slice(3).sort()).toEqual(["a", "b", "d", "x"]);
    expect(ran.indexOf("x")).toBeLessThan(ran.lastIndexOf("a"));
  });

  it("what has expired is put aside at its turn, and does not let the next one begin early", async () => {
    const { nt, enqueue, send, ran, clock, another, options } = bench();
    const held = gate();
    const other = another();
    other.action("job", {
      ...options,
      run: async ({ id }: Job) => {
        ran.push(id);
        await held.opened;
      },
    });
    await enqueue("a");
    await send.enqueue({ id: "b" }, { orderKey: "o", expires: "1s" });
    await enqueue("c");
    const first = other.worker({ concurrency: 1 }).tick();
    await until(() => ran.length === 1, "a has begun");
    clock.advance(2_000);
    const worker = nt.worker();
    for (let look = 0; look < 3; look += 1) {
      await worker.tick();
      clock.advance(2_100);
    }
    expect(ran).toEqual(["a"]);
    expect(await send.status({ id: "b" })).toMatchObject({ status: "queued" });
    held.open();
    await first;
    await until(async () => {
      clock.advance(2_100);
      await worker.drain();
      return ran.length === 2;
    }, "c has run");
    expect(await send.status({ id: "b" })).toMatchObject({ status: "failed" });
  });

  it("a call of what is queued in an order waits for its turn, and answers queued when it has no time left", async () => {
    const { enqueue, send, ran, another, options } = bench();
    const held = gate();
    const other = another();
    other.action("job", { ...options, run: (_: Job) => held.opened });
    await enqueue("a");
    await enqueue("b");
    const busy = other.worker({ concurrency: 1 }).tick();
    await until(async () => (await send.status({ id: "a" })).status === "in_flight", "a has begun");
    expect(await send.attempt({ id: "b" }, { wait: "30ms" })).toMatchObject({ status: "queued" });
    expect(ran).toEqual([]);
    const called = send({ id: "b" }, { wait: "30s" });
    held.open();
    await called;
    await busy;
    expect(ran).toEqual(["b"]);
  });

  it("a call of a dead letter runs it at the end of its order", async () => {
    const { nt, enqueue, send, ran, failing } = bench();
    failing.add("a");
    await enqueue("a");
    const worker = nt.worker();
    await worker.drain();
    failing.clear();
    await enqueue("b");
    expect(await send.attempt({ id: "a" }, { wait: 0 })).toMatchObject({ status: "queued" });
    await worker.drain();
    expect(ran).toEqual(["a", "b", "a"]);
    failing.add("c");
    await enqueue("c");
    await worker.drain();
    failing.clear();
    // Nothing stands before it.
    expect(await send.attempt({ id: "c" }, { wait: 0 })).toMatchObject({ status: "done" });
  });

  it("a queue hands out the tasks of an order one after the other, stale ones included", async () => {
    const { nt, clock } = open();
    const queue = nt.queue<Job, string>("tasks", { retry: { attempts: 1 } });
    await queue.add({ id: "a" }, { orderKey: "o" });
    await queue.add({ id: "b" }, { orderKey: "o", expires: "1s" });
    await queue.add({ id: "c" }, { orderKey: "o" });
    const a = await queue.take();
    expect(a?.input).toEqual({ id: "a" });
    clock.advance(2_000);
    for (let look = 0; look < 3; look += 1) {
      expect(await queue.take()).toBeNull();
      clock.advance(5_100);
    }
    expect(await queue.status({ id: "b" })).toMatchObject({ status: "queued" });
    await a?.fail(new Error("no"));
    await queue.add({ id: "a" }, { orderKey: "o" });
    clock.advance(5_100);
    const c = await queue.take({ wait: "5s" });
    expect(c?.input).toEqual({ id: "c" });
    expect(await queue.status({ id: "b" })).toMatchObject({ status: "failed" });
    clock.advance(5_100);
    expect(await queue.take()).toBeNull();
    await c?.done("ok");
    clock.advance(5_100);
    expect((await queue.take({ wait: "5s" }))?.input).toEqual({ id: "a" });
  });

  it("a late success behind others does not let the next one pass them", async () => {
    const { nt, enqueue, ran, send, another, options, record, store, failing, clock } = bench();
    failing.add("b");
    const b = await enqueue("b");
    const worker = nt.worker();
    await worker.drain();
    failing.clear();
    const held = gate();
    const other = another();
    other.action("job", { ...options, run: (_: Job) => held.opened });
    await enqueue("a");
    await enqueue("b");
    await enqueue("c");
    const busy = other.worker({ concurrency: 1 }).tick();
    await until(async () => (await send.status({ id: "a" })).status === "in_flight", "a has begun");
    await until(async () => (await record(b.key)).state === "pending", "b was put off");
    // The first attempt of b turns out to have happened.
    const [stored] = await store.read([b.key]);
    const late = { at: 1, event: "late-success", from: "pending", to: "confirmed", attempt: 1 } as const;
    const confirmed = {
      ...(await record(b.key)),
      state: "confirmed",
      settledAt: 1,
      dueAt: null,
      history: [late],
    } as const;
    await store.write([{ record: confirmed, expected: stored?.version ?? null }]);
    clock.advance(2_100);
    await worker.tick();
    expect(ran).toEqual(["b"]);
    held.open();
    await busy;
    clock.advance(5_100);
    await worker.drain();
    expect(ran).toEqual(["b", "c"]);
  });

  it("the note of an order outlives what waits in it", async () => {
    const { nt, enqueue, send, ran, clock, store, record } = bench();
    const { key } = await send.enqueue({ id: "a" }, { orderKey: "o", delay: "100d" });
    const line = (await record(key)).terms?.line as string;
    clock.advance(99 * 86_400_000);
    await store.sweep({ limit: 100, thorough: true });
    await enqueue("b");
    const worker = nt.worker();
    await worker.tick();
    expect(ran).toEqual([]);
    // Whoever puts a waiting record off refreshes the note when half of its time is over.
    const [note] = await store.read([line]);
    const left = { ...(note?.record as Put["record"]), expiresAt: clock.instant().now + 1_000 };
    await store.write([{ record: left, expected: note?.version ?? null }]);
    clock.advance(500);
    await nt.worker().tick();
    clock.advance(86_500_000);
    await worker.drain();
    await worker.drain();
    expect(ran).toEqual(["a", "b"]);
  });

  it("a note that cannot be read is replaced", async () => {
    const { nt, enqueue, ran, store, record } = bench();
    const { key } = await enqueue("a");
    const line = (await record(key)).terms?.line as string;
    for (const json of ['"nt1_old"', "{", "null", '{"last":1}']) {
      const [note] = await store.read([line]);
      const broken = { ...(note?.record as Put["record"]), result: { json } };
      await store.write([{ record: broken, expected: note?.version ?? null }]);
      await nt.worker().drain();
      await enqueue(`after ${json}`);
    }
    await nt.worker().drain();
    expect(ran).toHaveLength(5);
  });
});

describe("order, with the enqueuer interrupted at every write", () => {
  type Step = "insert" | "note" | "place";
  const stepOf = ({ record, expected }: Put): Step =>
    record.action === "nevertwice.line" ? "note" : expected === null ? "insert" : "place";

  it.each(["insert", "note", "place"] as const)(
    "the reply of the %s is lost: still in order, once each",
    async (step) => {
      const { nt, another, ran } = interrupted();
      let lost = 0;
      const lossy = another({
        wrap: (store) =>
          faulty(store, { loseReply: (put) => stepOf(put) === step && put.record.state !== "claimed" && ++lost <= 1 }),
      });
      const send = lossy.action("job", { key: ["id"] as const, run: async (_: Record<string, unknown>) => {} });
      await send.enqueue({ id: "1" }, { orderKey: "o" });
      await send.enqueue({ id: "2" }, { orderKey: "o" });
      await nt.worker().drain();
      expect(lost).toBeGreaterThan(0);
      expect(ran).toEqual(["1", "2"]);
    },
  );

  it.each([
    ["insert", "after"],
    ["note", "before"],
    ["note", "after"],
    ["place", "before"],
    ["place", "after"],
  ] as const)("the process dies at the %s (%s it is written): nobody passes, nothing is stuck", async (step, when) => {
    const { nt, another, ran, send, held } = interrupted();
    const dead = gate();
    // Only after the test: close() waits for a write that is under way.
    onTestFinished(() => dead.open());
    let reached = false;
    const die = (puts: readonly Put[]) => {
      if (!puts.some((put) => stepOf(put) === step)) return undefined;
      reached = true;
      return dead.opened;
    };
    const dying = another({
      wrap: (store) => faulty(store, when === "before" ? { beforeWrite: die } : { afterWrite: die }),
    });
    const sendAndDie = dying.action("job", { key: ["id"] as const, run: async (_: Record<string, unknown>) => {} });
    await send.enqueue({ id: "slow" }, { orderKey: "o" });
    sendAndDie.enqueue({ id: "dead" }, { orderKey: "o" }).catch(() => {});
    await until(() => reached, "the enqueuer is gone");
    await send.enqueue({ id: "next" }, { orderKey: "o" });
    const worker = nt.worker();
    const first = worker.tick();
    await until(() => ran.length > 0, "the first has begun");
    const others = nt.worker();
    for (let look = 0; look < 5; look += 1) await others.tick();
    expect(ran).toEqual(["slow"]);
    held.open();
    await first;
    await others.drain();
    await worker.drain();
    expect(ran[0]).toBe("slow");
    expect([...ran].sort()).toEqual(["dead", "next", "slow"]);
  });

  it("a note that two enqueuers swap at once: the second stands behind the first", async () => {
    const { nt, another, ran, send } = interrupted();
    const inBetween = gate();
    const arrived = gate();
    let once = true;
    const slow = another({
      wrap: (store) =>
        faulty(store, {
          beforeWrite: async (puts) => {
            if (!once || !puts.some((put) => stepOf(put) === "note")) return;
            once = false;
            arrived.open();
            await inBetween.opened;
          },
        }),
    });
    const sendSlowly = slow.action("job", { key: ["id"] as const, run: async (_: Record<string, unknown>) => {} });
    const enqueuing = sendSlowly.enqueue({ id: "b" }, { orderKey: "o" });
    await arrived.opened;
    await send.enqueue({ id: "a" }, { orderKey: "o" });
    inBetween.open();
    await enqueuing;
    await nt.worker().drain();
    expect(ran).toEqual(["a", "b"]);
  });

  function interrupted() {
    const clock = { instant: () => ({ now: Date.now(), steady: performance.now(), epoch: "test" }) };
    const store = memoryStore({ clock });
    const opened = openMemory({ wrap: () => store });
    const held = gate();
    const ran: string[] = [];
    const options = {
      key: ["id"] as const,
      run: async ({ id }: Job) => {
        ran.push(id);
        if (id === "slow") await held.opened;
      },
    };
    const send = opened.nt.action("job", options);
    const another: typeof opened.another = ({ wrap = (one: Store) => one, ...rest } = {}) =>
      opened.another({ ...rest, wrap: () => wrap(store) });
    return { ...opened, another, ran, send, held };
  }
});

describe("a sequence whose step was put aside", () => {
  it.each([
    ["stop", 0],
    ["continue", 86_400_000],
  ] as const)("can be started again (onFailed: %s), as long as no later step was taken", async (onFailed, after) => {
    const { nt, clock } = openMemory();
    const ran: string[] = [];
    let failing = true;
    const drip = nt.sequence<{ n: number }, void>("drip", ["one", "two", { step: "three", after }], {
      onFailed,
      retry: { attempts: 1, backoff: 1 },
      run: async ({ step }) => {
        if (step === "two" && failing) throw notSent(new Error("down"), { retryAfter: 1 });
        ran.push(step);
      },
    });
    await drip.start("ada", { n: 1 });
    const worker = nt.worker();
    const stateOfTwo = async () => (await drip.status("ada")).steps[1]?.outcome.status;
    await until(async () => {
      clock.advance(1_000);
      await worker.tick();
      return (await stateOfTwo()) === "failed";
    }, "the second step is a dead letter");
    failing = false;
    await drip.start("ada", { n: 2 });
    await until(async () => {
      // It is at the end of the order now: the third step lets it pass when it is due.
      clock.advance(after / 4 + 1_000);
      await worker.tick();
      return (await stateOfTwo()) === "done";
    }, "the second step ran");
    await until(async () => {
      clock.advance(after + 1_000);
      await worker.tick();
      return onFailed === "stop" || ran.length === 3;
    }, "the third step ran");
    expect(ran.slice(0, 2)).toEqual(["one", "two"]);
  });

  it("goes on without it (onFailed: continue), and does not go back to it when it is started again", async () => {
    const { nt, clock } = openMemory();
    const ran: string[] = [];
    let failing = true;
    const drip = nt.sequence<{ n: number }, void>("drip", ["one", "two", "three"], {
      onFailed: "continue",
      retry: { attempts: 1 },
      run: async ({ step }) => {
        if (step === "two" && failing) throw notSent(new Error("down"));
        ran.push(step);
      },
    });
    await drip.start("ada", { n: 1 });
    const worker = nt.worker();
    await until(async () => {
      clock.advance(1_000);
      await worker.tick();
      return ran.includes("three");
    }, "the third step ran");
    failing = false;
    await drip.start("ada", { n: 2 });
    for (let look = 0; look < 10; look += 1) {
      clock.advance(60_000);
      await worker.tick();
    }
    expect(ran).toEqual(["one", "three"]);
  });
});
