// One side of the Redis benchmark in a process of its own, so that no side pays for another's heap, compiled code or
// async hooks. node bench/redis-side.mjs '{"url":…,"side":…,"callers":…,"total":…}'; the result goes to the parent.
import { Redis } from "ioredis";
import { nevertwice } from "nevertwice";
import { redisStore } from "nevertwice/redis";
import { createClient } from "redis";
import { handWrittenRedis } from "./hand-written-redis.mjs";
import { drive } from "./measure.mjs";

const effect = async () => ({ id: "msg_1" });

const SIDES = {
  "hand-written": (url) => handWrittenRedis(url, effect),
  powertools: async (url) => (await import("./peers/powertools.mjs")).openPowertools(url, effect),
  ioredis: (url) => {
    const client = new Redis(url);
    return guardedOver(client, () => client.disconnect());
  },
  "node-redis": async (url) => {
    const client = await createClient({ url }).connect();
    return guardedOver(client, () => client.destroy());
  },
};

function guardedOver(client, end) {
  const nt = nevertwice({ store: redisStore({ client, allowUnsafe: true }), sweep: false });
  const guarded = nt.action("bench", { key: ["id"], run: effect });
  const close = async () => {
    await nt.close();
    end();
  };
  return { once: (id) => guarded({ id }), close };
}

const { url, side, callers, total, warm, repeat = false } = JSON.parse(process.argv[2]);
const { once, close } = await SIDES[side](url);
// Until the code is compiled: what counts is a process that has been up for a while.
await drive({ total: warm, callers, call: (i) => once(`warm-${i}`) });
const cpu = process.cpuUsage();
// A repeat is measured where it is read from the server: by a process that did not see the first call.
const prefix = repeat ? "first" : `${process.pid}`;
const measured = await drive({ total, callers, call: (i) => once(`${prefix}-${i}`) });
const { user, system } = process.cpuUsage(cpu);
process.send({ ...measured, cpuMicros: (user + system) / total });
await close();
process.disconnect();
