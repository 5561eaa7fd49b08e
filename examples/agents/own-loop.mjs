// npm install nevertwice
// A loop of your own: the same call again in one trace gets the first answer.
import { nevertwice } from "nevertwice";
import { toolMemory } from "nevertwice/agents";

const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
// errors: an error of these tools means that nothing was done. Leave it out where one may come after the effect.
const memory = toolMemory({ nt, scope: "run-1", errors: "not-done", repeats: { roll_dice: 1 } });
let [mails, rolls] = [0, 0];
const tools = { send_mail: () => `mail_${++mails}`, roll_dice: () => `roll ${++rolls}` };

const trace = [
  ["send_mail", { to: "ada" }],
  ["send_mail", { to: "ada" }], // the model repeats itself
  ["roll_dice", {}],
  ["roll_dice", {}], // allowed once more
  ["roll_dice", {}],
];
for (const [name, args] of trace) {
  const answer = await memory.call(name, args, () => tools[name](args));
  console.log(answer.kind === "result" ? answer.result : answer.text);
  // → mail_1
  // → mail_1
  // → roll 1
  // → roll 2
  // → roll 2
}
await nt.close();
