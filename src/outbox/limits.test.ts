import { setTimeout as pause } from "node:timers/promises";
import { notSent } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";

interface Mail {
  id: number;
  domain: string;
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
    await worker.drain();
    expect(sent).toHaveLength(1);
    expect(worker.status).toMatchObject({ done: 1, givenBack: 2 });
    for (const key of keys) expect((await record(key)).attempt).toBeLessThanOrEqual(1);
    clock.advance(29_000);
    await worker.drain();
    expect(sent).toHaveLength(1);
    for (let minute = 0; minute < 4; minute += 1) {
      clock.advance(31_000);
      await worker.drain();
    }
    expect(sent.sort()).toEqual([1, 2, 3]);
    const waited = await Promise.all(keys.map(record));
    expect(waited.map(({ attempt, tries }) => [attempt, tries])).toEqual(Array(3).fill([1, 1]));
  });

  it("a destination that cannot be named parks its intent alone", async () => {
    const { nt } = open();
    const sent: number[] = [];
    const send = nt.action("mail", {
      key: ["id"],
      limit: { by: (i: Mail) => i.domain, concurrency: 1 },
      run: async ({ id }: Mail) => void sent.push(id),
    });
    await send.enqueue({ id: 1, domain: "" });
    await send.enqueue({ id: 2, domain: "x" });
    await nt.worker().drain();
    expect(sent).toEqual([2]);
    expect(await send.status({ id: 1, domain: "" })).toMatchObject({ status: "failed" });
  });

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
