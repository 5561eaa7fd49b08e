// Guarded calls on the embedded store against hand-written SQL on the same driver, the same durability, in one run.
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { handWritten } from "./hand-written.mjs";
import { drive, inFolder, inTurns, overRounds } from "./measure.mjs";

const ROUNDS = 3;
const effect = async () => ({ id: "msg_1" });

export async function sections({ quick }) {
  return [{ title: "SQLite, WAL, synchronous=FULL", rows: await rows(quick ? 2_000 : 10_000) }];
}

async function rows(total) {
  const runs = [];
  for (let round = 0; round < ROUNDS; round += 1) runs.push(await inFolder((folder) => oneRound(folder, total)));
  const names = Object.keys(runs[0]);
  const results = Object.fromEntries(names.map((name) => [name, overRounds(runs.map((run) => run[name]))]));
  const row = (name, base = null, target = null) => {
    const { rate, loop, ratio = rate / results[base]?.rate } = results[name];
    return { name, rate, loop, ratio: base === null ? null : ratio, target };
  };
  return [
    row("hand-written, 1 caller"),
    row("nevertwice, 1 caller", "hand-written, 1 caller", 0.8),
    row("hand-written, 256 callers"),
    row("nevertwice, 256 callers", "hand-written, 256 callers", 8),
    row("repeat, same process, 256 callers", "hand-written, 256 callers", 20),
    row("repeat, from the file, 256 callers", "hand-written, 256 callers"),
  ];
}

async function oneRound(folder, total) {
  const hand = handWritten(join(folder, "hand.db"));
  const path = `sqlite:${join(folder, "ledger.db")}`;
  const nt = nevertwice({ store: path, sweep: false });
  const guarded = nt.action("bench", { key: ["id"], run: effect });
  const results = {};
  // Warm-up: both sides get their code compiled before anything counts. Both ledgers then hold the same number of rows.
  await drive({ total: total / 2, callers: 256, call: (i) => hand.once(`warm-${i}`, effect) });
  await drive({ total: total / 2, callers: 256, call: (i) => guarded({ id: `warm-${i}` }) });

  const both = (callers, prefix) =>
    inTurns(total, callers, [(i) => hand.once(`${prefix}-${i}`, effect), (i) => guarded({ id: `${prefix}-${i}` })]);
  [results["hand-written, 1 caller"], results["nevertwice, 1 caller"]] = await both(1, "one");
  [results["hand-written, 256 callers"], results["nevertwice, 256 callers"]] = await both(256, "many");
  results["repeat, same process, 256 callers"] = await drive({
    total: total * 4,
    callers: 256,
    call: (i) => guarded({ id: `many-${i % 500}` }),
  });
  hand.close();
  await nt.close();
  // Another instance has nothing in memory: every repeat is read from the file.
  const other = nevertwice({ store: path, sweep: false });
  const again = other.action("bench", { key: ["id"], run: effect });
  results["repeat, from the file, 256 callers"] = await drive({
    total,
    callers: 256,
    call: (i) => again({ id: `many-${i}` }),
  });
  await other.close();
  return results;
}
