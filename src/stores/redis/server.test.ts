/** What a server says about itself, and which actions it may therefore guard: F28's configuration half. */
import { Redis } from "ioredis";
import { createClient } from "redis";
import { describe, expect, it, onTestFinished } from "vitest";
import { redisClusterNodes } from "../../../test/services/addresses.ts";
import { DURABLE, EVERY_SECOND, IN_MEMORY, ownRedis, ownRedisReplica } from "../../../test/services/on-demand.ts";
import type { Store } from "../../core/store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { type RedisStoreOptions, redisStore } from "./index.ts";

function storeOf(options: RedisStoreOptions): Store {
  const store = redisStore(options);
  onTestFinished(() => store.close());
  return store;
}

async function refusal(options: RedisStoreOptions): Promise<string | null> {
  return (await storeOf(options).refuses?.({ doubt: "hold" })) ?? null;
}

describe("a server that keeps what it acknowledged", () => {
  it("guards hold actions, and says that it survives a power loss once it was asked", async () => {
    const { url } = await ownRedis(DURABLE);
    const store = storeOf({ url });
    expect(store.traits).toEqual({ hosts: "many", survives: "best-effort", clock: "store", dueIndex: true });
    expect(await store.refuses?.({ doubt: "hold" })).toBeNull();
    expect(store.traits.survives).toBe("power-loss");
    const nt = nevertwice({ store, sweep: false });
    expect(await nt.once("greet", ["ada"], () => "hello")).toBe("hello");
  });

  it("is described by inspect", async () => {
    const { url, port } = await ownRedis({ ...DURABLE, maxmemory: "64mb" });
    const findings = (await storeOf({ url: `${url}?prefix=mine` }).inspect?.()) ?? [];
    const said = Object.fromEntries(findings.map(({ name, value }) => [name, value]));
    expect(said).toMatchObject({
      server: expect.stringMatching(
        new RegExp(`^(Redis|Valkey) \\d+\\.\\S+ at redis://127.0.0.1:${port}, prefix mine, by ioredis$`),
      ),
      role: "primary, 0 replicas",
      persistence: "append-only file, appendfsync always",
      eviction: "noeviction",
      memory: expect.stringMatching(/ used, 64\.00M$/),
      "hold actions": "guarded",
    });
    expect(findings.every(({ ok }) => ok)).toBe(true);
  });
});

describe("a server that may forget", () => {
  const cases: Readonly<Record<string, [Record<string, string>, RegExp]>> = {
    "synced once a second": [EVERY_SECOND, /syncs too late \(appendfsync everysec\)/],
    "no append-only file": [IN_MEMORY, /no append-only file/],
    "evicts anything": [{ ...DURABLE, "maxmemory-policy": "allkeys-lru" }, /evicts \(maxmemory-policy allkeys-lru\)/],
    "evicts what expires": [{ ...DURABLE, "maxmemory-policy": "volatile-ttl" }, /evicts.*volatile-ttl/],
  };
  it.each(Object.entries(cases))("F28: %s: hold is refused, the rest is not", async (_, [settings, why]) => {
    const { url } = await ownRedis(settings);
    const store = storeOf({ url });
    const said = await store.refuses?.({ doubt: "hold" });
    expect(said).toMatch(why);
    expect(said).toMatch(/appendfsync always and maxmemory-policy noeviction.*allowUnsafe: true/);
    expect(await store.refuses?.({ doubt: "retry" })).toBeNull();
    expect(await store.refuses?.({ doubt: "settle" })).toBeNull();
    expect(store.traits.survives).toBe("best-effort");
    expect(await refusal({ url, allowUnsafe: true })).toBeNull();
    expect(await refusal({ url: `${url}/0?allowUnsafe=true` })).toBeNull();
  });

  it("F28: refuses at configuration, before anything runs, with the remedy", async () => {
    const { url } = await ownRedis(EVERY_SECOND);
    const nt = nevertwice({ store: url, sweep: false });
    onTestFinished(() => nt.close());
    let ran = 0;
    const charge = nt.action("charge", { key: ["id"], run: async (_: { id: number }) => (ran += 1) });
    const safe = nt.action("safe", {
      key: ["id"],
      doubt: { resendWithin: "24h" },
      run: async (_: { id: number }) => "ok",
    });
    await expect(charge({ id: 1 })).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/doubt: "hold".*may forget a claim.*everysec.*allowUnsafe/s),
    });
    expect(ran).toBe(0);
    expect(await safe({ id: 1 })).toBe("ok");
  });

  it("F28: a primary with a replica may be failed over", async () => {
    const primary = await ownRedis(DURABLE);
    await ownRedisReplica(primary);
    expect(await refusal({ url: primary.url })).toMatch(/has replicas, and a failover/);
  });

  it("F28: so may a cluster, which a URL finds out by itself", async () => {
    const [node] = redisClusterNodes();
    const store = storeOf({ url: `redis://127.0.0.1:${node?.port}` });
    expect(await store.refuses?.({ doubt: "hold" })).toMatch(/is a cluster/);
    expect(await store.read(["nt1_a", "nt1_b", "nt1_c"])).toEqual([null, null, null]);
  });

  it("CONFIG GET forbidden, as on managed servers: not safe unless somebody says so", async () => {
    const server = await ownRedis(DURABLE);
    await server.call("ACL", "SETUSER", "agent", "on", ">pw", "~*", "&*", "+@all", "-config");
    const url = `redis://agent:pw@127.0.0.1:${server.port}`;
    expect(await refusal({ url })).toMatch(/does not say when it syncs \(CONFIG GET is forbidden\)/);
    expect(await refusal({ url, allowUnsafe: true })).toBeNull();
    const client = await createClient({ url }).connect();
    onTestFinished(() => client.destroy());
    expect(await refusal({ client })).toMatch(/CONFIG GET is forbidden/);
    const found = (await storeOf({ url }).inspect?.()) ?? [];
    expect(found.find(({ name }) => name === "hold actions")?.value).toMatch(/^refused: it does not say/);
  });

  it("is asked anew: who turns eviction on is noticed by the next process", async () => {
    const server = await ownRedis(DURABLE);
    expect(await refusal({ url: server.url })).toBeNull();
    await server.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random");
    expect(await refusal({ url: server.url })).toMatch(/allkeys-random/);
  });
});

describe("a server that is no ledger at all", () => {
  it("a read-only replica is refused", async () => {
    const primary = await ownRedis(DURABLE);
    const { url } = await ownRedisReplica(primary);
    await expect(storeOf({ url }).read(["nt1_a"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/read-only replica.*primary/),
    });
  });

  it("a plain client on a cluster is refused", async () => {
    const [node] = redisClusterNodes();
    const client = new Redis({ port: node?.port ?? 0 });
    onTestFinished(() => client.disconnect());
    await expect(storeOf({ client }).read(["nt1_a"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/node of a cluster.*new Cluster.*createCluster/),
    });
  });
});
