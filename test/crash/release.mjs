/**
 * A process of one of three releases of a program: before a key was changed ("old"), with `formerly` ("new"), and after
 * `formerly` was taken out again ("later"). It calls or enqueues every intent of its list until all are settled or held. It may
 * be killed at any moment. The effect is a line appended to a shared file, so that the parent can count it whoever had it.
 */
import { appendFileSync } from "node:fs";
import { email, nevertwice } from "nevertwice";
import { storeAt } from "./lib/store-at.mjs";

const spec = JSON.parse(process.argv[2]);
const KEYS = {
  old: { key: ["to", "lead"] },
  new: { key: { lead: true, to: email }, formerly: { key: ["to", "lead"] } },
  later: { key: { lead: true, to: email } },
};
const AT_ONCE = 4;
const MAX_PASSES = 400;

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

const nt = nevertwice({ store: storeAt(spec.ledger), sweep: false, onWarning: () => {} });
const send = nt.action("send", {
  ...KEYS[spec.release],
  lease: "500ms",
  timeout: "400ms",
  wait: "100ms",
  run: async ({ lead }) => {
    await new Promise((done) => setTimeout(done, Math.random() * 5));
    appendFileSync(spec.effects, `${lead}\n`);
    await new Promise((done) => setTimeout(done, Math.random() * 5));
    return { lead };
  },
});
nt.on((event) => {
  if (event.type === "duplicate_detected") say({ event: "duplicate", key: event.key });
});

const isQueued = (lead) => Number(lead.split("-").at(-1)) % 3 === 0;

/** True: done, or held for a person. */
async function settle(lead) {
  const intent = { lead, to: "ann@example.com" };
  try {
    if (isQueued(lead)) await send.enqueue(intent);
    const { status } = isQueued(lead) ? await send.status(intent) : await send.attempt(intent);
    return status === "done" || status === "unknown";
  } catch (error) {
    say({ event: "threw", lead, code: error.code, message: error.message });
    return false;
  }
}

async function pass(leads) {
  const open = [];
  const queue = [...leads];
  const lane = async () => {
    for (let lead = queue.pop(); lead !== undefined; lead = queue.pop()) if (!(await settle(lead))) open.push(lead);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  await nt.worker().drain();
  await nt.sweep();
  return open;
}

await nt.store.read(["nt1_none"]);
say({ event: "opened" });
let open = spec.leads;
for (let passes = 0; open.length > 0 && passes < MAX_PASSES; passes += 1) open = await pass(open);
await nt.close();
say({ event: open.length === 0 ? "settled" : "gave-up", open });
