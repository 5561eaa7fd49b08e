/** A ledger that does not answer is never taken for one in which nothing is due. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Nevertwice, NevertwiceError, nevertwice, type Store } from "nevertwice";
import { expect, it, onTestFinished } from "vitest";
import { IN_MEMORY, ownRedis } from "../../test/services/on-demand.ts";
import { eachStore, temporaryFolder } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { sampleRecord } from "../testing/index.ts";
import { Outage, Unanswered } from "./unanswered.ts";

const UNAVAILABLE = { code: "STORE_UNAVAILABLE" };

/** A store whose `method` fails while `failing` says so. */
function failingOn(method: keyof Store, failing: () => boolean): (store: Store) => Store {
  return (store) =>
    new Proxy(store, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (name === method && failing()) return () => Promise.reject(new Error("the store is down"));
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
}

eachStore("a ledger that does not answer", (open) => {
  it("drain() rejects with the store's error, after what is under way has ended", async () => {
    let down = false;
    const { nt, store } = open({ wrap: failingOn("lease", () => down) });
    const [begun, go] = [gate(), gate()];
    let ended = 0;
    const send = nt.action("send", {
      key: ["id"],
      run: async (_: { id: number }) => {
        begun.open();
        await go.opened;
        return ++ended;
      },
    });
    await send.enqueueMany(Array.from({ length: 6 }, (_, id) => ({ id })));
    const worker = nt.worker({ concurrency: 2 });
    const errors: unknown[] = [];
    const idle: unknown[] = [];
    worker.on((event) => void (event.type === "error" && errors.push(event.error)));
    worker.on((event) => void (event.type === "idle" && idle.push(event)));
    const drained = worker.drain();
    drained.catch(() => {});
    await begun.opened;
    down = true;
    go.open();
    await expect(drained).rejects.toMatchObject({ ...UNAVAILABLE, message: expect.stringMatching(/store is down/) });
    expect(ended).toBe(2);
    expect(worker.status).toMatchObject({ done: 2, inFlight: 0 });
    expect(errors.length).toBeGreaterThan(1);
    expect(idle).toEqual([]);
    down = false;
    // It is not broken by it: the next drain() goes on where this one had to end.
    expect(await worker.drain()).toMatchObject({ done: 6 });
    expect((await store.stats()).states).toMatchObject({ pending: 0, confirmed: 6 });
  });

  it("drain() waits out an outage of a few looks", async () => {
    let failures = 3;
    const { nt } = open({ wrap: failingOn("lease", () => failures-- > 0) });
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => 1 });
    await send.enqueueMany([{ id: 1 }, { id: 2 }]);
    expect(await nt.worker().drain()).toMatchObject({ done: 2 });
  });

  it("drain() rejects where one of two looks fails, and has run what the other found", async () => {
    const { nt } = open({
      wrap: (store) =>
        new Proxy(store, {
          get(target, name) {
            const value = Reflect.get(target, name);
            if (name !== "lease") return typeof value === "function" ? value.bind(target) : value;
            return async (query: Parameters<Store["lease"]>[0]) => {
              if (query.actions?.includes("broken")) throw new Error("the store is down");
              return target.lease(query);
            };
          },
        }),
    });
    const works = nt.action("works", { key: ["id"], run: async (_: { id: number }) => 1 });
    nt.action("broken", { key: ["id"], lease: "2m", run: async (_: { id: number }) => 1 });
    await works.enqueueMany([{ id: 1 }, { id: 2 }]);
    const worker = nt.worker();
    await expect(worker.drain()).rejects.toMatchObject(UNAVAILABLE);
    expect(worker.status).toMatchObject({ done: 2 });
  });

  it("drain() and tick() reject where intents were leased and could not be begun", async () => {
    let down = false;
    const { nt } = open({ wrap: failingOn("write", () => down) });
    let runs = 0;
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => ++runs });
    await send.enqueueMany([{ id: 1 }, { id: 2 }, { id: 3 }]);
    const worker = nt.worker({ concurrency: 2 });
    down = true;
    await expect(worker.tick()).rejects.toMatchObject(UNAVAILABLE);
    await expect(nt.worker().drain()).rejects.toMatchObject(UNAVAILABLE);
    expect(runs).toBe(0);
    down = false;
  });

  it("stop() ends the wait of a drain() for the ledger", async () => {
    const { nt } = open({ wrap: failingOn("lease", () => true) });
    nt.action("send", { key: ["id"], run: async (_: { id: number }) => 1 });
    const worker = nt.worker();
    const failed = gate();
    worker.on((event) => void (event.type === "error" && failed.open()));
    const drained = worker.drain();
    await failed.opened;
    await worker.stop();
    expect(await drained).toMatchObject({ done: 0, inFlight: 0 });
  });

  it("tick() and take() reject at once", async () => {
    const { nt } = open({ wrap: failingOn("lease", () => true) });
    nt.action("send", { key: ["id"], run: async (_: { id: number }) => 1 });
    const queue = nt.queue<{ id: number }, number>("tasks", { key: ["id"] });
    await expect(nt.worker().tick()).rejects.toMatchObject(UNAVAILABLE);
    await expect(queue.take()).rejects.toMatchObject(UNAVAILABLE);
    await expect(queue.take({ wait: "1h" })).rejects.toMatchObject(UNAVAILABLE);
  });

  it("sweep() and retryAll() reject where a list fails", async () => {
    const { nt } = open({ wrap: failingOn("list", () => true) });
    await expect(nt.sweep()).rejects.toMatchObject(UNAVAILABLE);
    await expect(nt.retryAll({}, { by: "ada", reason: "again" })).rejects.toMatchObject(UNAVAILABLE);
  });

  it("each() and a job's tick() reject where a write fails", async () => {
    const { nt } = open({ wrap: failingOn("write", () => true) });
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => 1 });
    await expect(send.each([{ id: 1 }])).rejects.toMatchObject(UNAVAILABLE);
    const job = nt.job("nightly", { every: "1s", catchUp: "last", run: async () => 1 });
    await expect(job.tick()).rejects.toMatchObject(UNAVAILABLE);
  });
});

interface LostLedger {
  readonly nt: Nevertwice;
  lose(): Promise<unknown>;
}

const filed = (kind: "file" | "sqlite") => async (): Promise<LostLedger> => {
  const folder = temporaryFolder();
  const nt = nevertwice({ store: `${kind}:${join(folder, "ledger")}`, sweep: false, onWarning: () => {} });
  const lose = async () => {
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
  };
  return { nt, lose };
};

const LEDGERS: [string, () => Promise<LostLedger>][] = [
  ["a file ledger whose files are deleted", filed("file")],
  ["a SQLite ledger whose files are deleted", filed("sqlite")],
  [
    "a Redis after FLUSHALL",
    async () => {
      const server = await ownRedis(IN_MEMORY);
      const nt = nevertwice({ store: server.url, sweep: false, onWarning: () => {} });
      return { nt, lose: () => server.call("FLUSHALL") };
    },
  ],
];

it.each(LEDGERS)("%s while intents run: drain() rejects, and so does the next one", async (_, open) => {
  const { nt, lose } = await open();
  onTestFinished(() => nt.close().catch(() => {}));
  const go = gate();
  let running = 0;
  const send = nt.action("send", {
    key: ["id"],
    doubt: "retry",
    // close() tries to write the ends of attempts for as long.
    lease: "3s",
    timeout: "1s",
    run: async (_: { id: number }) => {
      running += 1;
      await go.opened;
    },
  });
  await send.enqueueMany(Array.from({ length: 6 }, (_, id) => ({ id })));
  const drained = nt.worker({ concurrency: 2 }).drain();
  drained.catch(() => {});
  await until(() => running === 2, "two intents under way");
  await lose();
  // A store may notice it a moment later.
  let n = 0;
  const insert = () => ({ record: sampleRecord({ key: `nt1_${++n}` }), expected: null });
  const writes = async () => {
    await nt.store.write([insert()]);
    return false;
  };
  await until(() => writes().catch(() => true), "the loss being noticed");
  go.open();
  await expect(drained).rejects.toMatchObject(UNAVAILABLE);
  await expect(nt.worker().drain()).rejects.toMatchObject(UNAVAILABLE);
  expect(running).toBe(2);
});

it("the pauses between failed looks grow, and the fifth failure in a row is the last", () => {
  const down = new NevertwiceError("STORE_UNAVAILABLE", "down");
  const outage = new Outage();
  expect([1, 2, 3].map(() => outage.pauseMs(down))).toEqual([250, 500, 1_000]);
  outage.over();
  expect([1, 2, 3, 4].map(() => outage.pauseMs(down))).toEqual([250, 500, 1_000, 2_000]);
  expect(() => outage.pauseMs(down)).toThrow(down);
  const wrong = new NevertwiceError("CONFIG", "no such table");
  expect(() => new Outage().pauseMs(wrong)).toThrow(wrong);
});

it("an intent that was begun after all is no longer held against the worker", () => {
  const unanswered = new Unanswered();
  const down = new NevertwiceError("STORE_UNAVAILABLE", "down");
  unanswered.intentCrashed("a", down);
  unanswered.intentCrashed("b", new Error("a bug"));
  expect(() => unanswered.refuseIntents(["b"])).not.toThrow();
  expect(() => unanswered.refuseIntents()).toThrow(down);
  unanswered.intentBegun("a");
  expect(() => unanswered.refuseIntents()).not.toThrow();
});
