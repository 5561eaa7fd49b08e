/** A three-step run that stops for good at one point, so that it can be killed there. */
import { nevertwice } from "nevertwice";
import { storeOf } from "./lib/stores.mjs";

const spec = JSON.parse(process.argv[2]);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

function pause(point) {
  if (spec.pauseAt !== point) return;
  say({ event: "paused", point });
  process.kill(process.pid, "SIGSTOP");
}

const nt = nevertwice({ store: storeOf(spec), sweep: false });
const effect = (step) => async (context) => {
  pause(`${step}: begun`);
  const response = await fetch(`${spec.provider}/effects`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": context.key },
    body: JSON.stringify({ id: `${spec.id}-${step}`, kind: "A", text: step }),
  });
  const answer = await response.json();
  pause(`${step}: answered`);
  return { step, id: answer.id };
};

const policy = { lease: spec.leaseMs, doubt: spec.doubt };
try {
  const result = await nt.run(
    "onboard",
    spec.id,
    async (run) => {
      pause("taken");
      const source = await run.step("source", effect("source"), policy);
      pause("source: done");
      const enrich = await run.step("enrich", effect("enrich"), policy);
      pause("enrich: done");
      const send = await run.step("send", effect("send"), policy);
      pause("send: done");
      return [source, enrich, send];
    },
    { lease: spec.leaseMs, wait: "20s" },
  );
  pause("ended");
  say({ event: "result", result });
} catch (error) {
  say({ event: "threw", code: error.code, message: error.message });
}
await nt.close();
say({ event: "end" });
