/** What goes wrong between the program and the server: F20 (lost replies), F44 (down), and everything with a remedy. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../../test/services/addresses.ts";
import { DURABLE, ownRedis, proxyTo } from "../../../test/services/on-demand.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { REDIS_DRIVERS } from "../../../test/support/redis-drivers.ts";
import type { Store } from "../../core/store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { redisError } from "./errors.ts";
import { type RedisStoreOptions, redisStore } from "./index.ts";

const url = await flushableRedisDb();

function storeOf(options: RedisStoreOptions): Store {
  const store = redisStore({ timeoutMs: 1_000, prefix: freshPrefix().slice(0, -1), ...options });
  onTestFinished(() => store.close());
  return store;
}

const insert = (key: string) => ({ record: sampleRecord({ key }), expected: null });

describe.each(Object.entries(REDIS_DRIVERS))("through %s", (_, connect) => {
  async function behindProxy() {
    const proxy = await proxyTo(url);
    const store = storeOf({ client: await connect(proxy.url(url)) });
    // So that the server knows the script, and the reply that is lost is the write's own.
    await store.write([insert("nt1_warm")]);
    return { proxy, store };
  }

  it("F20: a write whose reply is cut off rejects or is answered truly; written again it meets itself", async () => {
    const { proxy, store } = await behindProxy();
    const cut = proxy.when("evalsha", "cut-reply");
    const first = store.write([insert("nt1_cut")]).then(
      ([result]) => result,
      (error: unknown) => error,
    );
    await cut;
    setTimeout(() => proxy.set("pass"), 100);
    const outcome = await first;
    // A client that sends again by itself meets its own row; one that does not rejects. None may report a success twice.
    if (outcome instanceof Error) expect(outcome).toMatchObject({ code: "STORE_UNAVAILABLE" });
    else expect(outcome).toMatchObject({ ok: false, current: { record: sampleRecord({ key: "nt1_cut" }) } });
    proxy.set("pass");
    await expect
      .poll(async () => (await store.read(["nt1_cut"]).catch(() => [null]))[0]?.record.key, { timeout: 10_000 })
      .toBe("nt1_cut");
  });

  it("F20: the engine recognises its own claim and its own confirm, and the effect happens once", async () => {
    const { proxy, store } = await behindProxy();
    const nt = nevertwice({ store, sweep: false });
    let effects = 0;
    const run = async ({ id }: { id: number }) => {
      effects += 1;
      return `${id}: ${effects}`;
    };
    const send = nt.action("send", { key: ["id"], run });
    await send({ id: 0 });
    for (const id of [1, 2, 3]) {
      const cut = proxy.when("evalsha", "cut-reply");
      const result = send({ id });
      await cut;
      setTimeout(() => proxy.set("pass"), 20);
      expect(await result).toBe(`${id}: ${id + 1}`);
    }
    expect(effects).toBe(4);
  });

  it("a server that swallows everything: the call ends, and says so", async () => {
    const { proxy, store } = await behindProxy();
    proxy.set("blackhole");
    const started = performance.now();
    for (const call of [store.write([insert("nt1_hole")]), store.read(["nt1_a"]), store.stats(), store.lease(LEASE)]) {
      await expect(call).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/within 1000 ms.*asking again is safe/),
      });
    }
    expect(performance.now() - started).toBeLessThan(4_000);
  });

  it("F44: a server that goes and comes back: refused meanwhile, nothing run, and on again by itself", async () => {
    const server = await ownRedis(DURABLE);
    const store = storeOf({ client: await connect(server.url) });
    const nt = nevertwice({ store, sweep: false });
    let effects = 0;
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => (effects += 1) });
    await send({ id: 1 });
    await server.stop("kill");
    await expect(send({ id: 2 })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(effects).toBe(1);
    await server.start();
    await expect.poll(() => send({ id: 3 }).catch(() => null), { timeout: 20_000 }).not.toBeNull();
    expect(await send({ id: 1 })).toBe(1);
  });

  it("knows its scripts again after the server forgot them", async () => {
    const server = await ownRedis(DURABLE);
    const store = storeOf({ client: await connect(server.url) });
    await store.write([insert("nt1_one")]);
    await server.call("SCRIPT", "FLUSH");
    expect(await store.write([insert("nt1_two")])).toMatchObject([{ ok: true }]);
    expect(await store.read(["nt1_one", "nt1_two"])).toMatchObject([{ version: expect.any(Number) }, {}]);
  });

  it("out of memory: refused whole, with the remedy", async () => {
    const server = await ownRedis({ ...DURABLE, maxmemory: "3mb" });
    const store = storeOf({ client: await connect(server.url) });
    const big = (key: string) => ({
      record: sampleRecord({ key, input: { json: JSON.stringify("x".repeat(200_000)) } }),
      expected: null,
    });
    const fill = async () => {
      for (let n = 0; n < 40; n += 1) await store.write([big(`nt1_${n}`)]);
    };
    await expect(fill()).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/no memory left. Raise maxmemory/),
    });
  });

  it("a user without rights learns which ones", async () => {
    const server = await ownRedis(DURABLE);
    await server.call("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+info", "+ping", "+client", "+hello");
    const client = await connect(`redis://reader:pw@127.0.0.1:${server.port}`);
    await expect(storeOf({ client }).write([insert("nt1_a")])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/ACL SETUSER/),
    });
  });
});

const LEASE = { holder: "w", limit: 1, leaseMs: 1_000, to: "claimed" } as const;

describe("a URL", () => {
  const wrong: Readonly<Record<string, [string, string, RegExp]>> = {
    "nobody listens": ["redis://127.0.0.1:1", "STORE_UNAVAILABLE", /no connection|did not answer within/],
    "no such host": ["redis://no-such-host.invalid:6379", "CONFIG", /no such address/],
  };
  it.each(Object.entries(wrong))("%s", async (_, [to, code, message]) => {
    await expect(storeOf({ url: to }).read(["nt1_a"])).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it("with a wrong password", async () => {
    const server = await ownRedis(DURABLE);
    await server.call("CONFIG", "SET", "requirepass", "right");
    for (const to of [`redis://:wrong@127.0.0.1:${server.port}`, `redis://127.0.0.1:${server.port}`]) {
      await expect(storeOf({ url: to }).read(["nt1_a"])).rejects.toMatchObject({
        code: "CONFIG",
        message: expect.stringMatching(/user name or password/),
      });
    }
  });

  it("never shows its password", () => {
    expect(storeOf({ url: "redis://user:hunter2@127.0.0.1:1" }).name).not.toContain("hunter2");
  });

  it.each(["http://localhost", "redis:", "localhost:6379", "redis://"])("%s is no Redis address", (to) => {
    expect(() => redisStore({ url: to })).toThrow(/Write redis:\/\/host:6379/);
  });

  it("works without the driver's help: nevertwice({ store: url })", async () => {
    const nt = nevertwice({ store: `${url}?prefix=${freshPrefix().slice(0, -1)}`, sweep: false });
    onTestFinished(() => nt.close());
    expect(await nt.once("greet", ["ada"], () => "hello")).toBe("hello");
    expect(nt.store.name).toMatch(/^redis:\/\/127\.0\.0\.1:\d+\/\d+, prefix test-/);
  });
});

describe("options", () => {
  const bad: readonly [RedisStoreOptions, RegExp][] = [
    [{}, /either client .* or url/],
    [{ url, client: {} }, /either client .* or url/],
    [{ url, prefix: "a{b}" }, /without braces/],
    [{ url, prefix: "" }, /prefix is an empty string.*may not be set/],
    [{ url, timeoutMs: 0 }, /milliseconds above zero/],
    [{ url, colour: "red" } as RedisStoreOptions, /no option "colour"/],
  ];
  it.each(bad)("%j", (options, message) => {
    expect(() => redisStore(options)).toThrow(message);
  });

  it("a client that is none", async () => {
    await expect(storeOf({ client: { get: () => {} } }).read(["nt1_a"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/new Redis.*createCluster/),
    });
  });

  it("no driver installed: the error names the command", () => {
    const folder = temporaryFolder();
    cpSync(fileURLToPath(new URL("../../../dist", import.meta.url)), join(folder, "dist"), { recursive: true });
    mkdirSync(join(folder, "node_modules"));
    cpSync(fileURLToPath(new URL("../../../package.json", import.meta.url)), join(folder, "package.json"));
    writeFileSync(
      join(folder, "try.js"),
      'import { redisStore } from "./dist/stores/redis/index.js"; redisStore({ url: "redis://127.0.0.1:1" }).read(["nt1_a"]).catch((e) => console.log(e.code, e.message));',
    );
    const said = execFileSync(process.execPath, [join(folder, "try.js")], { encoding: "utf8" });
    expect(said).toMatch(/^CONFIG .*npm install ioredis \(or: npm install redis\)/);
  });
});

describe("errors", () => {
  const cases: readonly [string, string, RegExp][] = [
    ["LOADING Redis is loading the dataset in memory", "STORE_UNAVAILABLE", /loading its data/],
    ["CLUSTERDOWN The cluster is down", "STORE_UNAVAILABLE", /failing over or moving/],
    ["TRYAGAIN Multiple keys request during rehashing of slot", "STORE_UNAVAILABLE", /failing over or moving/],
    ["READONLY You can't write against a read only replica.", "STORE_UNAVAILABLE", /Point the client at the primary/],
    ["MOVED 3999 127.0.0.1:6381", "CONFIG", /not a Cluster client/],
    ["CROSSSLOT Keys in request don't hash to the same slot", "CONFIG", /disagree about Cluster/],
    ["MISCONF Errors writing to the AOF file: No space left on device", "STORE_UNAVAILABLE", /disk is full/],
    ["NOREPLICAS Not enough good replicas to write.", "STORE_UNAVAILABLE", /too few replicas/],
    ["Connection is closed.", "STORE_UNAVAILABLE", /no connection/],
    ["something new", "STORE_UNAVAILABLE", /see the message.*something new/],
  ];
  it.each(cases)("%s", (message, code, says) => {
    const cause = new Error(message);
    expect(redisError(cause, "here")).toMatchObject({ code, message: expect.stringMatching(says), cause });
  });

  it("are looked at to the innermost", () => {
    const error = Object.assign(new Error("Failed to refresh slots cache."), {
      lastNodeError: new Error("WRONGPASS invalid"),
    });
    expect(redisError(error, "here")).toMatchObject({ code: "CONFIG" });
  });
});
