import { Redis } from "ioredis";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../support/gate.ts";
import { postgresUrl } from "./addresses.ts";
import {
  EVERY_SECOND,
  IN_MEMORY,
  ownPgBouncer,
  ownPostgres,
  ownRedis,
  ownRedisCluster,
  ownRedisReplica,
  ownStandby,
  proxyTo,
} from "./on-demand.ts";

test("PostgreSQL: what was committed survives the kill of the server", async () => {
  const server = await ownPostgres();
  await server.query("CREATE TABLE effect AS SELECT 1 AS id");
  await server.stop("kill");
  await expect(server.query("SELECT 1")).rejects.toThrow();
  await server.start();
  expect(await server.query("SELECT id FROM effect")).toEqual([{ id: 1 }]);
});

test("PostgreSQL: an asynchronous standby that was cut off loses what it did not hear", async () => {
  const primary = await ownPostgres();
  const proxy = await proxyTo(primary);
  const standby = await ownStandby(primary, { port: proxy.port });
  await primary.query("CREATE TABLE effect AS SELECT 1 AS id");
  await until(async () => (await standby.query("SELECT to_regclass('effect') AS it"))[0]?.it, "the table's arrival");
  proxy.set("blackhole");
  await primary.query("INSERT INTO effect VALUES (2)");
  await primary.stop("kill");
  await standby.promote();
  await standby.query("INSERT INTO effect VALUES (3)");
  expect(await standby.query("SELECT id FROM effect ORDER BY id")).toEqual([{ id: 1 }, { id: 3 }]);
});

test("PostgreSQL: a synchronous standby loses nothing that was acknowledged", async () => {
  const primary = await ownPostgres();
  const proxy = await proxyTo(primary);
  const standby = await ownStandby(primary, { port: proxy.port, synchronous: true });
  await primary.query("CREATE TABLE effect AS SELECT 1 AS id");
  proxy.set("blackhole");
  const waiting = primary.query("INSERT INTO effect VALUES (2)").then(
    () => "acknowledged",
    () => "failed",
  );
  const moment = new Promise((resume) => setTimeout(() => resume("no answer"), 500));
  expect(await Promise.race([waiting, moment])).toBe("no answer");
  await primary.stop("kill");
  expect(await waiting).toBe("failed");
  await standby.promote();
  expect(await standby.query("SELECT id FROM effect")).toEqual([{ id: 1 }]);
});

test("PgBouncer of one's own, with settings of one's own", async () => {
  const bouncer = await ownPgBouncer({ url: postgresUrl() }, { default_pool_size: 1 });
  const clients = await Promise.all([1, 2, 3].map(() => connected(bouncer.url)));
  const pids = await Promise.all(clients.map((client) => client.query("SELECT pg_backend_pid() AS pid")));
  expect(new Set(pids.map(({ rows }) => rows[0].pid)).size).toBe(1);
});

test("Redis: a promoted replica knows what it was told, and not what it missed", async () => {
  const primary = await ownRedis();
  const proxy = await proxyTo(primary);
  const replica = await ownRedisReplica(proxy);
  await primary.call("SET", "heard", "1");
  await until(async () => (await replica.call("GET", "heard")) === "1", "the replica's copy");
  proxy.set("blackhole");
  await primary.call("SET", "missed", "1");
  await primary.stop("kill");
  await replica.promote();
  expect(await replica.call("MGET", "heard", "missed")).toEqual(["1", null]);
  expect(await replica.call("SET", "written", "1")).toBe("OK");
});

test("Redis: what survives a kill is what the settings say", async () => {
  const [durable, forgetful] = await Promise.all([ownRedis(), ownRedis(IN_MEMORY)]);
  const after = async (redis: typeof durable) => {
    await redis.call("SET", "key", "kept");
    await redis.stop("kill");
    await redis.start();
    return redis.call("GET", "key");
  };
  expect(await Promise.all([after(durable), after(forgetful)])).toEqual(["kept", null]);
  const lax = await ownRedis(EVERY_SECOND);
  expect(await lax.call("CONFIG", "GET", "appendfsync")).toEqual(["appendfsync", "everysec"]);
});

test("Redis Cluster: a replica takes over from a killed primary", async () => {
  const cluster = await ownRedisCluster({ nodeTimeoutMs: 2_000 });
  const [primary, , , replica] = cluster.nodes;
  await primary?.stop("kill");
  await until(async () => (await replica?.info("replication"))?.includes("role:master") === true, "the takeover");
  const client = new Redis({ host: "127.0.0.1", port: replica?.port as number });
  onTestFinished(() => client.disconnect());
  await until(async () => String(await client.cluster("INFO")).includes("cluster_state:ok"), "a whole cluster");
});

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}
