/** What the compiler must still know after a tool was guarded; `tsc -p test/agents` reads this file, vitest runs it. */
import { tool as claudeTool, createSdkMcpServer, type Options } from "@anthropic-ai/claude-agent-sdk";
import { ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { createTool } from "@mastra/core/tools";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { Agent, tool as openaiTool, webSearchTool } from "@openai/agents";
import { tool as aiTool, type InferToolInput, type InferToolOutput } from "ai";
import { tool as aiTool6, type InferToolOutput as InferToolOutput6 } from "ai-6";
import { createMiddleware } from "langchain";
import { expect, expectTypeOf, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardAiTool, guardAiTools } from "../../dist/agents/frameworks/ai-sdk.js";
import { claudeGuard } from "../../dist/agents/frameworks/claude-agent-sdk.js";
import { guardLangChainTool, guardLangChainTools, guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { guardMastraTool, guardMastraTools } from "../../dist/agents/frameworks/mastra.js";
import { guardOpenAiTool, guardOpenAiTools, type OpenAiCall } from "../../dist/agents/frameworks/openai-agents.js";
import { guardTool, type ToolsOptions } from "../../dist/agents/index.js";
import { guardMcpServer, guardMcpTool, sessionOf, subjectOf } from "../../dist/agents/mcp/server/index.js";
import { nevertwice } from "../../dist/index.js";

function open() {
  const nt = nevertwice({ store: "memory:", sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

const mail = z.object({ to: z.string(), body: z.string() });

it("guardTool: input, what the framework hands over, and result", async () => {
  const tool = guardTool(
    open(),
    { name: "send", key: ["to"], free: ["body"], scope: (extra: { thread: string }) => extra.thread },
    async (input: z.infer<typeof mail>, extra) => ({ id: `${input.to}-${extra.thread}` }),
  );
  expectTypeOf(tool).parameter(0).toEqualTypeOf<{ to: string; body: string }>();
  expect(await tool({ to: "ada", body: "Hello" }, { thread: "t" })).toEqual({ id: "ada-t" });
  // @ts-expect-error a field that the input has not
  guardTool(open(), { name: "send", scope: null, key: ["recipient"] }, async (input: z.infer<typeof mail>) => input);
});

it("AI SDK 7 and 6: input and output of each tool", () => {
  const tools = guardAiTools(
    open(),
    {
      send: aiTool({ inputSchema: mail, execute: async ({ to }) => ({ id: to }) }),
      now: aiTool({ inputSchema: z.object({}), execute: async () => 1 }),
    },
    { scope: null },
  );
  expectTypeOf<InferToolInput<typeof tools.send>>().toEqualTypeOf<{ to: string; body: string }>();
  expectTypeOf<InferToolOutput<typeof tools.send>>().toEqualTypeOf<{ id: string }>();
  expectTypeOf(guardAiTool(open(), "send", tools.send, { scope: null })).toEqualTypeOf(tools.send);
  const old = guardAiTools(
    open(),
    { send: aiTool6({ inputSchema: mail, execute: async ({ to }) => ({ id: to }) }) },
    { scope: null },
  );
  expectTypeOf<InferToolOutput6<typeof old.send>>().toEqualTypeOf<{ id: string }>();
  expect(Object.keys(tools)).toEqual(["send", "now"]);
  // @ts-expect-error there is no such tool
  const misspelt = () => guardAiTools(open(), { send: tools.send }, { scope: null, tools: { sned: {} } });
  expect(misspelt).toThrow(/sned, but there is no such tool/);
  guardAiTools(open(), { send: tools.send }, { scope: null, tools: { send: { key: ["to"], free: ["body"] } } });
  guardAiTools(open(), { send: tools.send }, { scope: null, tools: { send: { key: (i) => [i.to.toLowerCase()] } } });
  expect(() =>
    // @ts-expect-error the tool's input has no such field
    guardAiTools(open(), { send: tools.send }, { scope: null, tools: { send: { key: ["recipient"] } } }),
  ).toThrow(/takes no such argument/);
  // @ts-expect-error the tool's input has no such field
  guardAiTools(open(), { send: tools.send }, { scope: null, tools: { send: { free: ["text"] } } });
  const some: Readonly<Record<string, typeof tools.send>> = { send: tools.send };
  guardAiTools(open(), some, { scope: null, tools: { send: { key: ["to"] } } });
});

it("OpenAI Agents: the factory infers as before", () => {
  const tool = guardOpenAiTools(open(), openaiTool, { scope: null });
  expectTypeOf(tool).toEqualTypeOf<typeof openaiTool>();
  const send = tool({ name: "send", description: "sends", parameters: mail, execute: async ({ to }) => to.length });
  expect(send.name).toBe("send");
});

it("OpenAI Agents: finished tools stay what they were, one by one, in a list and in a record", () => {
  const send = openaiTool({
    name: "send",
    description: "sends",
    parameters: mail,
    execute: async ({ to }) => to.length,
  });
  const look = openaiTool({ name: "look", description: "looks", parameters: mail, execute: async ({ to }) => to });
  expectTypeOf(guardOpenAiTool(open(), send, { scope: null })).toEqualTypeOf(send);
  expectTypeOf(guardOpenAiTools(open(), send, { scope: null })).toEqualTypeOf(send);
  const list = guardOpenAiTools(open(), [send, look, webSearchTool()], { scope: null });
  const record = guardOpenAiTools(
    open(),
    { send, look },
    { scope: null, tools: { send: { key: ["to"] }, look: false } },
  );
  expectTypeOf(record).toEqualTypeOf<{ send: typeof send; look: typeof look }>();
  // @ts-expect-error there is no such tool
  expect(() => guardOpenAiTools(open(), { send }, { tools: { sned: {} } })).toThrow(/no such tool/);
  expect(() => guardOpenAiTools(open(), [send], { tools: { sned: {} } })).toThrow(/no such tool/);
  const agent = new Agent({ name: "a", instructions: "b", tools: [...list, record.send] });
  expect(agent.tools).toHaveLength(4);
  // @ts-expect-error a text is no tool
  expect(() => guardOpenAiTool(open(), "send")).toThrow(/no tool of the OpenAI Agents SDK/);
});

it("Claude Agent SDK: a definition stays what it was, and fits createSdkMcpServer", () => {
  const guard = claudeGuard(open());
  const send = claudeTool("send", "sends", mail.shape, async ({ to }) => ({ content: [{ type: "text", text: to }] }));
  expectTypeOf(guard.tool(send)).toEqualTypeOf(send);
  expect(createSdkMcpServer(guard.server({ name: "mail", tools: [send] })).name).toBe("mail");
  const own = { Stop: [{ hooks: [] }] };
  const options: Options = { hooks: guard.hooks(own) };
  expect(options.hooks?.PreToolUse).toHaveLength(1);
  expect(Object.keys(guard.hooks(own))).toEqual(["Stop", "PreToolUse", "PostToolBatch"]);
});

it("MCP servers, LangChain, Mastra: the same types in and out", () => {
  const server = guardMcpServer(open(), new McpServer({ name: "a", version: "1" }), { scope: subjectOf });
  expectTypeOf(server).toEqualTypeOf<McpServer>();
  server.registerTool("send", { inputSchema: mail.shape }, async ({ to }) => ({
    content: [{ type: "text", text: to }],
  }));
  server.tool("old", mail.shape, async ({ to }) => ({ content: [{ type: "text", text: to }] }));
  const two = guardMcpServer(open(), new McpServer2({ name: "a", version: "1" }), {
    scope: sessionOf,
    tools: { send: { key: ["to"], declined: "answer" } },
  });
  const low = guardMcpServer(open(), new Server({ name: "a", version: "1" }, { capabilities: { tools: {} } }), {
    scope: ({ authInfo }) => authInfo?.clientId,
  });
  expectTypeOf(low).toEqualTypeOf<Server>();
  // @ts-expect-error there is no default for whose calls they are
  expect(() => guardMcpServer(open(), new McpServer({ name: "a", version: "1" }), {})).toThrow(/scope is missing/);
  const callback = async ({ to }: { to: string }) => ({ content: [{ type: "text" as const, text: to }] });
  expectTypeOf(guardMcpTool(open(), "send", { inputSchema: mail }, callback, { scope: null })).toEqualTypeOf(callback);
  two.registerTool("send", { inputSchema: mail }, async ({ to }) => ({ content: [{ type: "text", text: to }] }));

  const send = langchainTool(async ({ to }) => to, { name: "send", description: "sends", schema: mail });
  expectTypeOf(guardLangChainTool(open(), send)).toEqualTypeOf(send);
  expectTypeOf(guardLangChainTools(open(), { send })).toEqualTypeOf<{ send: typeof send }>();
  expectTypeOf(guardLangChainTools(open(), [send])).toEqualTypeOf<(typeof send)[]>();
  // @ts-expect-error there is no such tool
  expect(() => guardLangChainTools(open(), { send }, { tools: { sned: {} } })).toThrow(/no such tool/);
  createMiddleware({ name: "nevertwice", wrapToolCall: guardToolCalls(open(), { ToolMessage }) });

  const made = createTool({
    id: "send",
    description: "sends",
    inputSchema: mail,
    execute: async ({ to }) => ({ id: to }),
  });
  expectTypeOf(guardMastraTools(open(), { made })).toEqualTypeOf<{ made: typeof made }>();
  expectTypeOf(guardMastraTool(open(), made)).toEqualTypeOf(made);
  // @ts-expect-error there is no such tool
  expect(() => guardMastraTools(open(), { made }, { tools: { mad: {} } })).toThrow(/no such tool/);
  guardMastraTools(open(), { made }, { tools: { made: { key: ["to"] } } });
  expect(() =>
    // @ts-expect-error the tool's input has no such field
    guardMastraTools(open(), { made }, { tools: { made: { key: ["recipient"] } } }),
  ).toThrow(/takes no such argument/);
});

it("scopes of a program's own context, written as in the documents", () => {
  const send = aiTool({ inputSchema: mail, execute: async ({ to }) => ({ id: to }) });
  guardAiTools(open(), { send }, { scope: ({ context }) => context.conversationId });
  guardAiTools(open(), { send }, { scope: ({ experimental_context }) => experimental_context.conversationId });
  const options: ToolsOptions<OpenAiCall> = { scope: ({ runContext }) => runContext?.context.ticket };
  expect(guardOpenAiTools(open(), openaiTool, options)).toBeTypeOf("function");
  expect(guardLangChainTools(open(), [], { scope: ({ configurable }) => configurable?.user_id })).toEqual([]);
  // @ts-expect-error a word that is no option
  expect(() => guardAiTools(open(), { send }, { scop: "s" })).toThrow(/there is no option "scop"/);
});
