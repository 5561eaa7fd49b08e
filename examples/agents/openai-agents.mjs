// npm install nevertwice @openai/agents zod
import { Agent, run, tool as sdkTool, setTracingDisabled } from "@openai/agents";
import { nevertwice } from "nevertwice";
import { guardOpenAiTools } from "nevertwice/agents/openai-agents";
import { z } from "zod";
import { scriptedModel } from "./models/openai.mjs";

setTracingDisabled(true);
const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
const refunds = [];

// Used like the SDK's own tool(); what it makes is guarded.
// errors: an error of this tool means that nothing was done. Leave it out where one may come after the effect.
const tool = guardOpenAiTools(nt, sdkTool, {
  scope: ({ runContext }) => runContext.context.ticket,
  tools: { refund: { key: ["order"], errors: "not-done" } },
});

const refund = tool({
  name: "refund",
  description: "Pays an order back",
  parameters: z.object({ order: z.string(), cents: z.number() }),
  execute: async (input) => `refund_${refunds.push(input)}`,
});

// The model asks twice, the second time with another amount.
const model = scriptedModel([[["refund", { order: "A-1", cents: 900 }]], [["refund", { order: "A-1", cents: 950 }]]]);
const agent = new Agent({ name: "support", instructions: "Help.", model, tools: [refund] });
const result = await run(agent, "My order broke.", { context: { ticket: "T-9" } });

const answers = result.newItems.filter(({ type }) => type === "tool_call_output_item").map(({ output }) => output);
console.log(answers[0]); // → refund_1
console.log(answers[1].slice(0, 88)); // → Refused, and nothing was done: refund was already called for this with another cents. Th
console.log(refunds.length); // → 1
await nt.close();
process.exit(0);
