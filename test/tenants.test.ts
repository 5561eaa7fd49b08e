/** Tenants that share a ledger: whatever one does, in a call or in a loop, another's records stay as they are. On every store. */
import { join } from "node:path";
import { type NevertwiceOptions, nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { memoryStore } from "nevertwice/memory";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { sqliteStore } from "nevertwice/sqlite";
import { sampleRecord } from "nevertwice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

const LEDGERS: Readonly<Record<string, () => Promise<() => Store>>> = {
  memory: async () => {
    const store = memoryStore();
    return () => store;
  },
  sqlite: async () => {
    const path = join(temporaryFolder(), "ledger.db");
    return () => sqliteStore({ path });
  },
  file: async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    return () => fileStore({ path });
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    return () => postgresStore({ url, listen: false });
  },
  redis: async () => {
    const url = await flushableRedisDb();
    const prefix = freshPrefix().slice(0, -1);
    return () => redisStore({ url, prefix });
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
    return () => s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
};

const SIGNED = { by: "ops", reason: "asked for" };

interface Input {
  readonly id: number;
}

/** A program of one tenant: one action and one queue, named as everybody names them. */
function program(store: Store, options: Omit<NevertwiceOptions, "store">) {
  const nt = nevertwice({ store, sweep: false, onWarning: () => {}, ...options });
  onTestFinished(() => nt.close());
  const runs: string[] = [];
  let broken: unknown = null;
  const send = nt.action("send", {
    key: ["id"],
    doubt: "retry",
    run: async ({ id }: Input, { tenant }) => {
      if (broken !== null) throw broken;
      runs.push(`${tenant} ${id}`);
      return `${options.tenant}'s ${id}`;
    },
  });
  return {
    nt,
    send,
    tasks: nt.queue<Input>("tasks", { key: ["id"] }),
    runs,
    breakWith: (error: unknown) => {
      broken = error;
    },
  };
}

async function ledgerOf(kind: string) {
  const open = await (LEDGERS[kind] as () => Promise<() => Store>)();
  const spy = open();
  onTestFinished(() => spy.close());
  // The memory ledger lives in one store: whoever closes it takes it away from the others, who are closed then, too.
  const of = (tenant: string, options: Omit<NevertwiceOptions, "store" | "tenant"> = {}) =>
    program(open(), { tenant, ...options });
  const stateOf = async (key: string) => (await spy.read([key]))[0]?.record.state;
  /** What a process leaves that is killed while it holds the record. */
  const silent = async (tenant: string, state: "claimed" | "sent", changes = {}) => {
    await spy.read(["nt1_none"]);
    const { now, steady, epoch } = spy.instant?.() ?? { now: spy.now(), steady: spy.now(), epoch: "" };
    const key = `nt1_silent_${tenant}_${state}`;
    const record = sampleRecord({
      key,
      tenant,
      action: "send",
      state,
      holder: "gone",
      fence: 1,
      attempt: 1,
      tries: 1,
      createdAt: Math.floor(now) - 5_000,
      updatedAt: Math.floor(now) - 5_000,
      dueAt: null,
      lease: { until: steady - 1_000, epoch },
      ...changes,
    });
    const [result] = await spy.write([{ record, expected: null }]);
    expect(result?.ok).toBe(true);
    return key;
  };
  return { of, spy, open, stateOf, silent };
}

const tenantsOf = (runs: readonly string[]) => [...new Set(runs.map((run) => run.split(" ")[0]))];

describe.each(Object.keys(LEDGERS))("%s", (kind) => {
  it("another tenant's input and key are a miss, and stay as they are", async () => {
    const { of, stateOf } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    const theirs = await b.send.attempt({ id: 1 });
    const { key } = theirs;
    expect(await a.send.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await a.send.status({ key })).toEqual({ status: "absent", key });
    expect(await a.nt.status({ key })).toEqual({ status: "absent", key });
    const missing = { code: "INVALID_KEY" };
    await expect(a.nt.resolve({ key }, { as: "not-done", ...SIGNED })).rejects.toMatchObject(missing);
    await expect(a.send.resolve({ key }, { as: "not-done", ...SIGNED })).rejects.toMatchObject(missing);
    await expect(a.nt.retry({ key }, SIGNED)).rejects.toMatchObject(missing);
    // It runs A's own, under a key of its own, and B's stands as it was.
    const own = await a.send.attempt({ id: 1 });
    expect(own).toMatchObject({ status: "done", replayed: false, result: "a's 1" });
    expect(own.key).not.toBe(key);
    expect(await b.send.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: true, result: "b's 1" });
    expect([a.runs, b.runs]).toEqual([["a 1"], ["b 1"]]);
    expect(await stateOf(key)).toBe("confirmed");
  });

  it("a worker runs its own tenant's work, and leaves what others queued and what their dead workers hold", async () => {
    const { of, silent, stateOf } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    const input = { queued: true, input: { json: '{"id":9}' } };
    const held = await silent("b", "claimed", input);
    for (const id of [1, 2, 3]) {
      await a.send.enqueue({ id });
      await b.send.enqueue({ id });
    }
    await a.nt.worker().drain();
    expect([...a.runs].sort()).toEqual(["a 1", "a 2", "a 3"]);
    expect(await a.nt.worker().tick()).toBe(0);
    expect(await stateOf(held), "the dead worker's").toBe("claimed");
    expect(await b.send.status({ id: 1 })).toMatchObject({ status: "queued" });
    const worker = b.nt.worker();
    await worker.drain();
    expect([...b.runs].sort()).toEqual(["b 1", "b 2", "b 3", "b 9"]);
    expect(a.runs).toHaveLength(3);
  });

  it("take() gets its own tenant's tasks", async () => {
    const { of } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    await b.tasks.add({ id: 1 });
    expect(await a.tasks.take()).toBeNull();
    await a.tasks.add({ id: 2 });
    const mine = await a.tasks.take();
    expect(mine).toMatchObject({ tenant: "a", input: { id: 2 } });
    await mine?.done(null);
    expect(await a.tasks.take()).toBeNull();
    const theirs = await b.tasks.take();
    expect(theirs).toMatchObject({ tenant: "b", input: { id: 1 } });
    await theirs?.giveBack();
  });

  it("a sweep makes its own tenant's silent holders visible, settles its doubts and removes its records", async () => {
    const { of, silent, stateOf, spy } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    const [mine, theirs] = [await silent("a", "sent"), await silent("b", "sent")];
    // A doubt that the action's policy may settle by running it again.
    const before = of("b");
    before.breakWith(new Error("no answer"));
    const doubt = await before.send.attempt({ id: 5 }, { wait: 0 });
    expect(doubt).toMatchObject({ status: "unknown" });
    const now = Math.floor(spy.now());
    const over = { state: "confirmed", settledAt: now - 9_000, createdAt: now - 9_000, dueAt: null } as const;
    const past = (tenant: string) =>
      sampleRecord({ ...over, key: `nt1_over_${tenant}`, tenant, keepMs: 1_000, expiresAt: now - 8_000 });
    await spy.write([past("a"), past("b")].map((record) => ({ record, expected: null })));

    expect(await a.nt.sweep()).toEqual({ lapsed: 1, settled: 0, removed: 1, damaged: 0 });
    expect([await stateOf(mine), await stateOf(theirs), await stateOf(doubt.key)]).toEqual([
      "unknown",
      "sent",
      "unknown",
    ]);
    expect(a.runs).toEqual([]);
    expect(await b.nt.sweep()).toEqual({ lapsed: 1, settled: 1, removed: 1, damaged: 0 });
    expect(b.runs).toEqual(["b 5"]);
    expect(await stateOf(theirs)).toBe("unknown");
  });

  it("the sweep in the background keeps to its own tenant", async () => {
    const { of, silent, stateOf } = await ledgerOf(kind);
    const [mine, theirs] = [await silent("a", "sent"), await silent("b", "sent")];
    const a = of("a", { sweep: "20ms" });
    await a.send({ id: 1 });
    await expect.poll(() => stateOf(mine), { timeout: 20_000 }).toBe("unknown");
    await a.nt.sweep();
    expect(await stateOf(theirs)).toBe("sent");
  });

  it("retryAll brings back its own tenant's dead letters", async () => {
    const { of, stateOf } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    const keys: string[] = [];
    for (const one of [a, b]) {
      one.breakWith(Object.assign(new Error("no such address"), { status: 422 }));
      const failed = await one.send.attempt({ id: 1 }, { wait: 0 });
      expect(failed).toMatchObject({ status: "failed" });
      keys.push(failed.key);
    }
    const [mine, theirs] = keys as [string, string];
    expect(await a.nt.retryAll({ dryRun: true }, SIGNED)).toEqual({ retried: [mine], refused: [] });
    expect(await a.nt.retryAll({}, SIGNED)).toEqual({ retried: [mine], refused: [] });
    expect(await stateOf(theirs)).toBe("failed");
    expect(await b.nt.retryAll({ tenant: "b" }, SIGNED)).toEqual({ retried: [theirs], refused: [] });
  });

  it('tenants: "all" serves everybody, with each record\'s own tenant', async () => {
    const { of, silent, stateOf } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    const all = of("ops", { tenants: "all" });
    expect([a.nt.tenant, all.nt.tenant]).toEqual(["a", undefined]);
    const queued: string[] = [];
    for (const one of [a, b, all]) {
      queued.push((await one.send.enqueue({ id: 1 })).key);
      await one.tasks.add({ id: 1 });
    }
    expect(new Set(queued).size, "its own calls carry its own tenant").toBe(3);
    await all.nt.worker().drain();
    expect([...all.runs].sort()).toEqual(["a 1", "b 1", "ops 1"]);
    for (const [i, one] of [a, b, all].entries()) {
      expect(await one.send.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: true });
      expect(await all.nt.status({ key: queued[i] as string })).toMatchObject({ status: "done" });
    }
    const taken: string[] = [];
    for (let task = await all.tasks.take(); task !== null; task = await all.tasks.take()) {
      taken.push(task.tenant);
      await task.done(null);
    }
    expect(taken.sort()).toEqual(["a", "b", "ops"]);
    const lapsed = [await silent("a", "sent"), await silent("b", "sent")];
    expect(await all.nt.sweep()).toMatchObject({ lapsed: 2 });
    for (const key of lapsed) expect(await stateOf(key)).toBe("unknown");

    // A doubt of another tenant is settled under its own key.
    b.breakWith(new Error("no answer"));
    const doubt = await b.send.attempt({ id: 7 }, { wait: 0 });
    expect(doubt).toMatchObject({ status: "unknown" });
    await all.nt.sweep();
    expect(all.runs).toContain("b 7");
    expect(await stateOf(doubt.key)).toBe("confirmed");
  });

  it('one loop of a confined program serves everybody where it says tenants: "all"', async () => {
    const { of, silent } = await ledgerOf(kind);
    const [a, b] = [of("a"), of("b")];
    await b.send.enqueue({ id: 1 });
    await b.tasks.add({ id: 1 });
    await silent("b", "sent");
    b.breakWith(Object.assign(new Error("no such address"), { status: 422 }));
    const failed = await b.send.attempt({ id: 2 }, { wait: 0 });
    await a.nt.worker({ tenants: "all" }).drain();
    expect(a.runs).toEqual(["b 1"]);
    const task = await a.tasks.take({ tenants: "all" });
    expect(task?.tenant).toBe("b");
    await task?.done(null);
    expect(await a.nt.sweep({ tenants: "all" })).toMatchObject({ lapsed: 1 });
    expect(await a.nt.retryAll({ tenants: "all" }, SIGNED)).toEqual({ retried: [failed.key], refused: [] });
  });

  it("limits and order of one tenant are nothing to another's", async () => {
    const { of, spy } = await ledgerOf(kind);
    const begun: string[] = [];
    for (const tenant of ["a", "b"]) {
      const { nt } = of(tenant);
      const call = nt.action("call", {
        key: ["id"],
        limit: { rate: "1/d" },
        run: async ({ id }: Input, context) => void begun.push(`${context.tenant} ${id}`),
      });
      await call.enqueue({ id: 1 });
      await nt.worker({ actions: [call] }).tick();
      const step = nt.action("step", {
        key: ["id"],
        run: async ({ id }: Input, context) => void begun.push(`${context.tenant} ${id}`),
      });
      await step.enqueue({ id: 2 }, { orderKey: "one" });
      await step.enqueue({ id: 3 }, { orderKey: "one" });
      if (tenant === "b") await nt.worker({ actions: [step] }).start();
    }
    await expect.poll(() => begun.length, { timeout: 20_000 }).toBe(4);
    // A's line waits with A's first, which nobody has run: B's is not behind it.
    expect(begun).toEqual(["a 1", "b 1", "b 2", "b 3"]);
    const { items } = await spy.list({ limit: 100, tenant: "a", states: ["pending"] });
    expect(items).toHaveLength(2);
  });

  it("jobs, runs and sequences of the same name are each tenant's own", async () => {
    const { of } = await ledgerOf(kind);
    const told: string[] = [];
    const programOf = (tenant: string) => {
      const { nt } = of(tenant);
      const job = nt.job("digest", { every: "1h", run: () => ({ of: tenant }) });
      const drip = nt.sequence<undefined, null>("welcome", [{ step: "first" }], {
        run: async ({ subject }) => {
          told.push(`${tenant} ${subject}`);
          return null;
        },
      });
      return { nt, job, drip };
    };
    const [a, b] = [programOf("a"), programOf("b")];
    const slot = Math.floor(Date.now() / 3_600_000) * 3_600_000;
    expect(await b.job.runAt(slot)).toMatchObject({ status: "done", replayed: false });
    expect(await a.job.recent(5, "of"), "not the other's").toEqual([]);
    expect(await a.job.statusAt(slot)).toMatchObject({ status: "absent" });
    expect(await a.job.runAt(slot), "its own slot").toMatchObject({ replayed: false, result: { of: "a" } });
    expect([await a.job.recent(5, "of"), await b.job.recent(5, "of")]).toEqual([["a"], ["b"]]);
    for (const { nt } of [a, b]) {
      const result = await nt.run("import", "file-1", (run) => run.step("read", () => nt.tenant));
      expect(result).toBe(nt.tenant);
    }
    await b.drip.start("lea", undefined);
    expect(await a.drip.status("lea")).toMatchObject({ state: "absent" });
    await a.nt.worker().drain();
    expect(told).toEqual([]);
    await b.nt.worker().drain();
    expect(told).toEqual(["b lea"]);
  });

  it("10 000 due and 10 000 silent records of one tenant do not hide another's", { timeout: 180_000 }, async () => {
    const { of, spy, silent, stateOf } = await ledgerOf(kind);
    await spy.read(["nt1_none"]);
    const { now, steady, epoch } = spy.instant?.() ?? { now: spy.now(), steady: spy.now(), epoch: "" };
    const most = kind === "s3" ? 2_000 : 10_000;
    const due = (index: number) =>
      sampleRecord({
        key: `nt1_d${index}`,
        tenant: "busy",
        action: "send",
        queued: true,
        dueAt: Math.floor(now) - 60_000,
      });
    const gone = (index: number) =>
      sampleRecord({
        key: `nt1_g${index}`,
        tenant: "busy",
        action: "send",
        state: "sent",
        dueAt: null,
        createdAt: Math.floor(now) - 9_000,
        lease: { until: steady - 1_000, epoch },
      });
    for (const make of [due, gone])
      for (let from = 0; from < most; from += 500)
        await spy.write(Array.from({ length: 500 }, (_, i) => ({ record: make(from + i), expected: null })));
    const a = of("a");
    await a.send.enqueue({ id: 1 });
    const mine = await silent("a", "sent");
    await a.nt.worker().drain();
    expect(a.runs).toEqual(["a 1"]);
    expect(await a.nt.sweep()).toMatchObject({ lapsed: 1 });
    expect(await stateOf(mine)).toBe("unknown");
    const busy = await spy.stats({ tenant: "busy" });
    expect(busy.states).toMatchObject({ pending: most, sent: most, unknown: 0 });
    expect(tenantsOf(a.runs)).toEqual(["a"]);
  });
});

describe("what is said about tenants is checked", () => {
  const config = (text: RegExp) => expect.objectContaining({ code: "CONFIG", message: expect.stringMatching(text) });

  it.each([
    [{ tenant: "" }, /tenant is an empty string/],
    [{ tenant: "  " }, /tenant is " {2}"/],
    [{ tenants: "some" }, /tenants is "some"; it takes "all"/],
    [{ tenants: true }, /tenants is true/],
  ])("nevertwice(%j)", (options, message) => {
    expect(() => nevertwice({ store: memoryStore(), ...(options as object) })).toThrow(config(message));
  });

  it.each([
    [{ tenant: "" }, /tenant is an empty string/],
    [{ tenant: undefined }, /tenant is undefined\. The environment variable it comes from may not be set/],
    [{ tenants: "some" }, /tenants is "some"/],
    [{ tenants: undefined }, /tenants is undefined/],
    [{ tenant: "b" }, /tenant is "b", and this nevertwice\(\) is confined to "a".*tenants: "all"/],
    [{ tenant: "a", tenants: "all" }, /tenant is "a" and tenants is "all"/],
  ])("every loop refuses %j", async (options, message) => {
    const { nt, tasks } = program(memoryStore(), { tenant: "a" });
    const given = options as object;
    expect(() => nt.worker(given)).toThrow(config(message));
    await expect(tasks.take(given)).rejects.toThrow(config(message));
    await expect(nt.sweep(given)).rejects.toThrow(config(message));
    await expect(nt.retryAll(given, SIGNED)).rejects.toThrow(config(message));
  });

  it("its own tenant may be named; where none was given, or all are served, any may", async () => {
    const store = memoryStore();
    await program(store, { tenant: "a" }).nt.sweep({ tenant: "a" });
    await program(store, {}).nt.sweep({ tenant: "b" });
    expect(() => program(store, { tenant: "a", tenants: "all" }).nt.worker({ tenant: "b" })).not.toThrow();
  });
});
