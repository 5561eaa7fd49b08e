/** Both drivers on one server, each client ended with its test. */
import { Redis } from "ioredis";
import { createClient } from "redis";
import { onTestFinished } from "vitest";
import type { RedisClient } from "../../src/stores/redis/index.ts";

export const REDIS_DRIVERS: Readonly<Record<string, (to: string) => Promise<RedisClient>>> = {
  ioredis: async (to) => {
    const client = new Redis(to);
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    return client;
  },
  "node-redis": async (to) => {
    const client = createClient({ url: to });
    client.on("error", () => {});
    await client.connect();
    onTestFinished(() => client.destroy());
    return client;
  },
};
