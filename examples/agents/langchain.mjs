// npm install nevertwice langchain @langchain/core zod
// One middleware guards every tool of an agent; the scope is the thread.
import { ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createAgent, createMiddleware } from "langchain";
import { nevertwice } from "nevertwice";
import { guardToolCalls } from "nevertwice/agents/langchain";
import { z } from "zod";
import { ScriptedModel } from "./models/langchain.mjs";

const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
const posts = [];
const post = tool(async ({ text }) => `post_${posts.push(text)}`, {
  name: "post",
  description: "Posts to the channel",
  schema: z.object({ topic: z.string(), text: z.string() }),
});

// errors: an error of this tool means that nothing was done. Leave it out where one may come after the effect.
const options = { tools: { post: { key: ["topic"], free: ["text"], errors: "not-done" } } };
const guard = createMiddleware({
  name: "nevertwice",
  wrapToolCall: guardToolCalls(nt, { ToolMessage, ...options }),
});

const script = [[["post", { topic: "release", text: "Out now" }]], [["post", { topic: "release", text: "It is out" }]]];
const agent = createAgent({ model: new ScriptedModel(script), tools: [post], middleware: [guard] });
const { messages } = await agent.invoke({ messages: "Announce it." }, { configurable: { thread_id: "thread-1" } });

for (const message of messages.filter((one) => ToolMessage.isInstance(one)))
  console.log(message.content.split("\n").at(-1));
// → post_1
// → post_1
console.log(posts.length); // → 1
await nt.close();
