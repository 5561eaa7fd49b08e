// npm install nevertwice ai zod
// A model that repeats itself in other words, and a mail that is sent once.
import { generateText, isStepCount, tool } from "ai";
import { nevertwice } from "nevertwice";
import { guardAiTools } from "nevertwice/agents/ai-sdk";
import { z } from "zod";
import { scriptedModel } from "./models/ai-sdk.mjs";

const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
const mails = [];

// errors: an error of this tool means that nothing was done. Leave it out where one may come after the effect.
const tools = guardAiTools(
  nt,
  {
    send_mail: tool({
      description: "Sends a mail",
      inputSchema: z.object({ to: z.string(), body: z.string() }),
      execute: async (mail) => ({ id: `mail_${mails.push(mail)}` }),
    }),
  },
  { scope: "conversation-42", tools: { send_mail: { key: ["to"], free: ["body"], errors: "not-done" } } },
);

// In earnest: model: "anthropic/claude-sonnet-5".
const model = scriptedModel([
  [["send_mail", { to: "ada@example.com", body: "Hello" }]],
  [["send_mail", { to: "ada@example.com", body: "Good day" }]],
]);
const { text, steps } = await generateText({ model, tools, prompt: "Write to Ada.", stopWhen: isStepCount(5) });

console.log(steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output.id)).join(" ")); // → mail_1 mail_1
console.log(text, mails.length); // → Finished. 1
await nt.close();
