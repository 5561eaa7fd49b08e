/**
 * Two users with two sessions each, on one program, one ledger and the very same guarded tools, all with the same arguments and the same
 * call ids: each conversation gets the answers of its own calls, and nobody another's. Through the real packages.
 */
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ToolMessage } from "@langchain/core/messages";
import { tool as langChainTool } from "@langchain/core/tools";
import { Agent as MastraAgent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MCPServerStdio, Agent as OpenAiAgent, tool as openAiTool, Runner } from "@openai/agents";
import { tool as aiTool, generateText, isStepCount } from "ai";
import { MockLanguageModelV3 as AiModel } from "ai/test";
import { MockLanguageModelV3 } from "ai-6/test";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardAiTools } from "../../dist/agents/frameworks/ai-sdk.js";
import { guardLangChainTools, guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { guardMastraTools } from "../../dist/agents/frameworks/mastra.js";
import { guardOpenAiMcpServer, guardOpenAiTools } from "../../dist/agents/frameworks/openai-agents.js";
import { type Nevertwice, nevertwice } from "../../dist/index.js";
import { calling, toldBy } from "./lib/agents/ai-sdk-model.mjs";
import { run as runClaude } from "./lib/agents/claude.mjs";
import { Scripted } from "./lib/agents/langchain-model.mjs";
import { scripted } from "./lib/agents/openai-agents.mjs";
import { type MailProvider, sendMail, startMailProvider } from "./lib/mail-provider.ts";
import { MAIL_SERVER } from "./lib/mcp.ts";

// biome-ignore lint/suspicious/noExplicitAny: the models and messages of five frameworks, read by shape
type Any = any;

interface Party {
  readonly user: string;
  readonly session: string;
}

/** One request in a conversation, in which the model calls send_mail `times` times; what it was told each time. */
type Ask = (party: Party, times: number) => Promise<string[]>;

interface Place {
  readonly nt: Nevertwice;
  readonly provider: MailProvider;
}

const MAIL = { to: "ada", body: "Hello" };
const inputSchema = z.object({ to: z.string(), body: z.string() });
const key = ["to"];
const ids = (times: number) => Array.from({ length: times }, (_, i) => `call_${i}`);

/** The tools are guarded once, for everybody, as in a server. Each wrapper takes its scope from what the framework hands over. */
const WRAPPERS: Record<string, (place: Place) => Promise<Ask>> = {
  "AI SDK": async ({ nt, provider }) => {
    const contextSchema = z.object({ session: z.string() });
    const send_mail = aiTool({ inputSchema, contextSchema, execute: (mail) => sendMail(provider.url, mail) });
    const scope = ({ context }: Any) => context.session;
    const tools = guardAiTools(nt, { send_mail }, { scope, tools: { send_mail: { key } } } as Any) as Any;
    return async ({ session }, times) => {
      const model = calling(
        AiModel,
        ids(times).map((id) => [["send_mail", MAIL, id]]),
      );
      const toolsContext = { send_mail: { session } };
      await generateText({ model: model as Any, prompt: "mail", tools, toolsContext, stopWhen: isStepCount(9) } as Any);
      return toldBy(model).map((output: unknown) => JSON.stringify(output));
    };
  },
  ...Object.fromEntries(
    (["factory", "finished"] as const).map((by) => [
      `OpenAI Agents, ${by}`,
      async ({ nt, provider }: Place) => {
        const options = { scope: ({ runContext }: Any) => runContext.context.session, tools: { send_mail: { key } } };
        const definition = {
          name: "send_mail",
          description: "sends",
          parameters: z.object({ to: z.string(), body: z.string(), amount: z.number().nullable() }),
          execute: ({ to, body }: Any) => sendMail(provider.url, { to, body }),
        };
        const tools =
          by === "factory"
            ? [guardOpenAiTools(nt, openAiTool, options)(definition)]
            : guardOpenAiTools(nt, [openAiTool(definition)], options);
        return openAiAgent({ tools });
      },
    ]),
  ),
  "OpenAI Agents, an MCP server": async ({ nt, provider }) => {
    const args = [MAIL_SERVER, "stdio", provider.url];
    const server = guardOpenAiMcpServer(nt, new MCPServerStdio({ name: "mail", command: process.execPath, args }), {
      scope: ({ runContext }) => runContext?.context.session,
      tools: { send_mail: { key } },
    });
    await server.connect();
    onTestFinished(() => server.close());
    return openAiAgent({ mcpServers: [server] }, { amount: 1 });
  },
  ...Object.fromEntries(
    (["tool", "middleware"] as const).map((by) => [
      `LangChain, ${by}`,
      async ({ nt, provider }: Place) => {
        const send = langChainTool(async (mail) => JSON.stringify(await sendMail(provider.url, mail)), {
          name: "send_mail",
          description: "sends",
          schema: inputSchema,
        });
        const options = { tools: { send_mail: { key } } };
        const tools = by === "tool" ? guardLangChainTools(nt, [send], options) : [send];
        const wrapToolCall = guardToolCalls(nt, { ToolMessage, ...options });
        const middleware = by === "tool" ? [] : [createMiddleware({ name: "nevertwice", wrapToolCall })];
        return async ({ session }: Party, times: number) => {
          const steps = ids(times).map((id) => [{ name: "send_mail", args: MAIL, id, type: "tool_call" }]);
          const agent = createAgent({ model: new Scripted(steps), tools, middleware });
          const { messages } = await agent.invoke({ messages: ["mail"] }, { configurable: { thread_id: session } });
          return messages.filter((one: Any) => ToolMessage.isInstance(one)).map((one: Any) => String(one.content));
        };
      },
    ]),
  ),
  Mastra: async ({ nt, provider }) => {
    const execute = async (mail: typeof MAIL) => sendMail(provider.url, mail);
    const send_mail = createTool({ id: "send_mail", description: "sends", inputSchema, execute } as Any);
    const tools = guardMastraTools(nt, { send_mail }, { tools: { send_mail: { key } } } as Any);
    return async ({ user, session }, times) => {
      const model = calling(
        MockLanguageModelV3,
        ids(times).map((id) => [["send_mail", MAIL, id]]),
      ) as Any;
      const agent = new MastraAgent({ id: "a", name: "a", instructions: "mail", model, tools: tools as Any });
      await agent.generate("mail", { maxSteps: 9, memory: { thread: session, resource: user } });
      return toldBy(model).map((output: unknown) => JSON.stringify(output));
    };
  },
  "Claude Agent SDK": async ({ nt, provider }) => {
    onTestFinished(() => {
      const home = join(tmpdir(), `nevertwice-claude-${new URL(provider.url).port}`);
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    });
    return ({ session }, times) =>
      runClaude(
        { nt, url: provider.url, thread: session },
        ids(times).map(() => [MAIL]),
      );
  },
  // MCP servers (guardMcpServer) and the proxy (nevertwice mcp): their entries go here, with two tokens and two environments
  // beside the two users and sessions.
};

function openAiAgent(own: object, more: object = {}): Ask {
  return async ({ user, session }, times) => {
    const model = scripted(
      ids(times).map((id) => [{ id, ...MAIL, ...more }]),
      "send_mail",
    ) as Any;
    const agent = new OpenAiAgent({ name: "a", instructions: "mail", model, ...own });
    await new Runner().run(agent, "mail", { context: { user, session } });
    const results = model.seen.filter(({ type }: Any) => type === "function_call_result");
    return results.map(({ output }: Any) => JSON.stringify(output));
  };
}

const PARTIES: readonly Party[] = ["ada", "bob"].flatMap((user) =>
  [1, 2].map((number) => ({ user, session: `${user}-session-${number}` })),
);

const mailIn = (told: string) => /mail_\d+/.exec(told)?.[0];

describe.each(Object.entries(WRAPPERS))("%s", (_, setUp) => {
  it("no answer of one conversation reaches another, at once and one after the other", {
    timeout: 120_000,
  }, async () => {
    const provider = await startMailProvider();
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const ask = await setUp({ nt, provider });

    const first = await Promise.all(PARTIES.map((party) => ask(party, 2)));
    const mine = first.map((told) => mailIn(told[0] as string));
    expect(new Set(mine).size).toBe(PARTIES.length);
    for (const [i, told] of first.entries()) {
      expect(told.map(mailIn)).toEqual([mine[i], mine[i]]);
      expect(told[0]).not.toContain("Already done");
      expect(told[1]).toContain("Already done");
    }

    for (const [i, party] of PARTIES.entries()) {
      const told = (await ask(party, 1)).at(-1) as string;
      expect([mailIn(told), told.includes("Already done")]).toEqual([mine[i], true]);
    }
    expect(provider.mails).toHaveLength(PARTIES.length);
  });
});
