/** A Redis that lost its data under a running program, or between two starts: noticed, and refused before anything is run. */
import { describe, expect, it, onTestFinished } from "vitest";
import { DURABLE, IN_MEMORY, ownRedis, ownRedisCluster } from "../../../test/services/on-demand.ts";
import { until } from "../../../test/support/gate.ts";
import { REDIS_DRIVERS } from "../../../test/support/redis-drivers.ts";
import type { Store } from "../../core/store.ts";
import { systemClock } from "../../engine/clock.ts";
import { Events } from "../../engine/events.ts";
import { Ledger } from "../../engine/ledger.ts";
import { type Nevertwice, nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { bucketOf, Names } from "./buckets.ts";
import { beginningOf } from "./identity.ts";
import { type RedisStoreOptions, redisStore } from "./index.ts";

const LOST = {
  code: "STORE_UNAVAILABLE",
  message: expect.stringMatching(/has lost data, or was replaced by another one/),
};
const insert = (key: string) => ({ record: sampleRecord({ key }), expected: null });

function storeOn(options: RedisStoreOptions): Store {
  const store = redisStore({ timeoutMs: 3_000, ...options });
  onTestFinished(() => store.close());
  return store;
}

function programOn(options: RedisStoreOptions): {
  nt: Nevertwice;
  effects: () => number;
  send: (id: string) => Promise<number>;
} {
  const nt = nevertwice({ store: storeOn({ allowUnsafe: true, ...options }), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  let effects = 0;
  return { nt, effects: () => effects, send: (id) => nt.once("send", [id], async () => ++effects) };
}

type OwnRedis = Awaited<ReturnType<typeof ownRedis>>;

const LOSSES: [string, (server: OwnRedis) => Promise<unknown>][] = [
  ["FLUSHALL", (server) => server.call("FLUSHALL")],
  ["FLUSHDB", (server) => server.call("FLUSHDB")],
  ["SWAPDB with an empty database", (server) => server.call("SWAPDB", "0", "1")],
  [
    "a restart without its data",
    async (server) => {
      await server.stop("kill");
      await server.start();
    },
  ],
];

describe.each(Object.entries(REDIS_DRIVERS))("under a running program, through %s", (_, connect) => {
  it.each(LOSSES)("%s: the effect of a lost record does not happen again", async (_, lose) => {
    const server = await ownRedis(IN_MEMORY);
    const { send, effects, nt } = programOn({ client: await connect(server.url) });
    await send("a");
    await lose(server);
    await until(async () => (await server.call("PING")) === "PONG", "the server");
    // A driver may need a moment to connect again; whatever it answers meanwhile, nothing is run.
    await expect
      .poll(() => send("b").catch((error: unknown) => String(error)), { timeout: 15_000, interval: 50 })
      .toMatch(/has lost data, or was replaced by another one: .*redis-cli SET nevertwice:ledger-id adopt/);
    await expect(send("c")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(effects()).toBe(1);
    await expect(nt.store.write([insert("nt1_x")])).rejects.toMatchObject(LOST);
    await expect(nt.store.lease({ limit: 1, holder: "h", leaseMs: 1_000, to: "claimed" })).rejects.toMatchObject(LOST);
    for (const [name, look] of looksAt(nt.store)) await expect(look(), name).rejects.toMatchObject(LOST);
    expect(await server.call("KEYS", "*")).toEqual([]);
  });
});

/** Everything that says something about the ledger as a whole. */
function looksAt(store: Store): [string, () => Promise<unknown>][] {
  return [
    ["stats", () => store.stats()],
    ["stats of a tenant", () => store.stats({ tenant: "acme" })],
    ["list", () => store.list({ limit: 10 })],
    ["list of one action", () => store.list({ limit: 10, action: "send", states: ["unknown"] })],
    ["list of what has lapsed", () => store.list({ limit: 10, states: ["sent"], lapsed: true, order: "oldest" })],
    ["sweep", () => store.sweep({ limit: 10 })],
    ["a thorough sweep", () => store.sweep({ limit: 10, thorough: true })],
    ["inspect", () => store.inspect?.() ?? Promise.resolve()],
    ["quarantine", () => store.quarantine?.("nt1_x") ?? Promise.resolve()],
  ];
}

describe("on one server", () => {
  it("data that comes back is served again, without a restart of the program", async () => {
    const server = await ownRedis();
    const store = storeOn({ url: server.url });
    await store.write([insert("nt1_a")]);
    await server.call("SWAPDB", "0", "1");
    await expect(store.write([insert("nt1_b")])).rejects.toMatchObject(LOST);
    await server.call("SWAPDB", "0", "1");
    expect(await store.write([insert("nt1_b")])).toMatchObject([{ ok: true }]);
    expect(await store.stats()).toMatchObject({ total: 2 });
    expect((await store.list({ limit: 10 })).items).toHaveLength(2);
  });

  it("a record that is absent because everything is gone is not answered as absent for long", async () => {
    const server = await ownRedis();
    const store = storeOn({ url: server.url });
    await store.write([insert("nt1_a")]);
    await server.call("FLUSHALL");
    await expect
      .poll(() => store.read(["nt1_a"]).catch((error: unknown) => String(error)), { timeout: 10_000, interval: 100 })
      .toMatch(/has lost data/);
  });

  it("a new ledger that another program began there meanwhile is not taken for the old one", async () => {
    const server = await ownRedis();
    const old = programOn({ url: server.url });
    await old.send("a");
    await server.call("FLUSHALL");
    const next = programOn({ url: server.url });
    expect(await next.send("b")).toBe(1);
    await expect(old.send("c")).rejects.toMatchObject(LOST);
    // A program that starts has no memory of what was lost: it is served.
    expect(await next.send("a")).toBe(2);
  });

  it("an index that the server evicted is noticed by the writes to it, and by a program that starts", async () => {
    const server = await ownRedis();
    const store = storeOn({ url: server.url });
    await store.write([insert("nt1_a")]);
    const index = new Names("nevertwice").index(bucketOf("nt1_a"));
    await server.call("DEL", index);
    await expect(store.write([insert("nt1_a")])).rejects.toThrow(`${index} is not what it was`);
    await expect(store.stats()).rejects.toThrow(`${index} is not what it was`);
    await expect(store.list({ limit: 10 })).rejects.toThrow(`${index} is not what it was`);
    await expect(storeOn({ url: server.url }).read(["nt1_a"])).rejects.toMatchObject(LOST);
  });

  it("a ledger of an earlier release gets its marks, and keeps its records", async () => {
    const server = await ownRedis();
    const names = new Names("nevertwice");
    const first = storeOn({ url: server.url });
    const [written] = await first.write([insert("nt1_a")]);
    await server.call("DEL", names.identity);
    for (const index of names.indexes) await server.call("ZREMRANGEBYSCORE", index, "9e14", "9e14");
    const store = storeOn({ url: server.url });
    expect(await store.write([insert("nt1_a")])).toMatchObject([
      { ok: false, current: { version: written?.ok && written.version } },
    ]);
    expect(await store.write([insert("nt1_b")])).toMatchObject([{ ok: true }]);
  });

  it("programs that begin a ledger at the same time agree on it", async () => {
    const server = await ownRedis();
    const stores = Array.from({ length: 8 }, () => storeOn({ url: server.url }));
    const results = await Promise.all(stores.map((store, n) => store.write([insert(`nt1_${n}`)])));
    expect(results.flat().every(({ ok }) => ok)).toBe(true);
  });

  it("marks are in no list and no count, and no sweep removes them", async () => {
    const server = await ownRedis();
    const store = storeOn({ url: server.url });
    expect(await store.stats()).toMatchObject({ total: 0 });
    expect((await store.list({ limit: 10 })).items).toEqual([]);
    expect(await store.sweep({ limit: 100, thorough: true })).toBe(0);
    expect(await store.write([insert("nt1_a")])).toMatchObject([{ ok: true }]);
  });

  it("eviction that is turned on under a running program refuses hold actions a minute later", async () => {
    const server = await ownRedis(DURABLE);
    let now = 0;
    const clock = { ...systemClock, monotonic: () => now };
    const ledger = new Ledger({
      store: storeOn({ url: server.url }),
      clock,
      events: new Events(),
      random: Math.random,
    });
    await ledger.admits("hold");
    await server.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    expect(ledger.admits("hold"), "not asked again yet").toBeNull();
    const answer = () => {
      now += 60_000;
      return ledger.admits("hold")?.then(() => "admitted", String);
    };
    await expect.poll(answer, { timeout: 10_000, interval: 100 }).toMatch(/it evicts \(maxmemory-policy allkeys-lru\)/);
  });
});

it("a cluster: one node that was flushed refuses its part, the others go on, and a program that starts is refused", async () => {
  const cluster = await ownRedisCluster();
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error("there is no node");
  const options = { url: node.url, allowUnsafe: true };
  const { nt, send } = programOn(options);
  await send("a");
  const keys = Array.from({ length: 64 }, (_, n) => `nt1_${n}`);
  await nt.store.write(keys.map(insert));
  await node.call("FLUSHALL");
  const outcomes = await Promise.all(
    keys.map((key) =>
      nt.store.write([insert(`${key}_more`)]).then(
        () => "written",
        (error: Error) => error.message,
      ),
    ),
  );
  const refused = outcomes.filter((outcome) => /has lost data/.test(outcome));
  expect(refused.length).toBeGreaterThan(0);
  expect(outcomes.filter((outcome) => outcome === "written").length).toBe(keys.length - refused.length);
  expect(refused.length).toBeLessThan(keys.length);
  await expect(storeOn(options).read(["nt1_a"])).rejects.toMatchObject(LOST);

  const admin = storeOn(options);
  await expect(admin.stats()).rejects.toMatchObject(LOST);
  const identity = new Names("nevertwice").identity;
  for (const one of cluster.nodes) await one.call("SET", identity, "adopt").catch(() => "moved: another node has it");
  const after = programOn(options);
  await expect(after.send("after")).resolves.toBe(1);
  await Promise.all(keys.map((key) => after.nt.store.write([insert(`${key}_after`)])));
  // It was not restarted: what it knew is gone.
  await expect(send("z")).rejects.toMatchObject(LOST);
}, 60_000);

describe("what a program that starts makes of the ledger's name and marks", () => {
  const fresh = () => "new";
  it.each([
    ["nothing there", "", ["", ""], { kind: "name", name: "making:new" }],
    ["begun by another, not marked yet", "making:x", ["x", ""], { kind: "mark", id: "x", buckets: [1] }],
    ["marked, not finished", "making:x", ["x", "x"], { kind: "mark", id: "x", buckets: [] }],
    ["as it should be", "x", ["x", "x"], { kind: "known", id: "x" }],
    ["a bucket was emptied", "x", ["x", ""], { kind: "lost", buckets: [1] }],
    ["a bucket is another ledger's", "x", ["x", "y"], { kind: "lost", buckets: [1] }],
    ["all buckets are another ledger's", "x", ["y", "y"], { kind: "lost", buckets: [0, 1] }],
    ["nothing but the name was lost", "", ["x", "x"], { kind: "name", name: "x" }],
    ["the name and a bucket were lost", "", ["", "x"], { kind: "lost", buckets: [0] }],
    ["begun anew beside what is left of another", "making:y", ["", "x"], { kind: "lost", buckets: [0, 1] }],
    ["to be adopted", "adopt", ["x", ""], { kind: "name", name: "adopting:new" }],
    ["being adopted", "adopting:y", ["x", "y"], { kind: "mark", id: "y", buckets: [0] }],
  ] as const)("%s", (_, name, marks, expected) => {
    expect(beginningOf(name, marks, fresh)).toEqual(expected);
  });
});
