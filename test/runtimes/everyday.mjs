// What a program does in a day, on the default store: a repeat, a doubt, a worker, a run of steps, a JSONL ledger. Prints what came of it.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { nevertwice } from "nevertwice";
import { charge, mail, nt } from "./actions.mjs";

const first = await mail.attempt({ to: "a@example.com" });
const repeat = await mail.attempt({ to: "a@example.com" });
const doubt = await charge.attempt({ order: 1 });
for (let i = 0; i < 10; i += 1) await mail.enqueue({ to: `worker-${i}@example.com` });
const worker = nt.worker();
await worker.drain();
await worker.stop();
const steps = () =>
  nt.run("onboard", 7, async (run) => {
    await run.step("welcome", () => appendFileSync("effects", "step\n"));
    return run.step("team", () => "told");
  });
const runs = [await steps(), await steps()];
// Left for `nevertwice worker`.
for (let i = 0; i < 5; i += 1) await mail.enqueue({ to: `command-${i}@example.com` });
await nt.close();

const file = nevertwice({ store: "file:ledger.jsonl", sweep: false });
const once = () => file.once("note", [1], () => appendFileSync("effects", "note\n"));
await once();
await once();
await file.close();

const effects = readFileSync("effects", "utf8").split("\n").filter(Boolean);
console.log(
  JSON.stringify({
    first: first.replayed,
    repeat: repeat.replayed,
    doubt: doubt.status,
    key: doubt.key,
    runs,
    effects: effects.length,
    ledger: existsSync(".nevertwice/ledger.db"),
  }),
);
