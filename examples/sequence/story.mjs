// A drip sequence for two subscribers, one of whom says stop. Days are 150 ms long here. node examples/sequence/story.mjs
import { nevertwice } from "nevertwice";

const DAY = 150;
const nt = nevertwice({ store: "memory:" });
const welcome = nt.sequence(
  "welcome",
  ["welcome", { step: "social_proof", after: 2 * DAY }, { step: "first_dollar", after: 3 * DAY }],
  { run: async ({ subject, step }) => console.log(`  ${step} → ${subject}`) },
);

const worker = nt.worker();
await worker.start();
console.log("Ann and Bob subscribe; Ann's form is sent twice.");
await welcome.start("ann", {});
await welcome.start("ann", {});
await welcome.start("bob", {});
const until = async (subject, wanted) => {
  while (!wanted((await welcome.status(subject)).steps.map(({ outcome }) => outcome.status))) {
    await new Promise((done) => setTimeout(done, 10));
  }
};
await until("bob", ([first]) => first === "done");
console.log("Bob says stop.");
await welcome.stop("bob", { by: "bob", reason: "unsubscribed" });
await until("ann", (steps) => steps.every((status) => status === "done"));
await until("bob", (steps) => steps.every((status) => status === "done" || status === "failed"));
console.log(`Ann: ${(await welcome.status("ann")).state}. Bob: ${(await welcome.status("bob")).state}.`);
console.log("Bob changes his mind.");
await welcome.restart("bob", { by: "bob", reason: "subscribed again" });
await until("bob", (steps) => steps.every((status) => status === "done"));
console.log(`Bob: ${(await welcome.status("bob")).state}.`);
await nt.close();
