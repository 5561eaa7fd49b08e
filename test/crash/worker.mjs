/**
 * A worker of the fleet: calls every intent it was given, several at once, again and again until all are settled as far
 * as their policy allows, and sweeps in between. It may be killed at any moment.
 */
import { nevertwice } from "nevertwice";
import { kindOf, makeActions } from "./lib/actions.mjs";
import { storeOf } from "./lib/stores.mjs";

const AT_ONCE = 6;
const MAX_PASSES = 500;

const spec = JSON.parse(process.argv[2]);
const nt = nevertwice({ store: storeOf(spec), sweep: false });
const actions = makeActions(nt, { ...spec, waitMs: 100 });

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

nt.on((event) => {
  if (event.type === "duplicate_detected") say({ event: "duplicate", key: event.key });
});

async function call(id) {
  try {
    const outcome = await actions[kindOf(id)].attempt({ id });
    if (outcome.status !== "done" && !(outcome.status === "unknown" && kindOf(id) === "C")) return false;
    say({ event: "outcome", id, outcome });
    return true;
  } catch (error) {
    say({ event: "threw", id, code: error.code, message: error.message });
    return false;
  }
}

async function pass(ids) {
  const open = [];
  const queue = [...ids];
  const lane = async () => {
    for (let id = queue.pop(); id !== undefined; id = queue.pop()) if (!(await call(id))) open.push(id);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return open;
}

let open = spec.ids;
await nt.store.read(["nt1_none"]);
say({ event: "opened" });
for (let passes = 0; open.length > 0 && passes < MAX_PASSES; passes += 1) {
  open = await pass(open);
  await nt.sweep();
}
await nt.close();
if (open.length === 0) say({ event: "settled" });
