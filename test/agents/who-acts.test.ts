/** A6: whose name the records have, where the SDK tells a tool which agent calls it, and where the program has to. */
import { ToolMessage } from "@langchain/core/messages";
import { tool as langChainTool } from "@langchain/core/tools";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { claudeGuard } from "../../dist/agents/frameworks/claude-agent-sdk.js";
import { guardLangChainTools, guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { guardTool, queuedTool } from "../../dist/agents/index.js";
import { nevertwice } from "../../dist/index.js";
import { run as runClaude } from "./lib/agents/claude.mjs";
import { Scripted } from "./lib/agents/langchain-model.mjs";
import { run as runMastra } from "./lib/agents/mastra.mjs";
import { runBy as openAiBy } from "./lib/agents/openai-agents.mjs";
import { startMailProvider } from "./lib/mail-provider.ts";
import { connect, folder, MAIL_SERVER, proxied, said } from "./lib/mcp.ts";

const hello = { to: "ada", body: "Hello" };

async function stage() {
  const provider = await startMailProvider();
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {}, agent: "the-program" });
  onTestFinished(() => nt.close());
  const who = async () => (await nt.store.list({ limit: 5 })).items.map(({ record }) => record.agent);
  return { nt, provider, who, world: { nt, url: provider.url, thread: "thread-1" } };
}

describe("A6: the agent's name", () => {
  it("of Mastra is the agent's id", async () => {
    const { who, world } = await stage();
    await runMastra(world, [[hello]]);
    expect(await who()).toEqual(["mailer"]);
  });

  it.each([
    ["tool", "lang-mailer"],
    // A middleware is not given it.
    ["middleware", "the-program"],
  ])("of LangChain is createAgent's name where a tool is guarded, by %s: %s", async (by, expected) => {
    const { nt, who } = await stage();
    const send = langChainTool(async () => '{"id":"mail_7"}', {
      name: "send_mail",
      description: "sends",
      schema: z.object({ to: z.string() }),
    });
    const options = { scope: "s", tools: { send_mail: { key: ["to"] } } };
    const model = new Scripted([[{ name: "send_mail", args: { to: "ada" }, id: "c1", type: "tool_call" }]]);
    const wrapToolCall = guardToolCalls(nt, { ToolMessage, ...options });
    const agent =
      by === "tool"
        ? createAgent({ model, name: "lang-mailer", tools: guardLangChainTools(nt, [send], options) })
        : createAgent({
            model,
            name: "lang-mailer",
            tools: [send],
            middleware: [createMiddleware({ name: "nevertwice", wrapToolCall })],
          });
    await agent.invoke({ messages: ["mail them"] });
    expect(await who()).toEqual([expected]);
    expect(await nt.find({ providerId: "mail_7" })).toHaveLength(1);
  });

  it.each(["factory", "finished"])(
    "of OpenAI Agents, which does not tell it to a tool, is the program's (%s)",
    async (by) => {
      const { who, world } = await stage();
      await openAiBy(by)(world, [[hello]]);
      expect(await who()).toEqual(["the-program"]);
      const named = { ...world, thread: "thread-2", options: { agent: () => "by the run's context" } };
      await openAiBy(by)(named, [[hello]]);
      expect(await who()).toEqual(["by the run's context", "the-program"]);
    },
  );

  it("of a Claude session without --agent is the program's; of a subagent it is the subagent's type", async () => {
    const { nt, who, world } = await stage();
    await runClaude(world, [[hello]]);
    expect(await who()).toEqual(["the-program"]);
    const guard = claudeGuard(nt);
    const [hook] = guard.hooks().PreToolUse[0]?.hooks ?? [];
    const send = guard.tool({ name: "post", handler: async (_args: never, _extra: unknown) => ({ content: [] }) });
    await hook?.({ session_id: "s1", tool_use_id: "t1", agent_type: "code-reviewer" });
    await send.handler({} as never, { _meta: { "claudecode/toolUseId": "t1" } });
    expect(await who()).toEqual(["code-reviewer", "the-program"]);
  });

  it("is given to guardTool and queuedTool by name or by a function of the call; what is odd is made fit", async () => {
    const { nt, who } = await stage();
    const named = guardTool(nt, { name: "a", scope: null, agent: "static" }, async () => ({ id: "x_1" }));
    await named({}, undefined);
    const byCall = guardTool(
      nt,
      { name: "b", scope: null, agent: (call: { bot?: string }) => call.bot },
      async () => 1,
    );
    await byCall({}, { bot: "line\nbreak" });
    await byCall({ other: 1 }, {});
    const action = nt.action("later", { key: ["n"], run: (_: { n: number }) => 1 });
    await queuedTool(action, { scope: null, agent: "queuer" })({ n: 1 }, undefined);
    expect((await who()).sort()).toEqual(["line break", "queuer", "static", "the-program"]);
    expect(() => guardTool(nt, { name: "c", scope: null, agent: "" }, async () => 1)).toThrow(
      /tool "c": agent is a string of 0/,
    );
    expect(() => queuedTool(action, { agent: "a\nb" })).toThrow(/queuedTool: agent contains a control character/);
  });

  it("another agent's call of the same intent is a repeat", async () => {
    const { nt, who } = await stage();
    let runs = 0;
    const options = { name: "once", scope: null, key: ["to"] as const, agent: (bot: string) => bot };
    const tool = guardTool(nt, options as never, async () => ++runs);
    await tool({ to: "ada" } as never, "first" as never);
    await tool({ to: "ada" } as never, "second" as never);
    expect([runs, await who()]).toEqual([1, ["first"]]);
  });
});

describe("A6: the provider's id in a tool's answer", () => {
  it.each([
    ["an object", { id: "m_1" }],
    ["JSON as text", '{"id":"m_1"}'],
    ["MCP's structured content", { content: [], structuredContent: { messageId: "m_1" } }],
    ["MCP's only text", { content: [{ type: "text", text: '{"data":{"id":"m_1"}}' }] }],
  ])("%s", async (_, result) => {
    const { nt } = await stage();
    await guardTool(nt, { name: "send", scope: null }, async () => result)({ n: 1 }, undefined);
    expect(await nt.find({ providerId: "m_1" })).toHaveLength(1);
  });

  it("prose is none, and resultId says where else it is", async () => {
    const { nt } = await stage();
    await guardTool(nt, { name: "prose", scope: null }, async () => ({
      content: [{ type: "text", text: "sent m_1" }],
    }))({}, undefined);
    expect((await nt.store.list({ limit: 1 })).items[0]?.record.providerId).toBeNull();
    const resultId = (text: string) => /sent (\S+)/.exec(text)?.[1];
    await guardTool(nt, { name: "own", scope: null, resultId }, async () => "sent m_2")({}, undefined);
    expect(await nt.find({ providerId: "m_2" })).toHaveLength(1);
    expect(() => guardTool(nt, { name: "bad", scope: null, resultId: "id" as never }, async () => 1)).toThrow(
      /resultId must be/,
    );
  });
});

it("A6: nevertwice mcp --agent is on the records of the proxy's calls", async () => {
  const provider = await startMailProvider();
  const place = folder();
  const call = { name: "send_mail", arguments: { ...hello } };
  const { client, close } = await connect(
    proxied(place, [MAIL_SERVER, "stdio", provider.url], undefined, ["--agent", "desk-bot"]),
  );
  expect(said(await client.callTool(call))).toBe("sent mail_1");
  await close();
  const nt = nevertwice({ store: `sqlite:${place}/ledger.db`, sweep: false });
  onTestFinished(() => nt.close());
  const { items } = await nt.store.list({ limit: 5, agent: "desk-bot" });
  expect(items.map(({ record }) => record.state)).toEqual(["confirmed"]);
});
