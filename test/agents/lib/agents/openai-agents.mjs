// An agent on the OpenAI Agents SDK with a scripted model. Guarded at the factory, or as tools that are there already.
import { Agent, Runner, RunState, tool as sdkTool, setTracingDisabled, Usage } from "@openai/agents";
import { z } from "zod";
import { guardOpenAiTools } from "../../../../dist/agents/frameworks/openai-agents.js";
import { deliver, fresh, mailOptions } from "./mail-tool.mjs";

setTracingDisabled(true);

/** `asked` hears of each question to the model, from 1. */
export function scripted(steps, name = "send_mail", asked = () => {}) {
  const left = [...steps];
  return {
    seen: [],
    async getResponse({ input }) {
      this.seen = input;
      asked(steps.length - left.length + 1);
      const step = left.shift();
      const output =
        step === undefined
          ? [
              {
                type: "message",
                role: "assistant",
                status: "completed",
                content: [{ type: "output_text", text: "finished" }],
              },
            ]
          : step.map(({ id, ...mail }) => ({
              type: "function_call",
              callId: id ?? fresh(),
              name,
              status: "completed",
              arguments: mail.text ?? JSON.stringify({ amount: null, ...mail }),
            }));
      return { usage: new Usage({}), output };
    },
    async *getStreamedResponse() {},
  };
}

/** What tool() gets in every test here. */
export const definition = (world) => ({
  name: "send_mail",
  description: "sends a mail",
  parameters: z.object({ to: z.string(), body: z.string(), amount: z.number().nullable() }),
  needsApproval: world.approval === true,
  ...(world.timeoutMs !== undefined && { timeoutMs: world.timeoutMs }),
  execute: async (mail) => deliver(world, mail),
  ...world.definition,
});

function toolsOf(world, by) {
  if (world.nt === null) return [sdkTool(definition(world))];
  const options = {
    scope: ({ runContext }) => runContext.context.thread,
    tools: { send_mail: { ...mailOptions(world), ...world.options } },
  };
  if (by === "factory") return [guardOpenAiTools(world.nt, sdkTool, options)(definition(world))];
  return guardOpenAiTools(world.nt, [sdkTool(definition(world))], options);
}

function agentOf(world, model, by) {
  return new Agent({ name: "mailer", instructions: "mail them", model, tools: toolsOf(world, by) });
}

export const runBy = (by) => async (world, steps) => {
  const model = scripted(steps, "send_mail", world.asked);
  const options = { context: { thread: world.thread }, ...(world.signal && { signal: world.signal }) };
  await new Runner().run(agentOf(world, model, by), "mail them", options);
  return model.seen.filter(({ type }) => type === "function_call_result").map(({ output }) => JSON.stringify(output));
};

/** Interrupted for approval; the stored state is then approved and resumed twice. */
export async function resumedTwice(world, by) {
  const asking = { ...world, approval: true };
  const first = agentOf(asking, scripted([[{ to: "ada", body: "Hello" }]]), by);
  const { state, interruptions } = await new Runner().run(first, "mail them", { context: { thread: world.thread } });
  if (interruptions.length !== 1) throw new Error("nobody was asked");
  const stored = state.toString();
  for (let time = 0; time < 2; time += 1) {
    const agent = agentOf(asking, scripted([]), by);
    const again = await RunState.fromString(agent, stored);
    again.approve(again.getInterruptions()[0]);
    await new Runner().run(agent, again);
  }
}
