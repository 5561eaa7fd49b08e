/** A script that uses the ledger and ends without close() exits by itself, on every store. */
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { cleanUp, startProgram, temporaryFolder } from "../crash/lib/processes.mjs";
import { flushableRedisDb, freshDatabase, freshPrefix, redisClusterNodes } from "../services/addresses.ts";
import { startS3 } from "../support/s3-server.ts";

const SCRIPT = new URL("./one-call.mjs", import.meta.url).pathname;

afterAll(cleanUp);

const cluster = () => {
  const [node] = redisClusterNodes();
  return `redis://${node?.host}:${node?.port}?prefix=${freshPrefix().slice(0, -1)}`;
};
const redis = async () => `${await flushableRedisDb()}?prefix=${freshPrefix().slice(0, -1)}`;

const stores: Record<string, () => Promise<object> | object> = {
  memory: () => ({ store: "memory:" }),
  SQLite: () => ({ store: `sqlite:${temporaryFolder()}/ledger.db` }),
  "JSONL file": () => ({ store: `file:${temporaryFolder()}/ledger.jsonl` }),
  S3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    return { store: `${server.url}?region=eu&endpoint=${encodeURIComponent(server.endpoint)}` };
  },
  "PostgreSQL (pg)": async () => ({ store: (await freshDatabase()).url }),
  "Redis (ioredis)": async () => ({ store: await redis() }),
  "Redis (node-redis)": async () => ({ store: await redis(), without: "ioredis" }),
  "Redis Cluster (ioredis)": () => ({ store: cluster() }),
  "Redis Cluster (node-redis)": () => ({ store: cluster(), without: "ioredis" }),
};

describe.each(Object.keys(stores))("a script on %s that ends without close()", (name) => {
  // Queues are held where nobody answers, which a cluster cannot promise.
  const tasks = name.includes("Cluster") ? [] : ["task"];

  it.each(["call", "crowd", "wait", "drain", ...tasks])("exits by itself after: %s", async (does) => {
    const spec = await (stores[name] as () => Promise<object> | object)();
    const env = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
    const script = startProgram(SCRIPT, { ...spec, does }, { env });
    await script.event("over");
    expect(await script.exited).toMatchObject({ code: 0, signal: null });
  });
});
