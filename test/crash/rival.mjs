/**
 * One of many processes on one ledger: calls every intent of the list in an order of its own and counts those that it
 * ran itself. The effect is a line appended to a shared file, so that the parent can count it whoever had it.
 */

import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { nevertwice } from "nevertwice";
import { seeded } from "../support/effort.mjs";
import { storeOf } from "./lib/stores.mjs";

const spec = JSON.parse(process.argv[2]);
const nt = nevertwice({ store: storeOf(spec), sweep: false });
const action = nt.action("effect", {
  key: ["id"],
  wait: "60s",
  run: (input) => {
    appendFileSync(spec.effects, `${input.id}\n`);
    return { id: input.id };
  },
});

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function inMyOrder(ids) {
  const random = seeded(spec.me + 1);
  return ids.map((id) => ({ id, at: random() })).sort((a, b) => a.at - b.at);
}

async function call(id) {
  try {
    const outcome = await action.attempt({ id });
    if (outcome.status !== "done") say({ event: "odd", id, outcome });
    return outcome.status === "done" && !outcome.replayed ? 1 : 0;
  } catch (error) {
    say({ event: "threw", id, code: error.code, message: error.message });
    return 0;
  }
}

// With spec.open: already opened when the start is given; without: eight processes make the file at the same moment.
if (spec.open) await nt.store.read(["nt1_none"]);
say({ event: "ready" });
await once(process.stdin, "data");
process.stdin.destroy();

const queue = inMyOrder(Array.from({ length: spec.intents }, (_, i) => `i${i}`));
let ran = 0;
const lane = async () => {
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const mine = await call(next.id);
    ran += mine;
  }
};
await Promise.all(Array.from({ length: spec.atOnce }, lane));
await nt.close();
say({ event: "ran", ran });
