/** The agent as a process: picks what is still to do, waits for the word, sends. Started twice, it is two crons. */
import { leaveWithTheStory, settings } from "./processes.mjs";
import { openLedger, withNevertwice } from "./with.mjs";
import { withoutNevertwice } from "./without.mjs";

const [mode, action] = process.argv.slice(2);
const { place, name, leads } = settings();
const tell = (who, text, colour) => process.send({ type: "say", who, text, colour });

function openSender() {
  return mode === "with" ? withNevertwice(openLedger(place, tell), action) : withoutNevertwice(place);
}

async function work() {
  const sender = openSender();
  const todo = sender.pending(leads);
  process.send({ type: "ready", todo: todo.length });
  await new Promise((resolve) => process.once("message", resolve));
  for (const lead of todo) tell(`${name} ${process.pid}`, `${lead.to}: ${await sender.send(lead)}`);
  await sender.close();
  process.send({ type: "finished" }, () => process.disconnect());
}

leaveWithTheStory();
await work();
