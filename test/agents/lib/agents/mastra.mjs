// An agent on Mastra with a scripted model of the AI SDK.
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { RequestContext } from "@mastra/core/request-context";
import { InMemoryStore } from "@mastra/core/storage";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV3 } from "ai-6/test";
import { z } from "zod";
import { guardMastraTools } from "../../../../dist/agents/frameworks/mastra.js";
import { deliver, fresh, mailOptions } from "./mail-tool.mjs";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

function scripted(steps) {
  const left = [...steps];
  const answer = () => {
    const step = left.shift();
    if (step === undefined)
      return { content: [{ type: "text", text: "finished" }], finishReason: { unified: "stop", raw: "stop" } };
    const content = step.map(({ id, ...mail }) => ({
      type: "tool-call",
      toolCallId: id ?? fresh(),
      toolName: "send_mail",
      input: JSON.stringify(mail),
    }));
    return { content, finishReason: { unified: "tool-calls", raw: "tool_calls" } };
  };
  return new MockLanguageModelV3({
    doGenerate: async () => ({ ...answer(), usage, warnings: [] }),
    doStream: async () => {
      const { content, finishReason } = answer();
      const parts = [
        { type: "stream-start", warnings: [] },
        ...content.flatMap((part) =>
          part.type === "text"
            ? [
                { type: "text-start", id: "1" },
                { type: "text-delta", id: "1", delta: part.text },
                { type: "text-end", id: "1" },
              ]
            : [part],
        ),
        { type: "finish", finishReason, usage },
      ];
      return {
        stream: new ReadableStream({
          start: (at) => {
            for (const part of parts) at.enqueue(part);
            at.close();
          },
        }),
      };
    },
  });
}

export function mailTool(world) {
  const send_mail = createTool({
    id: "send_mail",
    description: "sends a mail",
    inputSchema: z.object({ to: z.string(), body: z.string(), amount: z.number().optional() }),
    ...(world.approval && { requireApproval: true }),
    execute: async (mail, context) => {
      if (world.ask && context.agent.resumeData === undefined) return context.agent.suspend({ may: "I?" });
      return deliver(world, mail);
    },
  });
  if (world.nt === null) return { send_mail };
  // Mastra does not tell a tool which step it is called in: the program does (docs/agents.md).
  const turn = ({ agent, runId, requestContext }) => ({
    call: agent.toolCallId,
    turn: `${runId} ${requestContext.get("step")}`,
  });
  return guardMastraTools(
    world.nt,
    { send_mail },
    { scope: () => world.thread, ...(world.repeats && { turn }), tools: { send_mail: mailOptions(world) } },
  );
}

const mailer = (world, model) =>
  new Agent({ id: "mailer", name: "mailer", instructions: "mail them", model, tools: mailTool(world) });

/** Stops for a person: Mastra's own approval, or a tool that suspends by itself. The answer is then submitted twice at once. */
export async function answeredTwice(world) {
  const agent = mailer(world, scripted([[{ id: "call_1", to: "ada", body: "Hello" }]]));
  const mastra = new Mastra({ agents: { mailer: agent }, storage: new InMemoryStore(), logger: false });
  const asked = await mastra.getAgent("mailer").generate("mail them", { maxSteps: 5 });
  if (asked.finishReason !== "suspended") throw new Error("nobody was asked");
  const at = { runId: asked.runId, toolCallId: "call_1" };
  const answer = () => (world.ask ? agent.resumeGenerate({ yes: true }, at) : agent.approveToolCallGenerate(at));
  await Promise.all([answer(), answer()]);
}

export async function run(world, steps) {
  const model = scripted(steps);
  const agent = mailer(world, model);
  const requestContext = new RequestContext();
  await agent.generate("mail them", {
    maxSteps: 10,
    requestContext,
    prepareStep: ({ stepNumber }) => requestContext.set("step", stepNumber),
    ...(world.signal && { abortSignal: world.signal }),
  });
  const calls = [...model.doStreamCalls, ...model.doGenerateCalls];
  return calls
    .at(-1)
    .prompt.filter(({ role }) => role === "tool")
    .flatMap(({ content }) => content.map((part) => JSON.stringify(part.output)));
}

export const runBy = () => run;
