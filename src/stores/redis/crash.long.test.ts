import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../../test/services/addresses.ts";
import { DURABLE, ownRedis, ownRedisCluster, ownRedisReplica, proxyTo } from "../../../test/services/on-demand.ts";
import { until } from "../../../test/support/gate.ts";
import { closedPort, startProvider } from "../../../test/support/provider.ts";
import { REDIS_DRIVERS } from "../../../test/support/redis-drivers.ts";
import type { Store } from "../../core/store.ts";
import { type Nevertwice, nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { hexSum } from "../shared/checksum.ts";
import { Names } from "./buckets.ts";
import { type RedisStoreOptions, redisStore } from "./index.ts";

function storeOf(options: RedisStoreOptions): Store {
  const store = redisStore({ timeoutMs: 1_000, ...options });
  onTestFinished(() => store.close());
  return store;
}

function programOn(options: RedisStoreOptions): Nevertwice {
  return nevertwice({ store: storeOf(options), sweep: false, onWarning: () => {} });
}

const insert = (key: string) => ({ record: sampleRecord({ key }), expected: null });
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Callers that go on whatever happens; the effect counts itself, and so does what a caller was told. */
class Load {
  readonly effects = new Map<number, number>();
  readonly told = new Map<number, number>();
  readonly #send;
  #next = 0;
  #over = false;
  readonly #callers: Promise<void>[];

  constructor(nt: Nevertwice, callers: number) {
    this.#send = nt.action("send", {
      key: ["id"],
      keep: "forever",
      wait: 0,
      run: async ({ id }: { id: number }) => {
        this.effects.set(id, (this.effects.get(id) ?? 0) + 1);
        return id;
      },
    });
    this.#callers = Array.from({ length: callers }, () => this.#caller());
  }

  async #caller(): Promise<void> {
    while (!this.#over && this.#next < 50_000) {
      this.#next += 1;
      const id = this.#next;
      try {
        this.told.set(id, await this.#send({ id }));
      } catch {
        await pause(20);
      }
    }
  }

  async end(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#callers);
  }

  /** What must hold whatever happened: no effect twice, and what a caller was told is in the ledger, from any program. */
  async check(after: Nevertwice): Promise<void> {
    expect([...this.effects].filter(([, count]) => count > 1)).toEqual([]);
    expect(this.told.size).toBeGreaterThan(0);
    const again = after.action("send", {
      key: ["id"],
      keep: "forever",
      run: async ({ id }: { id: number }) => expect.unreachable(`${id} was acknowledged`),
    });
    for (const id of this.told.keys()) expect(await again.status({ id })).toMatchObject({ status: "done", result: id });
  }
}

describe.each(Object.entries(REDIS_DRIVERS))("through %s", (_, connect) => {
  it("F10: a server killed again and again under load keeps all it acknowledged, and no effect happens twice", async () => {
    const server = await ownRedis(DURABLE);
    const load = new Load(programOn({ client: await connect(server.url) }), 32);
    for (let kills = 0; kills < 4; kills += 1) {
      const before = load.told.size;
      await until(() => load.told.size > before + 100, "calls that get through");
      await server.stop("kill");
      await server.start();
    }
    await load.end();
    await load.check(programOn({ url: server.url }));
  });

  it("F20: connections reset again and again under load: no effect twice, nothing acknowledged is lost", async () => {
    const server = await ownRedis(DURABLE);
    const proxy = await proxyTo(server.url);
    const load = new Load(programOn({ client: await connect(proxy.url(server.url)) }), 32);
    for (let cuts = 0; cuts < 12; cuts += 1) {
      const before = load.told.size;
      await until(() => load.told.size > before + 20, "calls that get through");
      // By turns: told at once, told after the work was done, not told at all.
      if (cuts % 3 === 0) proxy.set("reset");
      else await proxy.when("evalsha", cuts % 3 === 1 ? "cut-reply" : "drop-reply");
      await pause(cuts % 3 === 2 ? 1_200 : 30);
      proxy.set("pass");
    }
    await load.end();
    await load.check(programOn({ url: server.url }));
  });

  it("F20: a server that does the work and swallows its answers: recognised as ours once they come again", async () => {
    const server = await ownRedis(DURABLE);
    const proxy = await proxyTo(server.url);
    const nt = programOn({ client: await connect(proxy.url(server.url)), timeoutMs: 300 });
    let effects = 0;
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => (effects += 1) });
    await send({ id: 0 });
    const swallowed = proxy.when("evalsha", "drop-reply");
    const result = send({ id: 1 });
    await swallowed;
    await pause(200);
    expect(effects, "not sent before the claim is acknowledged").toBe(1);
    proxy.set("pass");
    expect(await result).toBe(2);
    expect(effects).toBe(2);
  });

  it("F30: the server dies between the send mark and its answer: nothing is sent, and the record tells", async () => {
    const server = await ownRedis(DURABLE);
    const proxy = await proxyTo(server.url);
    const nt = programOn({ client: await connect(proxy.url(server.url)), timeoutMs: 300 });
    let sent = 0;
    let marking: Promise<void> = Promise.resolve();
    const send = nt.action("send", {
      key: ["id"],
      lease: "1s",
      prepare: async (_: { id: number }) => {
        marking = proxy.when("evalsha", "drop-reply");
      },
      run: async () => (sent += 1),
    });
    const called = send({ id: 1 }).catch((error: unknown) => error);
    await until(async () => (await server.info("stats")) !== "" && proxy.mode === "drop-reply", "the mark");
    await marking;
    await server.stop("kill");
    expect(await called).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(sent).toBe(0);

    await server.start();
    const after = programOn({ url: server.url });
    const again = after.action("send", { key: ["id"], lease: "1s", run: async (_: { id: number }) => (sent += 1) });
    const settled = async () => {
      await after.sweep();
      return (await again.status({ id: 1 })).status;
    };
    await until(async () => (await settled()) !== "in_flight", "the end of the lease");
    // The mark was synced or it was not. If it was, nobody can tell it from a send: held. Never a second send of it.
    const status = await settled();
    expect(["unknown", "queued"]).toContain(status);
    await again({ id: 1 }).catch(() => {});
    expect(sent).toBe(status === "unknown" ? 0 : 1);
  });

  it("F44: a server that still loads its data is waited for, and nothing it knows is taken for absent", async () => {
    const server = await ownRedis({ ...DURABLE, "enable-debug-command": "local" });
    const store = storeOf({ client: await connect(server.url) });
    await store.write(Array.from({ length: 400 }, (_, n) => insert(`nt1_${n}`)));
    // Rewritten, the file is loaded in pieces, between which clients are answered.
    await server.call("BGREWRITEAOF");
    const rewritten = async () => /rewrite_in_progress:0.*aof_base_size:[1-9]/s.test(await server.info("persistence"));
    await until(rewritten, "the rewrite");
    await server.stop("kill");
    // Five milliseconds a key, with a look at its clients now and then: the server answers LOADING meanwhile.
    const slow = { "key-load-delay": 5_000, "loading-process-events-interval-bytes": 1_024 };
    const started = server.start(slow);
    const loading = async () => (await server.info("persistence").catch(() => "")).includes("loading:1");
    await until(loading, "the loading");
    const patient = storeOf({ client: await connect(server.url), timeoutMs: 15_000 });
    expect((await patient.read(["nt1_7"]))[0]?.record.key).toBe("nt1_7");
    await started;
  });

  it("a primary that was demoted refuses, and says where to go", async () => {
    const [server, primary] = await Promise.all([ownRedis(DURABLE), ownRedis(DURABLE)]);
    const store = storeOf({ client: await connect(server.url) });
    await store.write([insert("nt1_a")]);
    await server.call("REPLICAOF", "127.0.0.1", primary.port);
    await expect(store.write([insert("nt1_b")])).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/read-only replica.*Point the client at the primary.*READONLY/),
    });
  });

  it("a server that wants replicas and has none refuses, and says so", async () => {
    const server = await ownRedis(DURABLE);
    const store = storeOf({ client: await connect(server.url) });
    await store.write([insert("nt1_a")]);
    await server.call("CONFIG", "SET", "min-replicas-to-write", 1);
    await expect(store.write([insert("nt1_b")])).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/refuses writes.*too few replicas.*NOREPLICAS/),
    });
  });
});

describe("F28: a server that evicts", () => {
  it("forgets what was done: a provider that honours keys still performs the effect once, and hold is refused", async () => {
    const provider = await startProvider();
    const server = await ownRedis({ ...DURABLE, "maxmemory-policy": "allkeys-lru" });
    const nt = programOn({ url: server.url });
    const send = nt.action("send", {
      key: ["id"],
      doubt: { resendWithin: "24h" },
      run: (order: { id: number }, { key }) => provider.send(order, key),
    });
    const first = await send({ id: 1 });
    await expect(nt.once("hold", [1], () => "never")).rejects.toMatchObject({ code: "CONFIG" });
    // Full, all at once: everything that can go goes.
    await server.call("CONFIG", "SET", "maxmemory", 1);
    await until(async () => Number(await server.call("DBSIZE")) === 0, "the eviction");
    await server.call("CONFIG", "SET", "maxmemory", 0);
    const after = programOn({ url: server.url }).action("send", {
      key: ["id"],
      doubt: { resendWithin: "24h" },
      run: (order: { id: number }, { key }) => provider.send(order, key),
    });
    expect(await after.status({ id: 1 }), "the loss").toMatchObject({ status: "absent" });
    expect(await after({ id: 1 })).toEqual(first);
    expect(provider.requests).toHaveLength(2);
    expect(provider.effects).toHaveLength(1);
  });
});

describe("doubts about the provider, on Redis", () => {
  async function sending(modes: Parameters<Awaited<ReturnType<typeof startProvider>>["plan"]>, honoursKeys = true) {
    const provider = await startProvider({ honoursKeys });
    provider.plan(...modes);
    const nt = programOn({ url: await flushableRedisDb(), prefix: freshPrefix().slice(0, -1) });
    const send = nt.action("send", {
      key: ["id"],
      wait: "10s",
      retry: { attempts: 5, backoff: 5, max: 20 },
      doubt: honoursKeys ? { resendWithin: "24h" } : "hold",
      run: (order: { id: number }, { key }) => provider.send(order, key),
    });
    return { provider, send, nt };
  }

  it.each([["drop-after-effect"], ["500-after-effect"], ["409", "ok"]] as const)(
    "F21 F23: the provider's answer is lost or worthless (%s): the same key again, one effect",
    async (...modes) => {
      const { provider, send } = await sending(modes);
      expect(await send({ id: 1 })).toMatchObject({ id: "msg_1" });
      expect(provider.effects).toHaveLength(1);
      expect(new Set(provider.requests.map(({ key }) => key)).size).toBe(1);
    },
  );

  it("F21: where the provider honours no keys the doubt is held, and stays so for every program", async () => {
    const { provider, send } = await sending(["drop-after-effect"], false);
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "unknown" });
    expect(provider.requests).toHaveLength(1);
  });

  it("F22: a provider that cannot be reached was surely not reached: tried again, and a later call goes on", async () => {
    const { provider, nt } = await sending([]);
    let to = await closedPort();
    const send = nt.action("send2", {
      key: ["id"],
      retry: { attempts: 2, backoff: 5, max: 10 },
      run: async (_: { id: number }, { key }) =>
        (await fetch(to, { method: "POST", body: "{}", headers: { "idempotency-key": key } })).json(),
    });
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "failed", final: false });
    to = provider.url;
    expect(await send({ id: 1 })).toMatchObject({ id: "msg_1" });
    expect(provider.effects).toHaveLength(1);
  });

  it("F2: the same key with another guarded input is a conflict: nothing is sent", async () => {
    const { provider, nt } = await sending([]);
    const pay = nt.action("pay", {
      key: ["id"],
      run: (order: { id: number; amount: number }, { key }) => provider.send(order, key),
    });
    await pay({ id: 1, amount: 5 });
    expect(await pay.attempt({ id: 1, amount: 6 })).toMatchObject({ status: "conflict", differs: ["amount"] });
    expect(provider.effects).toHaveLength(1);
  });
});

describe("F46: other releases on one ledger", () => {
  it("a ledger laid out by a later release is refused, and nothing is run", async () => {
    const server = await ownRedis(DURABLE);
    await server.call("SET", "nevertwice:layout", "2");
    const nt = programOn({ url: server.url });
    await expect(nt.once("greet", ["ada"], () => expect.unreachable())).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/layout 2.*later release.*Upgrade nevertwice here/),
    });
    expect(await server.call("DBSIZE")).toBe(1);
    expect(await programOn({ url: server.url, prefix: "mine" }).once("greet", ["ada"], () => "hello")).toBe("hello");
  });

  it("a row in a later layout, met by a program that runs already, is neither damage nor absence", async () => {
    const server = await ownRedis(DURABLE);
    const store = storeOf({ url: server.url });
    await store.write([insert("nt1_later")]);
    const name = new Names("nevertwice").record("nt1_later");
    const row = String(await server.call("GET", name));
    const later = row.slice(0, -8).replace("{", "[");
    await server.call("SET", name, later + hexSum(`nt1_later${later}`));
    for (const call of [() => store.read(["nt1_later"]), () => store.write([insert("nt1_later")])]) {
      await expect(call()).rejects.toMatchObject({ code: "CONFIG", message: expect.stringMatching(/later release/) });
    }
  });

  it("a ledger says how it is laid out from its first use on", async () => {
    const server = await ownRedis(DURABLE);
    await storeOf({ url: server.url }).read(["nt1_a"]);
    expect(await server.call("GET", "nevertwice:layout")).toBe("1");
  });
});

describe("a cluster", () => {
  it("that does not serve all slots refuses, and says what to look at; when it is whole again, calls go on", async () => {
    const { nodes } = await ownRedisCluster();
    // The client tries for itself first, sixteen times.
    const store = storeOf({ url: nodes[0]?.url ?? "", timeoutMs: 5_000 });
    await store.write([insert("nt1_a")]);
    // A slot between the buckets' own: the whole cluster is down for it, as Redis is set up by default.
    for (const node of nodes.slice(0, 3)) await node.call("CLUSTER", "DELSLOTS", 1);
    await until(async () => String(await nodes[0]?.call("CLUSTER", "INFO")).includes("state:fail"), "the failure");
    await expect(store.write([insert("nt1_b")])).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/redis-cli --cluster check.*CLUSTERDOWN/),
    });
    await nodes[0]?.call("CLUSTER", "ADDSLOTS", 1);
    await until(async () => (await store.read(["nt1_a"]).catch(() => []))[0]?.record.key === "nt1_a", "the cluster");
  });

  it("F29: replicas take over one primary after the other under load: no effect twice, nothing acknowledged is lost", async () => {
    const { nodes } = await ownRedisCluster();
    const load = new Load(programOn({ url: nodes[0]?.url ?? "", allowUnsafe: true, timeoutMs: 5_000 }), 32);
    for (const replica of nodes.slice(3)) {
      const before = load.told.size;
      await until(() => load.told.size > before + 200, "calls that get through");
      // By hand: the primary stops and waits until its replica has heard everything.
      await replica.call("CLUSTER", "FAILOVER");
      await until(async () => (await replica.info("replication")).includes("role:master"), "the failover");
    }
    await load.end();
    await load.check(programOn({ url: nodes[5]?.url ?? "", allowUnsafe: true, timeoutMs: 5_000 }));
  });
});

it("a replica that was promoted is a ledger like any other", async () => {
  const primary = await ownRedis(DURABLE);
  const replica = await ownRedisReplica(primary);
  await storeOf({ url: primary.url }).write([insert("nt1_a")]);
  await until(async () => Number(await replica.call("DBSIZE")) > 0, "the copy");
  await replica.promote();
  expect((await storeOf({ url: replica.url }).read(["nt1_a"]))[0]?.record.key).toBe("nt1_a");
});
