/**
 * Two users with two sessions each, on one program, one ledger and the very same guarded tools: each conversation gets the answers of
 * its own calls, and nobody another's. The guard's own functions, and the real packages. MCP servers: whose-mcp-servers.test.ts; the
 * proxy: whose-proxy.test.ts.
 */
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ToolMessage } from "@langchain/core/messages";
import { tool as langChainTool } from "@langchain/core/tools";
import { Agent as MastraAgent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MCPServerStdio, Agent as OpenAiAgent, tool as openAiTool, Runner } from "@openai/agents";
import { MockLanguageModelV3 } from "ai-6/test";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardAiTools } from "../../dist/agents/frameworks/ai-sdk.js";
import { guardLangChainTools, guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { guardMastraTools } from "../../dist/agents/frameworks/mastra.js";
import { guardOpenAiMcpServer, guardOpenAiTools } from "../../dist/agents/frameworks/openai-agents.js";
import { guardTool, queuedTool, type ToolMemory, toolMemory } from "../../dist/agents/index.js";
import { type Nevertwice, nevertwice } from "../../dist/index.js";
import { agent as aiAgent } from "./lib/agents/ai-sdk.mjs";
import { calling, toldBy } from "./lib/agents/ai-sdk-model.mjs";
import { run as runClaude } from "./lib/agents/claude.mjs";
import { Scripted } from "./lib/agents/langchain-model.mjs";
import { scripted } from "./lib/agents/openai-agents.mjs";
import { type MailProvider, sendMail, startMailProvider } from "./lib/mail-provider.ts";
import { MAIL_SERVER } from "./lib/mcp.ts";
import { type Ask, MAIL, noAnswerGoesAstray, type Party } from "./lib/whose.ts";

// biome-ignore lint/suspicious/noExplicitAny: the models and messages of five frameworks, read by shape
type Any = any;

interface Place {
  readonly nt: Nevertwice;
  readonly provider: MailProvider;
}

const inputSchema = z.object({ to: z.string(), body: z.string() });
const key = ["to"];
const ids = (times: number) => Array.from({ length: times }, (_, i) => `call_${i}`);

/** The tools are guarded once, for everybody, as in a server. Each wrapper takes its scope from what the framework hands over. */
const WRAPPERS: Record<string, (place: Place) => Promise<Ask>> = {
  guardTool: async ({ nt, provider }) => guardedBy(nt, provider, ({ session }) => session),
  "guardTool, by user and session": async ({ nt, provider }) =>
    guardedBy(nt, provider, ({ user, session }) => `${user}/${session}`),
  queuedTool: async ({ nt, provider }) => {
    const run = (mail: typeof MAIL) => sendMail(provider.url, mail);
    const send = nt.action("send_mail", { key: ["to"], free: ["body"], run });
    const record = queuedTool(send, { scope: ({ session }: Party) => session });
    const worker = nt.worker({ poll: 20 });
    await worker.start();
    onTestFinished(async () => void (await worker.stop()));
    return inTurn(async (party) => {
      const { text, key } = await record.answer(MAIL, party);
      const resultOf = async () => (await nt.store.read([key]))[0]?.record.result;
      await expect.poll(resultOf, { timeout: 20_000 }).toBeTruthy();
      return `${text} ${JSON.stringify(await resultOf())}`;
    });
  },
  ...Object.fromEntries(
    ([true, false] as const).map((onLedger) => [
      `toolMemory, ${onLedger ? "on a ledger" : "in the process"}`,
      async ({ nt, provider }: Place) => {
        const memories = new Map<string, ToolMemory>();
        const memoryOf = (scope: string) => {
          // On a ledger each request may be another process's.
          const known = onLedger ? undefined : memories.get(scope);
          const memory = known ?? toolMemory({ scope, ...(onLedger && { nt, tools: { send_mail: { key } } }) });
          memories.set(scope, memory);
          return memory;
        };
        return inTurn(async ({ session }, id) =>
          textOf(await memoryOf(session).call("send_mail", MAIL, () => sendMail(provider.url, MAIL), id)),
        );
      },
    ]),
  ),
  ...Object.fromEntries(
    [6, 7].map((version) => [
      `AI SDK ${version}`,
      async ({ nt, provider }: Place) => {
        const { ai, Model } = aiAgent(version) as Any;
        const contextSchema = z.object({ session: z.string() });
        const execute = (mail: Any) => sendMail(provider.url, mail);
        const send_mail = ai.tool({ inputSchema, contextSchema, execute });
        const scope = ({ context, experimental_context }: Any) => (context ?? experimental_context).session;
        const tools = guardAiTools(nt, { send_mail }, { scope, tools: { send_mail: { key } } } as Any) as Any;
        const stopWhen = ai.stepCountIs?.(9) ?? ai.isStepCount(9);
        return async ({ session }: Party, times: number) => {
          const steps = ids(times).map((id) => [["send_mail", MAIL, id]]);
          const model = calling(Model, steps) as Any;
          const given =
            version === 6 ? { experimental_context: { session } } : { toolsContext: { send_mail: { session } } };
          await ai.generateText({ model, prompt: "mail", tools, stopWhen, ...given });
          return toldBy(model).map((output: unknown) => JSON.stringify(output));
        };
      },
    ]),
  ),
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
};

/** Calls one after the other, as a loop of one's own makes them. */
function inTurn(call: (party: Party, id: string) => Promise<string>): Ask {
  return async (party, times) => {
    const told: string[] = [];
    for (const id of ids(times)) told.push(await call(party, id));
    return told;
  };
}

const textOf = (answer: Any) => `${answer.note ?? ""} ${JSON.stringify(answer.result ?? answer)}`;

function guardedBy(nt: Nevertwice, provider: MailProvider, scope: ((party: Party) => string) | null): Ask {
  const send = guardTool(nt, { name: "send_mail", key, scope } as Any, (mail: typeof MAIL) =>
    sendMail(provider.url, mail),
  );
  return inTurn(async (party) => textOf(await send.answer(MAIL, party as never)));
}

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

async function place(): Promise<Place> {
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return { nt, provider: await startMailProvider() };
}

describe.each(Object.entries(WRAPPERS))("%s", (_, setUp) => {
  it("no answer of one conversation reaches another, at once and one after the other", {
    timeout: 120_000,
  }, async () => {
    const at = await place();
    await noAnswerGoesAstray(await setUp(at), at.provider);
  });
});

it("with one scope for all, the matrix sees that answers go astray", async () => {
  const { nt, provider } = await place();
  await expect(noAnswerGoesAstray(guardedBy(nt, provider, null), provider)).rejects.toThrow(/expected/);
  expect(provider.mails).toHaveLength(1);
});
