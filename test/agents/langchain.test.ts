import { ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { nevertwice } from "../../dist/index.js";
import { resumedTwice, runBy } from "./lib/agents/langchain.mjs";
import { Scripted } from "./lib/agents/langchain-model.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe.each(["tool", "middleware"])("LangChain and LangGraph, guarded by %s", (by) => {
  tellStories(runBy(by), { agent: `langchain:${by}` });

  it.each([
    { asks: "an interrupt goes through and is never stored", how: { ask: true } },
    { asks: "LangChain asks for approval", how: { approval: true } },
  ])("$asks; the answer is submitted twice", async ({ how }) => {
    for (const { guarded } of WAYS) {
      const { provider, world: at } = await world(guarded);
      await resumedTwice(at, by, how);
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    }
  });
});

describe("the middleware", () => {
  const schema = z.object({ to: z.string() });

  async function called(mail: ReturnType<typeof tool>, calls: readonly { name: string; args: object }[]) {
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
    const model = new Scripted(calls.map(({ name, args }, i) => [{ name, args, id: `c${i}`, type: "tool_call" }]));
    const wrapToolCall = guardToolCalls(nt, { ToolMessage, scope: "s", tools: { send_mail: { key: ["to"] } } });
    const guard = createMiddleware({ name: "nevertwice", wrapToolCall });
    await createAgent({ model, tools: [mail], middleware: [guard] }).invoke({ messages: ["mail them"] });
    const { items } = await nt.store.list({ limit: 10 });
    await nt.close();
    return items.map(({ record }) => `${record.action} ${record.state}`);
  }

  it("a schema error inside the tool, after its effect, is a doubt: only its own arguments were surely not sent", async () => {
    let mails = 0;
    const log = tool(async () => "", { name: "log", description: "logs", schema: z.object({ line: z.string() }) });
    const send = tool(
      async (args) => {
        mails += 1;
        return log.invoke(args as never);
      },
      { name: "send_mail", description: "sends", schema },
    );
    const call = { name: "send_mail", args: { to: "ada" } };
    expect(await called(send as never, [call, call])).toEqual(["send_mail unknown"]);
    expect(mails).toBe(1);
  });

  it("a tool that is not there was not run", async () => {
    const send = tool(async () => "sent", { name: "send_mail", description: "sends", schema });
    const records = await called(send as never, [{ name: "send_male", args: { to: "ada" } }]);
    expect(records).toEqual(["send_male failed"]);
  });
});
