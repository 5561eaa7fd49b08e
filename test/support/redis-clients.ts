/** The four clients the Redis store takes, connected to this run's servers. */
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import type { RedisClient } from "../../src/stores/redis/index.ts";
import { redisClusterNodes } from "../services/addresses.ts";

export interface OpenedClient {
  readonly client: RedisClient;
  set(key: string, value: string): Promise<unknown>;
  get(key: string): Promise<string | null>;
  end(): Promise<unknown> | unknown;
}

export type ConnectClient = (url: string) => Promise<OpenedClient>;

/** Those of one server take its URL; those of the cluster know where it is. */
export const REDIS_CLIENTS: Readonly<Record<string, ConnectClient>> = {
  "ioredis, one server": async (url) => ofIoRedis(new Redis(url)),
  "ioredis, cluster": async () => ofIoRedis(new Cluster(redisClusterNodes())),
  "node-redis, one server": async (url) => {
    const client = createClient({ url });
    client.on("error", () => {});
    await client.connect();
    return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.destroy() };
  },
  "node-redis, cluster": async () => {
    const rootNodes = redisClusterNodes().map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
    const client = createCluster({ rootNodes });
    client.on("error", () => {});
    await client.connect();
    return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.destroy() };
  },
};

function ofIoRedis(client: Redis | Cluster): OpenedClient {
  client.on("error", () => {});
  return { client, set: (k, v) => client.set(k, v), get: (k) => client.get(k), end: () => client.disconnect() };
}
