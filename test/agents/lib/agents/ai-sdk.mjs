// An agent on the AI SDK with a scripted model: each step is a list of mails it calls send_mail with.
import * as seven from "ai";
import { MockLanguageModelV3 as Seven } from "ai/test";
import * as six from "ai-6";
import { MockLanguageModelV3 as Six } from "ai-6/test";
import { z } from "zod";
import { guardAiTools } from "../../../../dist/agents/frameworks/ai-sdk.js";
import { deliver, fresh, mailOptions } from "./mail-tool.mjs";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

function scripted(Model, steps) {
  const left = [...steps];
  return new Model({
    doGenerate: async () => {
      const step = left.shift();
      if (step === undefined) {
        return {
          content: [{ type: "text", text: "finished" }],
          finishReason: { unified: "stop", raw: "stop" },
          usage,
          warnings: [],
        };
      }
      const content = step.map((mail) => ({
        type: "tool-call",
        toolCallId: mail.id ?? fresh(),
        toolName: "send_mail",
        input: JSON.stringify({ ...mail, id: undefined }),
      }));
      return { content, finishReason: { unified: "tool-calls", raw: "tool_calls" }, usage, warnings: [] };
    },
  });
}

export function agent(version) {
  const [ai, Model] = version === 6 ? [six, Six] : [seven, Seven];
  const toolsOf = (world) => {
    const tools = {
      send_mail: ai.tool({
        description: "sends a mail",
        inputSchema: z.object({ to: z.string(), body: z.string(), amount: z.number().optional() }),
        ...(world.approval && { needsApproval: true }),
        execute: async (mail) => deliver(world, mail),
      }),
    };
    if (world.nt === null) return tools;
    return guardAiTools(world.nt, tools, { scope: world.thread, tools: { send_mail: mailOptions(world) } });
  };
  return {
    ai,
    Model,
    toolsOf,
    /** One run; what the model was told by the tool, step by step. */
    async run(world, steps) {
      const model = scripted(Model, steps);
      await ai.generateText({
        model,
        prompt: "mail them",
        tools: toolsOf(world),
        ...(world.signal && { abortSignal: world.signal }),
        stopWhen: ai.stepCountIs?.(10) ?? ai.isStepCount?.(10),
      });
      const last = model.doGenerateCalls.at(-1).prompt;
      return last
        .filter(({ role }) => role === "tool")
        .flatMap(({ content }) => content.map((part) => JSON.stringify(part.output)));
    },
    /** Asks for approval, which is then submitted twice, as after a double click or a retried request. */
    async approvedTwice(world) {
      const tools = toolsOf({ ...world, approval: true });
      const asking = scripted(Model, [[{ to: "ada", body: "Hello" }]]);
      const first = await ai.generateText({ model: asking, prompt: "mail them", tools });
      const request = first.content.find(({ type }) => type === "tool-approval-request");
      const messages = [
        { role: "user", content: "mail them" },
        ...first.response.messages,
        { role: "tool", content: [{ type: "tool-approval-response", approvalId: request.approvalId, approved: true }] },
      ];
      for (let time = 0; time < 2; time += 1) await ai.generateText({ model: scripted(Model, []), messages, tools });
    },
  };
}

export const runBy = (version) => agent(Number(version)).run;
