/** The conformance suite on real servers, through each of the four clients. */
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import { describe, it } from "vitest";
import { flushableRedisDb, freshPrefix, redisClusterNodes } from "../../test/services/addresses.ts";
import type { Store } from "../core/store.ts";
import { type ConformanceLedger, storeConformance } from "../testing/index.ts";
import { type RedisClient, redisStore } from "./redis.ts";
import { Names } from "./redis-buckets.ts";

interface Opened {
  readonly client: RedisClient;
  set(key: string, value: string): Promise<unknown>;
  get(key: string): Promise<string | null>;
  end(): Promise<unknown> | unknown;
}

const url = await flushableRedisDb();
const nodes = redisClusterNodes();

const CLIENTS: Readonly<Record<string, () => Promise<Opened>>> = {
  "ioredis, one server": async () => {
    const client = new Redis(url);
    return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.disconnect() };
  },
  "ioredis, cluster": async () => {
    const client = new Cluster(nodes);
    return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.disconnect() };
  },
  "node-redis, one server": async () => {
    const client = await createClient({ url }).connect();
    return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.destroy() };
  },
  "node-redis, cluster": async () => {
    const rootNodes = nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
    const client = await createCluster({ rootNodes }).connect();
    return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.destroy() };
  },
};

for (const [name, connect] of Object.entries(CLIENTS)) {
  storeConformance({
    name: `redis (${name})`,
    runner: { describe, it },
    offers: ["reopen", "corrupt"],
    open: () => open(connect),
  });
}

async function open(connect: () => Promise<Opened>): Promise<ConformanceLedger> {
  const prefix = freshPrefix().replace(/:$/, "");
  const opened: Opened[] = [];
  const connection = async () => {
    const one = await connect();
    opened.push(one);
    return one;
  };
  const first = await connection();
  const store: Store = redisStore({ client: first.client, prefix });
  const names = new Names(prefix);
  return {
    store,
    reopen: async () => redisStore({ client: (await connection()).client, prefix }),
    corrupt: async (key) => {
      const row = (await first.get(names.record(key))) ?? "";
      await first.set(names.record(key), row.replace("acme", "acne"));
    },
    dispose: async () => {
      await store.close();
      for (const one of opened) await one.end();
    },
  };
}
