// node openworkflow.mjs <provider> <store | bare> <crash | resume> <postgres>: the same on OpenWorkflow.
import { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";
import { openWorkflowStep } from "../../../../dist/agents/durable.js";
import { mail, world } from "./mail-action.mjs";

const { deliver, action, how } = world(process.argv.slice(2));
const backend = await BackendPostgres.connect(process.argv[5]);
const ow = new OpenWorkflow({ backend });
const retryPolicy = { maximumAttempts: 2, initialInterval: "100ms" };
const workflow = ow.defineWorkflow({ name: "mailing", retryPolicy }, async ({ step, run }) =>
  step.run({ name: "send", retryPolicy }, () =>
    action === null ? deliver(mail) : openWorkflowStep(run)(action, mail),
  ),
);
const worker = ow.newWorker();
const handle = await workflow.run({}, { idempotencyKey: "w1" });
await worker.start();
const ended = await handle.result({ timeoutMs: 120_000 }).catch((error) => ({ message: String(error.message) }));
console.log(JSON.stringify(ended));
if (how === "resume") await worker.stop();
process.exit(0);
