// Guarded calls on PostgreSQL against SQL written by hand and a DBOS step, on one private server, in one run.
import { nevertwice } from "nevertwice";
import { startAll } from "../scripts/services/start-all.mjs";
import { coalescedLoop, handWritten } from "./hand-written-postgres.mjs";
import { drive, inTurns, overRounds } from "./measure.mjs";
import { ask, inDatabase } from "./own-database.mjs";
import { dbosStep } from "./peers/dbos.mjs";

const ROUNDS = 3;
const CONNECTIONS = 32;
// As many as ours gathers, and as many under way: what is left between the two is our engine and our wider row.
const COALESCED = { rows: 128, connections: 3 };
const effect = async () => ({ id: "msg_1" });

export async function sections({ quick }) {
  const { addresses, close } = await startAll(["postgres"]);
  try {
    const url = addresses.NEVERTWICE_TEST_POSTGRES;
    return [{ title: await titleOf(url), rows: await rows(url, quick ? 2_000 : 10_000) }];
  } finally {
    await close();
  }
}

async function titleOf(url) {
  const server = "concat('PostgreSQL ', split_part(current_setting('server_version'), ' ', 1))";
  return `${(await ask(url, `SELECT ${server} AS name`))[0].name}, synchronous_commit=on`;
}

async function rows(url, total) {
  const runs = [];
  for (let round = 0; round < ROUNDS; round += 1) runs.push(await inDatabase(url, (own) => oneRound(own, total)));
  const results = Object.fromEntries(
    Object.keys(runs[0]).map((name) => [name, overRounds(runs.map((results) => results[name]))]),
  );
  const row = (name, base = null, target = null) => {
    const { rate, loop, cpuMicros, ratio = rate / results[base]?.rate } = results[name];
    return { name, rate, loop, cpuMicros, ratio: base === null ? null : ratio, target };
  };
  return [
    row(ONE.hand),
    row(ONE.ours, ONE.hand, 0.9),
    row(ONE.look),
    row(ONE.repeat, ONE.look),
    row(MANY.hand),
    row(MANY.ours, MANY.hand, 6),
    row(MANY.repeat, MANY.hand),
    row(MANY.memory, MANY.hand),
    row(MANY.loop),
    row(MANY.oursAgain, MANY.loop, 0.7),
    row(PEER.dbos),
    row(PEER.ours, PEER.dbos, 20),
  ];
}

const ONE = {
  hand: "hand-written, 1 caller",
  ours: "nevertwice, 1 caller",
  look: "bare SELECT by key, 1 caller",
  repeat: "repeat from the ledger, 1 caller",
};
const MANY = {
  hand: `hand-written, ${CONNECTIONS} connections, 256 callers`,
  ours: "nevertwice, 256 callers",
  repeat: "repeat from the ledger, 256 callers",
  memory: "repeat, same process, 256 callers",
  loop: "bare coalesced SQL, no engine, 256 callers",
  oursAgain: "nevertwice, 256 callers, in turns with it",
};
const PEER = { dbos: "DBOS step, 32 callers", ours: "nevertwice, 32 callers" };

async function oneRound(url, total) {
  const results = {};
  const hand = await handWritten(url, { connections: CONNECTIONS });
  const loop = await coalescedLoop(url, COALESCED);
  const nt = nevertwice({ store: url, sweep: false });
  const guarded = nt.action("bench", { key: ["id"], run: effect });
  const measure = async (name, callers, calls, call) => {
    results[name] = await drive({ total: calls, callers, call });
  };
  // Warm-up: all sides get their connections and their code before anything counts.
  await drive({ total: total / 2, callers: 256, call: (i) => hand.once(`warm-${i}`, effect) });
  await drive({ total: total / 2, callers: 256, call: (i) => guarded({ id: `warm-${i}` }) });
  await drive({ total: total / 2, callers: 256, call: (i) => loop.once(`loop-warm-${i}`, effect) });

  // A lone caller's statements are others than a crowd's.
  await drive({ total: total / 10, callers: 1, call: (i) => hand.once(`lone-${i}`, effect) });
  await drive({ total: total / 10, callers: 1, call: (i) => guarded({ id: `lone-${i}` }) });
  [results[ONE.hand], results[ONE.ours]] = await inTurns(total / 2, 1, [
    (i) => hand.once(`one-${i}`, effect),
    (i) => guarded({ id: `one-${i}` }),
  ]);
  [results[MANY.hand], results[MANY.ours]] = await inTurns(2 * total, 256, [
    (i) => hand.once(`many-${i}`, effect),
    (i) => guarded({ id: `many-${i}` }),
  ]);
  [results[MANY.loop], results[MANY.oursAgain]] = await inTurns(2 * total, 256, [
    (i) => loop.once(`loop-${i}`, effect),
    (i) => guarded({ id: `again-${i}` }),
  ]);
  await measure(MANY.memory, 256, 4 * total, (i) => guarded({ id: `many-${i % 500}` }));
  await measure(PEER.ours, 32, total, (i) => guarded({ id: `peer-${i}` }));
  await nt.close();
  await loop.close();

  // Another process has nothing in memory: every repeat is read from the ledger, in one round trip.
  const other = nevertwice({ store: url, sweep: false });
  const again = other.action("bench", { key: ["id"], run: effect });
  await drive({ total: total / 4, callers: 1, call: (i) => again({ id: `again-${i}` }) });
  await drive({ total: total / 4, callers: 1, call: (i) => hand.look(`warm-${i}`) });
  [results[ONE.look], results[ONE.repeat]] = await inTurns(total / 4, 1, [
    (i) => hand.look(`many-${i}`),
    (i) => again({ id: `one-${i}` }),
  ]);
  await measure(MANY.repeat, 256, total, (i) => again({ id: `many-${i}` }));
  await other.close();
  await hand.close();

  const dbos = await dbosStep(url, { connections: CONNECTIONS, run: effect });
  await drive({ total: total / 20, callers: 32, call: (i) => dbos.once(`warm-${i}`) });
  await measure(PEER.dbos, 32, total / 10, (i) => dbos.once(`peer-${i}`));
  await dbos.close();
  return results;
}
