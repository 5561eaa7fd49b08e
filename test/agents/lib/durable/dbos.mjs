// node dbos.mjs <provider> <store | bare> <crash | resume> <postgres>: one step that has an effect, on DBOS.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { dbosStep, isPointlessToRetry } from "../../../../dist/agents/durable.js";
import { mail, world } from "./mail-action.mjs";

const { deliver, action, how } = world(process.argv.slice(2));
const once = () => (action === null ? deliver(mail) : dbosStep(DBOS)(action, mail));
const step = {
  name: "send",
  retriesAllowed: true,
  intervalSeconds: 0.1,
  maxAttempts: 3,
  shouldRetry: (error) => !isPointlessToRetry(error),
};
const workflow = DBOS.registerWorkflow(() => DBOS.runStep(once, step), { name: "mailing" });

DBOS.setConfig({ name: "nevertwice-test", systemDatabaseUrl: process.argv[5], logLevel: "error" });
await DBOS.launch();
const handle =
  how === "crash" ? await DBOS.startWorkflow(workflow, { workflowID: "w1" })() : DBOS.retrieveWorkflow("w1");
const ended = await handle.getResult().catch((error) => ({ code: error.code, message: error.message }));
console.log(JSON.stringify(ended));
await DBOS.shutdown();
process.exit(0);
