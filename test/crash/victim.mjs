/**
 * A program that runs guarded calls and may be killed anywhere. Its orders are one JSON argument; what happens to it is
 * said on stdout, one JSON value per line (a pipe is written synchronously: what was said before a kill is heard).
 *
 *   ids, ledger, provider, leaseMs, prepare …   what to call, see lib/actions.mjs
 *   together                                    all calls in one tick (the thread path), instead of one after another
 *   pauseAt: { point, id }                      stop there for good: prepare, marked, replied, confirmed, opened
 *   recover                                     be the program after the crash instead: a list of such orders
 */
import { nevertwice } from "nevertwice";
import { kindOf, makeActions } from "./lib/actions.mjs";
import { recover } from "./lib/recovery.mjs";
import { storeOf } from "./lib/stores.mjs";

const spec = JSON.parse(process.argv[2]);

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

async function pause(point, id) {
  const { pauseAt } = spec;
  if (pauseAt?.point !== point || (pauseAt.id !== undefined && pauseAt.id !== id)) return;
  say({ event: "paused", point, id });
  // Stopped, not waiting: no timer of ours may settle the attempt before a slow parent gets around to the kill.
  process.kill(process.pid, "SIGSTOP");
}

async function callAll() {
  const nt = nevertwice({ store: storeOf(spec), sweep: false });
  const actions = makeActions(nt, spec, pause);
  await nt.store.stats();
  say({ event: "opened" });
  await pause("opened");
  const call = async (id) => {
    try {
      say({ event: "outcome", id, outcome: await actions[kindOf(id)].attempt({ id }) });
    } catch (error) {
      say({ event: "threw", id, code: error.code, message: error.message });
    }
    await pause("confirmed", id);
  };
  if (spec.together) await Promise.all(spec.ids.map(call));
  else for (const id of spec.ids) await call(id);
  await nt.close();
}

async function recoverAll() {
  for (const order of spec.recover) {
    try {
      say({ event: "recovered", ledger: order.ledger, ...(await recover(order, pause)) });
    } catch (error) {
      say({ event: "lost", ledger: order.ledger, code: error.code, message: String(error.stack) });
    }
  }
}

await (spec.recover === undefined ? callAll() : recoverAll());
say({ event: "end" });
