import { FatalError, getWorkflowMetadata } from "workflow";
import { vercelStep } from "../../../../dist/agents/durable.js";

export async function mailing(url) {
  "use workflow";
  return await send(url);
}

async function send(url) {
  "use step";
  const mail = { to: "ada", body: "Hello" };
  // Set by run.mjs: steps are bundled, the ledger is not.
  const { deliver, action } = globalThis.world;
  if (action === null) return await deliver(url, mail);
  return await vercelStep(getWorkflowMetadata(), { FatalError })(action, mail);
}
