import { Cluster, Redis } from "ioredis";
import pg from "pg";
import { createClient } from "redis";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  flushableRedisDb,
  freshDatabase,
  freshPrefix,
  pgbouncerUrl,
  postgresAdminUrl,
  postgresUrl,
  redisClusterNodes,
  redisUrl,
} from "./addresses.ts";

const database = await freshDatabase();

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 30_000 });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

function redisAt(url: string): Redis {
  const client = new Redis(url, { commandTimeout: 10_000 });
  onTestFinished(() => client.disconnect());
  return client;
}

describe("PostgreSQL", () => {
  test("keeps what it acknowledges", async () => {
    const client = await connected(postgresUrl());
    const { rows } = await client.query(
      "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'wal_level') ORDER BY name",
    );
    expect(rows.map(({ setting }) => setting)).toEqual(["on", "on", "replica"]);
  });

  test("the application is no superuser, the administrator is", async () => {
    const superuser = async (url: string) => {
      const { rows } = await (await connected(url)).query("SELECT usesuper FROM pg_user WHERE usename = current_user");
      return rows[0].usesuper;
    };
    expect(await superuser(postgresUrl())).toBe(false);
    expect(await superuser(postgresAdminUrl())).toBe(true);
  });

  test("refuses a wrong password", async () => {
    const wrong = Object.assign(new URL(postgresUrl()), { password: "wrong" }).href;
    await expect(new pg.Client(wrong).connect()).rejects.toMatchObject({ code: "28P01" });
  });

  test("a fresh database is empty, and dropped although PgBouncer holds a session on it", async () => {
    const other = await freshDatabase();
    const client = await connected(other.pgbouncerUrl);
    expect((await client.query("SELECT current_database() AS name")).rows).toEqual([{ name: other.name }]);
    await other.drop();
    const { rows } = await (await connected(database.url)).query("SELECT 1 FROM pg_database WHERE datname = $1", [
      other.name,
    ]);
    expect(rows).toEqual([]);
  });
});

test("PgBouncer hands the session on after each transaction", async () => {
  const clients = await Promise.all(Array.from({ length: 40 }, () => connected(database.pgbouncerUrl)));
  const answers = await Promise.all(clients.map((client) => client.query("SELECT pg_backend_pid() AS pid")));
  // Forty clients, and at most the pool's eight sessions.
  expect(new Set(answers.map(({ rows }) => rows[0].pid)).size).toBeLessThanOrEqual(8);
  const wrong = Object.assign(new URL(pgbouncerUrl()), { password: "wrong" }).href;
  await expect(new pg.Client(wrong).connect()).rejects.toThrow();
});

describe("Redis", () => {
  test("syncs every write and evicts nothing", async () => {
    const client = redisAt(redisUrl());
    const settings = await client.config("GET", "append*", "maxmemory-policy");
    expect(settings).toEqual(expect.arrayContaining(["always", "noeviction"]));
  });

  test("a flushable database is empty", async () => {
    const url = await flushableRedisDb();
    const client = redisAt(url);
    await client.set("left", "over");
    await flushableRedisDb();
    expect(await client.dbsize()).toBe(0);
  });

  test("answers node-redis too", async () => {
    const client = await createClient({ url: redisUrl() }).connect();
    onTestFinished(() => client.destroy());
    expect(await client.ping()).toBe("PONG");
  });
});

test("the cluster serves all 16384 slots from three primaries with a replica each", async () => {
  const cluster = new Cluster(redisClusterNodes());
  onTestFinished(() => cluster.disconnect());
  const slots = (await cluster.cluster("SLOTS")) as [first: number, last: number, ...nodes: unknown[]][];
  expect(slots.reduce((sum, [first, last]) => sum + last - first + 1, 0)).toBe(16_384);
  expect(slots.map(([, , ...nodes]) => nodes.length)).toEqual([2, 2, 2]);
  const prefix = freshPrefix();
  const keys = Array.from({ length: 50 }, (_, number) => `${prefix}${number}`);
  await Promise.all(keys.map((key) => cluster.set(key, key, "PX", 60_000)));
  expect(await Promise.all(keys.map((key) => cluster.get(key)))).toEqual(keys);
});
