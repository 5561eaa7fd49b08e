import { setTimeout as pause } from "node:timers/promises";
import { notSent } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  id: number;
  domain: string;
}

function thrown(error: unknown): never {
  throw error;
}

eachStore("limits, lines and priorities", (open) => {
  it("concurrency per destination holds across workers of several processes, and others are not held up", async () => {
    const { nt, another } = open();
    const now = new Map<string, number>();
    const most = new Map<string, number>();
    const sent: number[] = [];
    const options = {
      key: ["id"] as const,
      limit: { by: (i: Mail) => i.domain, concurrency: 2 },
      run: async ({ id, domain }: Mail) => {
        now.set(domain, (now.get(domain) ?? 0) + 1);
        most.set(domain, Math.max(most.get(domain) ?? 0, now.get(domain) ?? 0));
        await pause(3);
        now.set(domain, (now.get(domain) ?? 0) - 1);
        sent.push(id);
      },
    };
    const other = another();
    const send = nt.action("mail", options);
    other.action("mail", options);
    const domains = ["busy.example", "busy.example", "busy.example", "a.example", "b.example"];
    await send.enqueueMany(Array.from({ length: 100 }, (_, id) => ({ id, domain: domains[id % 5] as string })));
    await Promise.all([nt, other].map((one) => one.worker({ concurrency: 10, poll: "10ms" }).start()));
    await until(() => sent.length === 100, "all sent");
    expect(new Set(sent).size).toBe(100);
    // The quiet destinations may never have two at once; the busy one has 60 for two workers of ten.
    expect(most.get("busy.example")).toBe(2);
    expect(Math.max(...most.values())).toBe(2);
  });

  it("rate: so many begins per time, and work that has to wait is not counted as tried", async () => {
    const { nt, clock, record } = open();
    const sent: number[] = [];
    const send = nt.action("mail", {
      key: ["id"],
      limit: { rate: "2/m" },
      run: async ({ id }: Mail) => void sent.push(id),
    });
    const keys = (await send.enqueueMany([1, 2, 3].map((id) => ({ id, domain: "d" })))).map(({ key }) => key);
    const worker = nt.worker();
    await worker.tick();
    expect(sent).toHaveLength(1);
    expect(worker.status).toMatchObject({ done: 1, givenBack: 2 });
    for (const key of keys) expect((await record(key)).attempt).toBeLessThanOrEqual(1);
    clock.advance(29_000);
    await worker.tick();
    expect(sent).toHaveLength(1);
    for (let minute = 0; minute < 4; minute += 1) {
      clock.advance(31_000);
      await worker.tick();
    }
    expect(sent.sort()).toEqual([1, 2, 3]);
    const waited = await Promise.all(keys.map(record));
    expect(waited.map(({ attempt, tries }) => [attempt, tries])).toEqual(Array(3).fill([1, 1]));
  });

  it("rate: slower than one an hour is remembered for as long as it matters", async () => {
    const { nt, clock, store } = open();
    const sent: number[] = [];
    const send = nt.action("mail", {
      key: ["id"],
      limit: { rate: "1/d" },
      run: async ({ id }: Mail) => void sent.push(id),
    });
    await send.enqueueMany([1, 2, 3].map((id) => ({ id, domain: "d" })));
    const worker = nt.worker();
    await worker.drain();
    expect(sent).toHaveLength(1);
    for (let hour = 1; hour < 24; hour += 1) {
      clock.advance(3_600_000);
      await store.sweep({ limit: 100, thorough: true });
      await worker.tick();
      expect(sent, `after ${hour} h`).toHaveLength(1);
    }
    // Work that was put off comes back within half a minute of its time.
    for (let looks = 0; looks < 4; looks += 1) {
      clock.advance(looks === 0 ? 3_601_000 : 31_000);
      await worker.tick();
    }
    expect(sent).toHaveLength(2);
  });

  it("a slot that is held for longer than an hour stays taken", async () => {
    const { nt, clock, store, another } = open();
    const held = gate();
    const sent: number[] = [];
    const options = {
      key: ["id"] as const,
      timeout: "6h" as const,
      lease: "6h" as const,
      limit: { concurrency: 1 },
      run: async ({ id }: Mail) => {
        sent.push(id);
        await held.opened;
      },
    };
    const send = nt.action("mail", options);
    const other = another();
    other.action("mail", options);
    await send.enqueue({ id: 1, domain: "d" });
    const first = nt.worker().tick();
    await until(() => sent.length === 1, "the first has begun");
    await send.enqueue({ id: 2, domain: "d" });
    for (let hour = 0; hour < 3; hour += 1) {
      clock.advance(3_700_000);
      await store.sweep({ limit: 100, thorough: true });
      await other.worker().tick();
    }
    expect(sent).toEqual([1]);
    held.open();
    await first;
  });

  it("drain waits for what it put off itself: a full destination, a rate, an order", async () => {
    const { nt } = open();
    const sent: string[] = [];
    const run = (name: string) => async (input: { id: number }) => {
      await pause(5);
      sent.push(`${name} ${input.id}`);
    };
    const key = ["id"] as const;
    const inputs = [1, 2, 3, 4, 5].map((id) => ({ id }));
    const slots = nt.action("slots", { key, limit: { concurrency: 1 }, run: run("slots") });
    const paced = nt.action("paced", { key, limit: { rate: "2/s" }, run: run("paced") });
    const ordered = nt.action("ordered", { key, run: run("ordered") });
    await slots.enqueueMany(inputs);
    await paced.enqueueMany(inputs.slice(0, 3));
    await ordered.enqueueMany(inputs, { orderKey: "o" });
    const { done } = await nt.worker({ concurrency: 4 }).drain();
    expect(done).toBe(13);
    expect(sent).toHaveLength(13);
  });

  it("drain does not wait for what is due later, nor for what stands behind it, nor for a slow rate", async () => {
    const { nt } = open();
    let tries = 0;
    const key = ["id"] as const;
    const later = nt.action("later", {
      key,
      retry: { backoff: "1h" },
      run: async ({ id }: { id: number }) => {
        tries += 1;
        if (id === 1) throw notSent(new Error("not now"));
      },
    });
    const slow = nt.action("slow", { key, limit: { rate: "1/h" }, run: async (_: Record<string, unknown>) => {} });
    await later.enqueue({ id: 1 }, { orderKey: "retry" });
    await later.enqueue({ id: 2 }, { orderKey: "retry" });
    await later.enqueue({ id: 3 }, { orderKey: "delay", delay: "1h" });
    await later.enqueue({ id: 4 }, { orderKey: "delay" });
    await slow.enqueueMany([{ id: 1 }, { id: 2 }]);
    const { done, retried } = await nt.worker().drain();
    expect({ done, retried, tries }).toEqual({ done: 1, retried: 1, tries: 1 });
  });

  it("drain ends when the worker is stopped meanwhile", async () => {
    const { nt, another } = open();
    const held = gate();
    let begun = 0;
    const run = (_: { id: number }) => {
      begun += 1;
      return held.opened;
    };
    const options = { key: ["id"] as const, limit: { concurrency: 1 }, run };
    const send = nt.action("mail", options);
    const other = another();
    other.action("mail", options);
    await send.enqueueMany([1, 2].map((id) => ({ id })));
    const busy = other.worker({ concurrency: 1 }).tick();
    await until(() => begun === 1, "the first has begun");
    const worker = nt.worker();
    await until(async () => {
      await worker.tick();
      return worker.status.givenBack > 0;
    }, "the second was put off");
    const drained = worker.drain();
    await worker.stop();
    await drained;
    held.open();
    await busy;
  });

  it.each<[string, (input: Mail) => unknown]>([
    ["is blank", () => " "],
    ["is missing", () => undefined],
    ["is a number", () => 7],
    ["is a promise", async () => "x"],
    ["is a promise that fails", () => Promise.reject(new Error("later"))],
    ["holds a lone surrogate", () => "\ud800.example"],
    ["cannot be read", () => new Proxy({}, { get: () => thrown(new Error("trap")) })],
    ["is not there: by throws", () => thrown(new Error("no domain"))],
    ["is not there: by throws nothing", () => thrown(undefined)],
    ["is not there: by throws a symbol", () => thrown(Symbol("odd"))],
  ])("a destination that %s parks its intent alone, and is not tried again", async (_, nonsense) => {
    const { nt, record } = open();
    const sent: number[] = [];
    const by = (i: Mail) => (i.id === 1 ? nonsense(i) : i.domain) as string;
    const send = nt.action("mail", {
      key: ["id"],
      limit: { by, concurrency: 1 },
      run: async ({ id }: Mail) => void sent.push(id),
    });
    const { key } = await send.enqueue({ id: 1, domain: "" });
    await send.enqueue({ id: 2, domain: "x" });
    const worker = nt.worker();
    const errors: unknown[] = [];
    worker.on((event) => event.type === "error" && errors.push(event.error));
    await worker.drain();
    expect(sent).toEqual([2]);
    expect(errors).toEqual([]);
    const parked = await record(key);
    expect(parked).toMatchObject({ state: "failed", final: false, attempt: 1 });
    expect(parked.error?.message).toContain("limit.by");
  });

  it.each(["undefined", "null", "NaN", "(all)", "[object Object]", "a\0b"])(
    "a destination called %s is one like any other",
    async (domain) => {
      const { nt } = open();
      const sent: number[] = [];
      const send = nt.action("mail", {
        key: ["id"],
        limit: { by: (i: Mail) => i.domain, concurrency: 1 },
        run: async ({ id }: Mail) => void sent.push(id),
      });
      const { key } = await send.enqueue({ id: 1, domain });
      await nt.worker().drain();
      expect([sent.length, (await send.status({ key })).status]).toSatisfy(
        ([ran, status]) => (ran === 1 && status === "done") || (ran === 0 && status === "failed"),
      );
    },
  );

  it("orderKey: strictly one after the other across workers, with retries in between, and other keys go on", async () => {
    const { nt, another } = open();
    const ran = new Map<string, number[]>();
    let underWay = 0;
    let together = 0;
    const failedOnce = new Set<number>();
    const options = {
      key: ["id"] as const,
      retry: { attempts: 5, backoff: "1ms" },
      run: async ({ id, domain }: Mail) => {
        if (domain === "line") {
          underWay += 1;
          together = Math.max(together, underWay);
          await pause(id % 3);
          underWay -= 1;
          if (id % 7 === 0 && !failedOnce.has(id)) {
            failedOnce.add(id);
            throw notSent(new Error("503"));
          }
        }
        ran.set(domain, [...(ran.get(domain) ?? []), id]);
      },
    };
    const send = nt.action("mail", options);
    const other = another();
    other.action("mail", options);
    for (let id = 0; id < 25; id += 1) {
      await send.enqueue({ id, domain: "line" }, { orderKey: "acct-1" });
      await send.enqueue({ id: 100 + id, domain: "free" });
    }
    await Promise.all([nt, other].map((one) => one.worker({ concurrency: 4, poll: "10ms" }).start()));
    await until(() => ran.get("line")?.length === 25 && ran.get("free")?.length === 25, "all ran");
    expect(ran.get("line")).toEqual(Array.from({ length: 25 }, (_, id) => id));
    expect(together).toBe(1);
  });

  it("a line waits behind a doubt until somebody settles it, and passes a dead letter by", async () => {
    const { nt, clock } = open();
    const ran: number[] = [];
    const send = nt.action("mail", {
      key: ["id"],
      retry: { attempts: 1 },
      run: async ({ id }: Mail) => {
        if (id === 1) throw new Error("socket hang up");
        if (id === 2) throw notSent(new Error("503"));
        ran.push(id);
      },
    });
    const [first] = await send.enqueueMany(
      [1, 2, 3].map((id) => ({ id, domain: "d" })),
      { orderKey: "acct" },
    );
    await send.enqueue({ id: 4, domain: "d" }, { orderKey: "another" });
    const worker = nt.worker();
    for (let i = 0; i < 4; i += 1) {
      await worker.drain();
      clock.advance(10_000);
    }
    expect(ran).toEqual([4]);
    await nt.resolve({ key: first?.key as string }, { as: "done", by: "ana", reason: "it arrived" });
    for (let i = 0; i < 4; i += 1) {
      await worker.drain();
      clock.advance(10_000);
    }
    expect(ran).toEqual([4, 3]);
    expect(await send.status({ id: 2, domain: "d" })).toMatchObject({ status: "failed" });
  });

  it("priority goes ahead of a backlog, and older work still has its turn", async () => {
    const { nt, clock } = open();
    const ran: string[] = [];
    const send = nt.action("mail", { key: ["name"], run: async ({ name }: { name: string }) => void ran.push(name) });
    await send.enqueue({ name: "old" });
    clock.advance(20 * 60_000);
    await send.enqueue({ name: "plain" });
    clock.advance(1_000);
    await send.enqueue({ name: "urgent" }, { priority: 9 });
    await nt.worker({ concurrency: 1 }).drain();
    expect(ran).toEqual(["old", "urgent", "plain"]);
  });
});
