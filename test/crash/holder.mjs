/**
 * A holder of one intent whose clock, event loop or lease is interfered with. What to do comes as one JSON argument:
 *
 *   stopAt       SIGSTOP itself there: prepare, marked (the send mark is written, nothing is sent), replied
 *   stall        block the event loop for stallMs at this point: prepare, before-sent, during-sent (mark: "manual")
 *   quietForMs   doubts are settled by asking the provider, after this much quiet
 *   sweeps       do not call: sweep this many times, with a pause, and say what became of the record
 *   obeys        the request is cut when ctx.signal says so
 */
import { nevertwice } from "nevertwice";
import { storeAt } from "./lib/store-at.mjs";

const spec = JSON.parse(process.argv[2]);
const nt = nevertwice({ store: storeAt(spec.ledger), sweep: false });

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

let stalled = false;

function stall(point) {
  if (spec.stall !== point || stalled) return;
  stalled = true;
  const until = performance.now() + spec.stallMs;
  while (performance.now() < until);
}

/** Stopped here until somebody sends SIGCONT. */
function stop(point) {
  if (spec.stopAt !== point) return;
  say({ event: "paused", point });
  process.kill(process.pid, "SIGSTOP");
}

async function send(input, context) {
  say({ event: "sending", wall: Date.now() });
  const response = await fetch(`${spec.provider}/effects`, {
    method: "POST",
    body: JSON.stringify({ id: input.id, kind: spec.kind ?? "C" }),
    headers: { "idempotency-key": context.key },
    ...(spec.obeys && { signal: context.signal }),
  });
  return response.json();
}

function doubtOf({ kind, quietForMs }) {
  if (kind === "A") return { resendWithin: "1h" };
  return quietForMs === undefined ? "hold" : { quietFor: quietForMs, probe };
}

async function probe(input) {
  say({ event: "probed" });
  const { count } = await (await fetch(`${spec.provider}/effects?id=${input.id}`)).json();
  return count > 0 ? { as: "done", result: { id: `${input.id}#${count}` } } : "not-done";
}

const action = nt.action("effect", {
  key: ["id"],
  lease: spec.leaseMs,
  timeout: spec.timeoutMs ?? Math.floor(spec.leaseMs * 0.8),
  wait: spec.waitMs ?? 0,
  retry: { attempts: 1 },
  // A wall clock years ahead would find a settled record past its keep, and rightly run it again.
  keep: "forever",
  doubt: doubtOf(spec),
  ...(spec.manual && { mark: "manual" }),
  ...(spec.prepare && {
    prepare: () => {
      stall("prepare");
      stop("prepare");
    },
  }),
  run: async (input, context) => {
    context.signal.addEventListener("abort", () => say({ event: "aborted", reason: nameOf(context.signal.reason) }));
    if (spec.manual) await markByHand(context);
    stop("marked");
    const result = await send(input, context);
    stop("replied");
    return result;
  },
});

async function markByHand(context) {
  stall("before-sent");
  const marked = context.sent();
  marked.catch(() => {}); // awaited below, perhaps after it was refused
  // The marks of the crowd are on their way to the thread when the loop stands still: they become durable, and then old.
  if (spec.stall === "during-sent") await new Promise((soon) => setImmediate(soon));
  stall("during-sent");
  await marked;
}

/** Our own errors by their code, a DOMException by its name. */
function nameOf(reason) {
  return typeof reason.code === "string" ? reason.code : reason.name;
}

nt.on((event) => say({ event: "nt", type: event.type }));

async function sweepAndLook() {
  for (let sweep = 0; sweep < spec.sweeps; sweep += 1) {
    await nt.sweep();
    await new Promise((done) => setTimeout(done, spec.everyMs ?? 50));
  }
  say({ event: "status", outcome: await action.status({ id: spec.id }), wall: Date.now() });
}

async function call(id) {
  try {
    say({ event: "outcome", outcome: await action.attempt({ id }), wall: Date.now() });
  } catch (error) {
    say({ event: "threw", code: error.code, message: error.message });
  }
}

// A crowd shares one commit, and that of more than a few is made by the store's thread.
const crowd = Array.from({ length: spec.crowd ?? 0 }, (_, i) => `${spec.id}-${i}`);
await (spec.sweeps === undefined ? Promise.all([spec.id, ...crowd].map(call)) : sweepAndLook());
// A late answer of the effect is still welcome: it is waited for before the ledger is closed.
if (spec.lingerMs !== undefined) await new Promise((done) => setTimeout(done, spec.lingerMs));
await nt.close();
say({ event: "end" });
