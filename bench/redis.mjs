// Guarded calls on Redis against SET NX by hand and against AWS Powertools: one server, the same settings for all.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { openKeep } from "../scripts/services/keep.mjs";
import { ensurePrograms, redisServer } from "../scripts/services/programs.mjs";
import { DURABLE, EVERY_SECOND, startRedis } from "../scripts/services/redis.mjs";
import { median, middle } from "./measure.mjs";

const ROUNDS = 5;
const SIDE = fileURLToPath(new URL("./redis-side.mjs", import.meta.url));

export async function sections({ quick }) {
  ensurePrograms([redisServer]);
  return [
    { title: "Redis, appendfsync always", rows: await onServer(DURABLE, quick) },
    { title: "Redis, appendfsync everysec", rows: await onServer(EVERY_SECOND, quick) },
  ];
}

async function onServer(settings, quick) {
  const keep = await openKeep();
  try {
    return await rows(await startRedis(keep, { settings }), quick);
  } finally {
    await keep.close();
  }
}

async function rows(server, quick) {
  const many = { callers: 256, total: quick ? 10_000 : 40_000, warm: 10_000 };
  const one = { callers: 1, total: quick ? 1_000 : 4_000, warm: 1_000 };
  const sides = {
    "hand-written, 1 caller": { side: "hand-written", ...one },
    "nevertwice, 1 caller": { side: "ioredis", ...one },
    "hand-written, 256 callers": { side: "hand-written", ...many },
    "nevertwice, 256 callers, ioredis": { side: "ioredis", ...many },
    "Powertools, 256 callers": { side: "powertools", ...many },
    "nevertwice, 256 callers, node-redis": { side: "node-redis", ...many },
  };
  const runs = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  // Round by round, so that a busy moment of the machine meets every side.
  for (let round = 0; round < (quick ? 3 : ROUNDS); round += 1) {
    for (const [name, order] of Object.entries(sides)) {
      await server.call("FLUSHALL");
      runs[name].push(await alone({ url: server.url, ...order }));
    }
  }
  const row = (name, base, target) => ({
    name,
    ...median(runs[name]),
    // Of each round by itself: what else the machine does meanwhile meets neighbours alike.
    ratio: base === null ? null : middle(runs[name].map(({ rate }, round) => rate / runs[base][round].rate)),
    target,
  });
  return [
    row("hand-written, 1 caller", null, null),
    row("nevertwice, 1 caller", "hand-written, 1 caller", null),
    row("Powertools, 256 callers", null, null),
    row("hand-written, 256 callers", "Powertools, 256 callers", null),
    row("nevertwice, 256 callers, ioredis", "Powertools, 256 callers", 1.2),
    row("nevertwice, 256 callers, node-redis", "Powertools, 256 callers", 1.2),
  ];
}

function alone(order) {
  const child = fork(SIDE, [JSON.stringify(order)]);
  return new Promise((resolve, reject) => {
    let result;
    child.once("message", (message) => {
      result = message;
    });
    child.once("error", reject);
    child.once("exit", (code) =>
      code === 0 && result ? resolve(result) : reject(new Error(`${order.side} ended with ${code}`)),
    );
  });
}
