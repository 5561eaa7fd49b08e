// The same model in three frameworks: it does what its system prompt says (lib/prompted-model.ts). Each agent has the
// guarded send_mail and the status tool; what `play` returns is not needed, the model has it.

import { AIMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langChainTool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Agent, tool as openAiTool, Runner, setTracingDisabled, Usage } from "@openai/agents";
import * as ai from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { createAgent } from "langchain";
import { z } from "zod";
import { guardAiTools } from "../../../../dist/agents/frameworks/ai-sdk.js";
import { guardLangChainTools } from "../../../../dist/agents/frameworks/langchain.js";
import { guardOpenAiTools } from "../../../../dist/agents/frameworks/openai-agents.js";
import { statusTool } from "../../../../dist/agents/index.js";
import { fresh } from "./mail-tool.mjs";

setTracingDisabled(true);

const mailSchema = z.object({ to: z.string(), body: z.string(), amount: z.number() });
const referenceSchema = z.object({ reference: z.string() });
const about = { description: "sends a mail" };

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

async function openAi({ nt, execute, options, system, model, thread }) {
  const status = statusTool(nt);
  const guarded = guardOpenAiTools(nt, openAiTool, { scope: thread, tools: { send_mail: options } });
  const tools = [
    guarded({ name: "send_mail", ...about, parameters: mailSchema, execute }),
    openAiTool({
      name: status.name,
      description: status.description,
      parameters: referenceSchema,
      execute: status.execute,
    }),
  ];
  const scripted = {
    async getResponse({ systemInstructions, input }) {
      const answers = input.filter(({ type }) => type === "function_call_result").map(({ output }) => text(output));
      const move = model.next(systemInstructions, answers);
      const said = {
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "end" }],
      };
      const call = move && {
        type: "function_call",
        callId: fresh(),
        name: move.tool,
        status: "completed",
        arguments: JSON.stringify(move.input),
      };
      return { usage: new Usage(), output: [call ?? said] };
    },
    async *getStreamedResponse() {},
  };
  await new Runner().run(new Agent({ name: "mailer", instructions: system, model: scripted, tools }), "mail them");
}

async function aiSdk({ nt, execute, options, system, model, thread }) {
  const status = statusTool(nt);
  const plain = { send_mail: ai.tool({ ...about, inputSchema: mailSchema, execute }) };
  const tools = {
    ...guardAiTools(nt, plain, { scope: thread, tools: { send_mail: options } }),
    [status.name]: ai.tool({ description: status.description, inputSchema: referenceSchema, execute: status.execute }),
  };
  const scripted = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const told = prompt.filter(({ role }) => role === "system").map(({ content }) => content);
      const answers = prompt
        .filter(({ role }) => role === "tool")
        .flatMap(({ content }) => content.map(({ output }) => text(output.value)));
      const move = model.next(told.join("\n"), answers);
      const finishReason = move ? { unified: "tool-calls", raw: "tool_calls" } : { unified: "stop", raw: "stop" };
      const content = move
        ? [{ type: "tool-call", toolCallId: fresh(), toolName: move.tool, input: JSON.stringify(move.input) }]
        : [{ type: "text", text: "end" }];
      return { content, finishReason, usage, warnings: [] };
    },
  });
  const stopWhen = ai.stepCountIs?.(10) ?? ai.isStepCount?.(10);
  await ai.generateText({ model: scripted, system, instructions: system, prompt: "mail them", tools, stopWhen });
}

class Prompted extends FakeListChatModel {
  constructor(model) {
    super({ responses: ["end"] });
    this.model = model;
  }
  bindTools() {
    return this;
  }
  async _generate(messages) {
    const system = messages.filter((one) => SystemMessage.isInstance(one)).map((one) => one.text);
    const answers = messages.filter((one) => ToolMessage.isInstance(one)).map((one) => one.text);
    const move = this.model.next(system.join("\n"), answers);
    const tool_calls = move ? [{ name: move.tool, args: move.input, id: fresh(), type: "tool_call" }] : [];
    return { generations: [{ text: "", message: new AIMessage({ content: move ? "" : "end", tool_calls }) }] };
  }
}

async function langChain({ nt, execute, options, system, model, thread }) {
  const status = statusTool(nt);
  const send = langChainTool(async (mail) => JSON.stringify(await execute(mail)), {
    name: "send_mail",
    ...about,
    schema: mailSchema,
  });
  const look = langChainTool(status.execute, {
    name: status.name,
    description: status.description,
    schema: referenceSchema,
  });
  const tools = [...guardLangChainTools(nt, [send], { scope: thread, tools: { send_mail: options } }), look];
  const agent = createAgent({ model: new Prompted(model), tools, systemPrompt: system, name: "mailer" });
  await agent.invoke({ messages: [{ role: "user", content: "mail them" }] });
}

export const FRAMEWORKS = { "OpenAI Agents": openAi, "AI SDK": aiSdk, LangChain: langChain };
