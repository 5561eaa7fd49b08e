/** What a worker leased and did not begin comes back as not sent: handed back, retaken, or given back by its holder. */
import type { LeaseQuery, Put, Store } from "nevertwice";
import { NevertwiceError } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  to: string;
}
const mails = (count: number) => Array.from({ length: count }, (_, i) => ({ to: `n${i}` }));

/** A store whose leases and writes can be watched, and whose replies can get lost. */
function on(hooks: {
  lease?: (query: LeaseQuery) => void;
  leased?: (query: LeaseQuery) => void;
  writing?: () => void;
  wrote?: (puts: readonly Put[]) => void;
}) {
  return (store: Store): Store =>
    new Proxy(store, {
      get(target, name) {
        if (name === "lease")
          return async (query: LeaseQuery) => {
            hooks.lease?.(query);
            const rows = await target.lease(query);
            hooks.leased?.(query);
            return rows;
          };
        if (name === "write")
          return async (puts: readonly Put[]) => {
            hooks.writing?.();
            const results = await target.write(puts);
            hooks.wrote?.(puts);
            return results;
          };
        const value = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
}

const lost = () => {
  throw new NevertwiceError("STORE_UNAVAILABLE", "the reply was lost");
};

eachStore("unbegun work", (open) => {
  it("is leased as claimed, and marked as sent right before it begins", async () => {
    const asked: string[] = [];
    const { nt, record } = open({ wrap: on({ lease: ({ to }) => void asked.push(to) }) });
    const seen: string[] = [];
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail, { key }) => {
        seen.push((await record(key)).state);
      },
    });
    await send.enqueueMany(mails(5));
    await nt.worker().drain();
    expect(new Set(asked)).toEqual(new Set(["claimed"]));
    expect(seen).toEqual(Array(5).fill("sent"));
  });

  it("a process that stood still between the mark and the effect gives it back: due at once, and not counted as a try", async () => {
    let stalls = 1;
    const wrote = (puts: readonly Put[]) => {
      if (stalls === 0 || !puts.some(({ record }) => record.state === "sent")) return;
      stalls -= 1;
      clock.advance(1_000);
    };
    const { nt, clock, record } = open({ wrap: on({ wrote }) });
    const sent: string[] = [];
    const send = nt.action("mail", {
      key: ["to"],
      lease: "500ms",
      timeout: "400ms",
      run: async ({ to }: Mail) => void sent.push(to),
    });
    await send.enqueue({ to: "ann" });
    await nt.worker().drain();
    expect(sent).toEqual(["ann"]);
    expect(await record(await send.keyOf({ to: "ann" }))).toMatchObject({ state: "confirmed", tries: 1, history: [] });
  });

  it("ten ordered records leased and one begun: were the worker gone, nine are not sent", async () => {
    const { nt, store } = open();
    const { opened, open: release } = gate();
    let begun = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        begun += 1;
        await opened;
      },
    });
    await send.enqueueMany(mails(10), { orderKey: "acct" });
    const drained = nt.worker().drain();
    await until(() => begun === 1);
    const { sent, unknown } = (await store.stats()).states;
    expect({ sent, unknown }).toEqual({ sent: 1, unknown: 0 });
    release();
    await drained;
  });

  it("a lease whose reply was lost comes back as not sent when it has run out, and runs once", async () => {
    let replies = 0;
    const hooks = { leased: () => void (replies++ === 0 && lost()) };
    const { nt, clock, store } = open({ wrap: on(hooks) });
    const sent: string[] = [];
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => void sent.push(to) });
    await send.enqueueMany(mails(50));
    const worker = nt.worker({ concurrency: 50 });
    await worker.drain();
    expect(sent).toEqual([]);
    clock.advance(60_001);
    await nt.sweep();
    expect((await store.stats()).states).toMatchObject({ unknown: 0, claimed: 50 });
    await worker.drain();
    expect(new Set(sent).size).toBe(50);
    expect(sent).toHaveLength(50);
  });

  it("a mark whose reply was lost is recognised, and the effect happens once", async () => {
    let left = 1;
    const wrote = (puts: readonly Put[]) => {
      if (puts.some(({ record }) => record.state === "sent") && left-- > 0) lost();
    };
    const { nt, store } = open({ wrap: on({ wrote }) });
    let runs = 0;
    const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => ++runs });
    await send.enqueue({ to: "ada" });
    await nt.worker().drain();
    expect(runs).toBe(1);
    expect((await store.stats()).states).toMatchObject({ confirmed: 1 });
  });

  it("a mark that never got its answer is given back once the store answers: not begun, not in doubt, not counted", async () => {
    let down = false;
    let marks = 0;
    const wrote = (puts: readonly Put[]) => {
      if (puts.some(({ record }) => record.state === "sent") && marks++ === 0) down = true;
      if (down) lost();
    };
    // From the mark on nothing gets through.
    const writing = () => void (down && lost());
    const { nt, clock, store, record } = open({ wrap: on({ writing, wrote }) });
    let runs = 0;
    const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => ++runs });
    const { key } = await send.enqueue({ to: "ada" });
    const errors: unknown[] = [];
    const worker = nt.worker();
    worker.on((event) => void (event.type === "error" && errors.push(event.error)));
    await expect(worker.drain()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(runs).toBe(0);
    expect(errors).toHaveLength(1);
    expect(await record(key)).toMatchObject({ state: "sent" });
    // Another process finds it silent and calls it unknown, before this one can say that nothing was begun.
    clock.advance(60_001);
    const [stored] = await store.read([key]);
    const other = openSweeper(store);
    await other(stored);
    expect(await record(key)).toMatchObject({ state: "unknown" });
    down = false;
    await until(async () => (await record(key)).state === "pending", "the give-back");
    expect(await record(key)).toMatchObject({ attempt: 0, tries: 0 });
    await worker.drain();
    expect(runs).toBe(1);
  });

  it("of a batch whose lease ran out before the marks, nothing is begun and all of it is handed back uncounted", async () => {
    const bench = open({ wrap: on({ leased: () => void bench.clock.advance(slept.shift() ?? 0) }) });
    const slept = [60_001];
    const sent: string[] = [];
    const send = bench.nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => void sent.push(to) });
    const enqueued = await send.enqueueMany(mails(5));
    const worker = bench.nt.worker();
    await worker.tick();
    expect(sent).toEqual([]);
    expect(worker.status).toMatchObject({ givenBack: 5, inDoubt: 0 });
    expect(await bench.record(enqueued[0]?.key as string)).toMatchObject({ state: "pending", attempt: 0, tries: 0 });
    await worker.drain();
    expect(sent).toHaveLength(5);
  });

  it("stop() between the lease and the begin: handed back, nothing begun", async () => {
    const begin = gate();
    const leased = gate();
    const marking = on({
      leased: () => leased.open(),
    });
    const bench = open({ wrap: marking });
    let runs = 0;
    const send = bench.nt.action("mail", {
      key: ["to"],
      input: {
        "~standard": {
          version: 1,
          vendor: "test",
          validate: async (value: unknown) => {
            if (runs === 0) await begin.opened;
            return { value: value as Mail };
          },
        },
      },
      run: async (_: Mail) => ++runs,
    });
    begin.open();
    await send.enqueueMany(mails(3));
    const worker = bench.nt.worker();
    const drained = worker.drain();
    await leased.opened;
    await worker.stop();
    await drained;
    const { confirmed, pending, unknown, claimed, sent } = (await bench.store.stats()).states;
    expect({ confirmed, unknown, claimed, sent }).toEqual({ confirmed: runs, unknown: 0, claimed: 0, sent: 0 });
    expect(pending).toBe(3 - runs);
  });
});

/** What another process's sweep does to a silent holder's record. */
function openSweeper(store: Store) {
  return async (stored: Awaited<ReturnType<Store["read"]>>[number] | undefined) => {
    const { transition } = await import("../core/transition.ts");
    const { instantOf } = await import("../core/store.ts");
    if (!stored) throw new Error("there is no record");
    const change = transition(stored.record, { type: "lapse" }, instantOf(store));
    if (!change.ok) throw new Error(change.refusal);
    await store.write([{ record: change.record, expected: stored.version }]);
  };
}

describe("bulk: hundreds of plain, unordered intents at once", () => {
  it("goes straight to sent only after a full lease without order keys, and never for work that waits for something", async () => {
    const asked: [string, number][] = [];
    const { nt } = openMemory({ wrap: on({ lease: ({ to, limit }) => void asked.push([to, limit]) }) });
    const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => 1 });
    await send.enqueueMany(mails(1_000));
    await nt.worker({ concurrency: 512 }).drain();
    expect(asked[0]?.[0]).toBe("claimed");
    expect(asked.some(([to]) => to === "sent")).toBe(true);
    asked.length = 0;
    await nt.worker({ concurrency: 64 }).drain();
    await send.enqueueMany(Array.from({ length: 300 }, (_, i) => ({ to: `few${i}` })));
    await nt.worker({ concurrency: 64 }).drain();
    expect(asked.every(([to]) => to === "claimed")).toBe(true);
  });

  it("a lease to sent whose reply was lost is found by its holder and given back, also where a sweep has called it unknown", async () => {
    let losing = false;
    let given = 0;
    const hooks = {
      leased: ({ to }: LeaseQuery) => {
        if (to === "sent" && losing) {
          given += 1;
          losing = false;
          lost();
        }
      },
    };
    const { nt, clock, store } = openMemory({ wrap: on(hooks) });
    const sent: string[] = [];
    const send = nt.action("mail", {
      key: ["to"],
      lease: "50ms",
      timeout: "40ms",
      run: async ({ to }: Mail) => void sent.push(to),
    });
    await send.enqueueMany(mails(800));
    losing = true;
    const worker = nt.worker({ concurrency: 512 });
    await worker.start();
    await until(() => given === 1, "a lost reply");
    clock.advance(1_000);
    await nt.sweep();
    await until(async () => (await store.stats()).states.confirmed === 800, "all of it");
    expect(new Set(sent).size).toBe(800);
    expect(sent).toHaveLength(800);
  });
});
