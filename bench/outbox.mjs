// The outbox against graphile-worker and pg-boss: enqueue, drain, latency, on one private server, in one run.
import { performance } from "node:perf_hooks";
import { nevertwice } from "nevertwice";
import pg from "pg";
import { startAll } from "../scripts/services/start-all.mjs";
import { drive, median, middle } from "./measure.mjs";
import { inDatabase } from "./own-database.mjs";
import { graphile } from "./peers/graphile.mjs";
import { pgBoss } from "./peers/pg-boss.mjs";

const ROUNDS = 3;
// Drains are short, and the machine's moods longer: the ratio is the median of so many pairs' own.
const PAIRS = 9;
const CALLERS = 256;
const CONNECTIONS = 32;
const CONCURRENCY = 512;

export async function sections({ quick }) {
  const { addresses, close } = await startAll(["postgres"]);
  try {
    const url = addresses.NEVERTWICE_TEST_POSTGRES;
    const runs = [];
    for (let round = 0; round < ROUNDS; round += 1)
      runs.push(await inDatabase(url, (own) => oneRound(own, quick ? 4_000 : 20_000)));
    const pairs = [];
    for (let pair = 0; pair < PAIRS; pair += 1)
      pairs.push(await inDatabase(url, (own) => drains(own, quick ? 4_000 : 20_000)));
    const latencies = await inDatabase(url, (own) => latency(own, quick ? 100 : 400));
    return [
      { title: "outbox on PostgreSQL, enqueue", rows: rowsOf(runs, ENQUEUE) },
      { title: "outbox on PostgreSQL, drain of a no-op", rows: [...pairRows(pairs), ...rowsOf(runs, DRAIN)] },
      { title: "enqueue to start, idle worker (round trips a second)", rows: latencies },
    ];
  } finally {
    await close();
  }
}

const GRAPHILE = { enqueue: "graphile-worker addJob, 256 callers", drain: "graphile-worker, local queue" };
const BOSS = {
  enqueue: "pg-boss send, 256 callers",
  drain: "pg-boss, work() of 2 × 256 every 0.5 s",
  byHand: "pg-boss by hand, fetch and complete in batches of 256",
};
const OURS = {
  enqueue: "nevertwice enqueue, 256 callers",
  many: "nevertwice enqueueMany",
  drain: "nevertwice worker",
  again: "nevertwice worker, right after pg-boss",
  held: "nevertwice worker, a snapshot held open all along (F47)",
};
const ENQUEUE = [
  [GRAPHILE.enqueue, null, null],
  [OURS.enqueue, GRAPHILE.enqueue, 8],
  [OURS.many, GRAPHILE.enqueue, null],
  [BOSS.enqueue, null, null],
];
const DRAIN = [
  [BOSS.drain, null, null],
  [OURS.again, BOSS.drain, 3],
  [BOSS.byHand, null, null],
  [OURS.held, OURS.again, 0.5],
];

function rowsOf(runs, wanted) {
  const results = Object.fromEntries(Object.keys(runs[0]).map((name) => [name, median(runs.map((run) => run[name]))]));
  return wanted.map(([name, base, target]) => {
    const { rate, loop } = results[name];
    return { name, rate, loop, ratio: base === null ? null : rate / results[base].rate, target };
  });
}

/** One side after the other, as often as there are pairs: each meets the same mood of the machine. */
async function drains(url, total) {
  const warm = Math.min(2_000, total / 2);
  const names = (prefix, count) => Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
  const peer = await graphile(url, { connections: CONNECTIONS, concurrency: CONCURRENCY });
  await peer.enqueueMany(names("warm", warm));
  await peer.drain(warm);
  await peer.enqueueMany(names("job", total));
  const theirs = await rateOf(total, () => peer.drain(total));
  await peer.close();
  const own = await outbox(url);
  await own.enqueueMany("warm", warm);
  await own.drain();
  await own.enqueueMany("job", total);
  const ours = await rateOf(total, own.drain);
  await own.close();
  return { theirs, ours };
}

function pairRows(pairs) {
  return [
    { name: GRAPHILE.drain, rate: middle(pairs.map(({ theirs }) => theirs)), ratio: null, target: null },
    {
      name: OURS.drain,
      rate: middle(pairs.map(({ ours }) => ours)),
      ratio: middle(pairs.map(({ theirs, ours }) => ours / theirs)),
      target: 1,
    },
  ];
}

async function rateOf(count, work) {
  const startedAt = performance.now();
  await work();
  return count / ((performance.now() - startedAt) / 1_000);
}

async function oneRound(url, total) {
  const results = {};
  const timed = async (name, count, work) => {
    results[name] = { rate: await rateOf(count, work) };
  };
  // Single calls of the peers are slow: a tenth of them tells their rate, and the rest is filled up in bulk.
  const calls = total / 10;
  const rest = (prefix, count) => Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
  const peer = await graphile(url, { connections: CONNECTIONS, concurrency: CONCURRENCY });
  await peer.enqueueMany(rest("warm", calls));
  await peer.drain(calls);
  results[GRAPHILE.enqueue] = await drive({ total: calls, callers: CALLERS, call: peer.enqueue });
  await peer.close();

  const ours = await outbox(url);
  await ours.enqueueMany("warm", calls);
  await ours.drain();
  results[OURS.enqueue] = await drive({ total, callers: CALLERS, call: ours.enqueue });
  await ours.drain();

  const boss = await pgBoss(url, { connections: CONNECTIONS, batch: CONCURRENCY / 2 });
  results[BOSS.enqueue] = await drive({ total: calls, callers: CALLERS, call: boss.enqueue });
  await timed(BOSS.drain, calls, () => boss.drain(calls));
  await boss.enqueueMany(rest("rest", total));
  await timed(BOSS.byHand, total, () => boss.drainByHand(total));
  await boss.close();

  await timed(OURS.many, total, () => ours.enqueueMany("many", total));
  await timed(OURS.again, total, ours.drain);
  await holdingSnapshot(url, async () => {
    // What a starved vacuum leaves behind first, then the measure.
    for (const round of ["left", "held"]) {
      await ours.enqueueMany(round, total);
      await timed(OURS.held, total, ours.drain);
    }
  });
  await ours.close();
  return results;
}

async function holdingSnapshot(connectionString, work) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("SELECT count(*) FROM nevertwice.records");
  try {
    await work();
  } finally {
    await client.query("ROLLBACK");
    await client.end();
  }
}

async function outbox(url) {
  const nt = nevertwice({ store: url, sweep: false });
  const bench = nt.action("bench", { key: ["id"], run: async () => {} });
  const worker = nt.worker({ concurrency: CONCURRENCY });
  return {
    enqueue: (i) => bench.enqueue({ id: `job-${i}` }),
    enqueueMany: (prefix, total) =>
      bench.enqueueMany(Array.from({ length: total }, (_, i) => ({ id: `${prefix}-${i}` }))),
    drain: () => worker.drain(),
    close: () => nt.close(),
  };
}

/** From the call of enqueue to the first line of the action, with a worker that has nothing to do, against a bare LISTEN/NOTIFY round trip. */
async function latency(url, times) {
  const sender = nevertwice({ store: url, sweep: false });
  const receiver = nevertwice({ store: url, sweep: false });
  let begun;
  const ring = { key: ["id"], run: async () => begun?.(performance.now()) };
  const send = sender.action("ring", ring);
  receiver.action("ring", ring);
  await receiver.worker({ poll: "5s" }).start();
  const ours = await samples(times, async (i) => {
    const started = new Promise((resolve) => {
      begun = resolve;
    });
    await send.enqueue({ id: i });
    return started;
  });
  await sender.close();
  await receiver.close();
  const [talker, listener] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
  await Promise.all([talker.connect(), listener.connect()]);
  await listener.query("LISTEN bench");
  const bare = await samples(times, async (i) => {
    const heard = new Promise((resolve) => listener.once("notification", () => resolve(performance.now())));
    await talker.query("SELECT pg_notify('bench', $1)", [String(i)]);
    return heard;
  });
  await Promise.all([talker.end(), listener.end()]);
  const row = (name, ms, base, target) => ({
    name: `${name}: p50 ${ms.p50.toFixed(1)} ms, p99 ${ms.p99.toFixed(1)} ms`,
    rate: 1_000 / ms.p50,
    ratio: base === null ? null : base.p50 / ms.p50,
    target,
  });
  return [row("bare LISTEN/NOTIFY", bare, null, null), row("nevertwice", ours, bare, 0.2)];
}

async function samples(times, one) {
  const ms = [];
  for (let i = 0; i < times; i += 1) {
    const startedAt = performance.now();
    ms.push((await one(i)) - startedAt);
    // The worker has to find its rest again.
    await new Promise((done) => setTimeout(done, 30));
  }
  ms.sort((a, b) => a - b);
  return { p50: ms[Math.floor(ms.length / 2)], p99: ms[Math.floor(ms.length * 0.99)] };
}
