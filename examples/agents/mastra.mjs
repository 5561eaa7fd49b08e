// npm install nevertwice @mastra/core ai zod
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { nevertwice } from "nevertwice";
import { guardMastraTools } from "nevertwice/agents/mastra";
import { z } from "zod";
import { scriptedModel } from "./models/ai-sdk.mjs";

const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
const tickets = [];
const open_ticket = createTool({
  id: "open_ticket",
  description: "Opens a ticket",
  inputSchema: z.object({ subject: z.string(), text: z.string() }),
  execute: async (input) => ({ id: `T-${tickets.push(input)}` }),
});

// errors: an error of this tool means that nothing was done. Leave it out where one may come after the effect.
const tools = guardMastraTools(
  nt,
  { open_ticket },
  { scope: () => "customer-7", tools: { open_ticket: { key: ["subject"], free: ["text"], errors: "not-done" } } },
);
const model = scriptedModel([
  [
    ["open_ticket", { subject: "printer", text: "It is on fire" }],
    ["open_ticket", { subject: "printer", text: "The printer burns" }],
  ],
]);
const agent = new Agent({ id: "desk", name: "desk", instructions: "Help.", model, tools });
const { text } = await agent.generate("My printer burns.");

console.log(text, tickets.length); // → Finished. 1
await nt.close();
process.exit(0);
