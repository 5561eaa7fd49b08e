// An agent on LangChain/LangGraph with a scripted model. Guarded tool by tool, or the whole agent by a middleware.

import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Command, interrupt, MemorySaver } from "@langchain/langgraph";
import { createAgent, createMiddleware, humanInTheLoopMiddleware } from "langchain";
import { z } from "zod";
import { guardLangChainTools, guardToolCalls } from "../../../../dist/agents/frameworks/langchain.js";
import { deliver, fresh, mailOptions } from "./mail-tool.mjs";

/** Says what the script says, whatever it is asked. */
class Scripted extends FakeListChatModel {
  constructor(steps) {
    super({ responses: ["finished"] });
    this.steps = [...steps];
    this.seen = [];
  }
  bindTools() {
    return this;
  }
  async _generate(messages) {
    this.seen = messages;
    const step = this.steps.shift();
    const tool_calls = (step ?? []).map(({ id, ...args }) => ({
      name: "send_mail",
      args,
      id: id ?? fresh(),
      type: "tool_call",
    }));
    const message = new AIMessage({ content: step === undefined ? "finished" : "", tool_calls });
    return { generations: [{ text: "", message }] };
  }
}

const schema = z.object({ to: z.string(), body: z.string(), amount: z.number().optional() });

function mailTool(world) {
  const send = async (mail) => {
    if (world.ask) interrupt("may I?");
    return JSON.stringify(await deliver(world, mail));
  };
  return tool(send, { name: "send_mail", description: "sends a mail", schema });
}

export function agentOf(world, model, { by = "tool", checkpointer } = {}) {
  const plain = mailTool(world);
  const guarding = world.nt !== null;
  const options = { tools: { send_mail: mailOptions(world) } };
  const tools = guarding && by === "tool" ? guardLangChainTools(world.nt, [plain], options) : [plain];
  // An error of a tool ends a bare run; here the model hears of it, as most people set it up.
  const handled = createMiddleware({
    name: "handled",
    wrapToolCall: async (request, handler) => {
      try {
        return await handler(request);
      } catch (error) {
        if (error.is_bubble_up) throw error;
        return new ToolMessage({ content: String(error), tool_call_id: request.toolCall.id, status: "error" });
      }
    },
  });
  const guard = createMiddleware({
    name: "nevertwice",
    wrapToolCall:
      guarding && by === "middleware"
        ? guardToolCalls(world.nt, { ToolMessage, ...options })
        : (request, handler) => handler(request),
  });
  const approval = world.approval ? [humanInTheLoopMiddleware({ interruptOn: { send_mail: true } })] : [];
  return createAgent({
    model,
    tools,
    middleware: [...approval, handled, guard],
    ...(checkpointer && { checkpointer }),
  });
}

const told = (messages) => messages.filter((one) => ToolMessage.isInstance(one)).map(({ content }) => String(content));

export const runBy = (by) => async (world, steps) => {
  const model = new Scripted(steps);
  const config = { configurable: { thread_id: world.thread }, ...(world.signal && { signal: world.signal }) };
  await agentOf(world, model, { by }).invoke({ messages: [{ role: "user", content: "mail them" }] }, config);
  return told(model.seen);
};

/** The tool asks a person first, or LangChain does; the answer is then submitted twice from the same checkpoint. */
export async function resumedTwice(world, by, asks) {
  const checkpointer = new MemorySaver();
  const model = new Scripted([[{ to: "ada", body: "Hello" }]]);
  const agent = agentOf({ ...world, ...asks }, model, { by, checkpointer });
  const config = { configurable: { thread_id: world.thread } };
  const asked = await agent.invoke({ messages: [{ role: "user", content: "mail them" }] }, config);
  if (asked.__interrupt__ === undefined) throw new Error("nobody was asked");
  const state = await agent.graph.getState(config);
  const from = { configurable: { ...state.config.configurable } };
  const resume = asks.approval ? { decisions: [{ type: "approve" }] } : "yes";
  for (let time = 0; time < 2; time += 1) await agent.invoke(new Command({ resume }), from);
}
