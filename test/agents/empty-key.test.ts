/** A key is never empty: a tool whose arguments are all free would get the first result for ever. Told where the tool is guarded. */
import { tool as claudeTool } from "@anthropic-ai/claude-agent-sdk";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langChainTool } from "@langchain/core/tools";
import { createTool } from "@mastra/core/tools";
import { Agent, MCPServerStdio, tool as openAiTool, Runner } from "@openai/agents";
import * as seven from "ai";
import * as six from "ai-6";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardAiTools } from "../../dist/agents/frameworks/ai-sdk.js";
import { claudeGuard } from "../../dist/agents/frameworks/claude-agent-sdk.js";
import { guardLangChainTools, guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { guardMastraTools } from "../../dist/agents/frameworks/mastra.js";
import { guardOpenAiMcpServer, guardOpenAiTools } from "../../dist/agents/frameworks/openai-agents.js";
import { guardTool, toolMemory } from "../../dist/agents/index.js";
import { guardMcpServer } from "../../dist/agents/mcp/server/index.js";
import { Scripted } from "./lib/agents/langchain-model.mjs";
import { scripted } from "./lib/agents/openai-agents.mjs";
import { startMailProvider } from "./lib/mail-provider.ts";
import { connect as connectStdio, folder, MAIL_SERVER, proxied, said } from "./lib/mcp.ts";
import { type Any, connect, INFO, NEWEST, openLedger } from "./lib/mcp-sdks.ts";

const shape = { to: z.string(), body: z.string() };
const schema = z.object(shape);
const none = z.object({});
const json = { type: "object", properties: { to: { type: "string" }, body: { type: "string" } } } as const;
const text = { content: [{ type: "text" as const, text: "sent" }] };

/** Guards a tool "send" with this schema and these options. */
const WRAPPERS: Record<string, (options: object, schema: Any) => unknown> = {
  "AI SDK 6": (send, inputSchema) =>
    guardAiTools(openLedger(), { send: six.tool({ inputSchema, execute: async () => 1 } as Any) }, {
      scope: "s",
      tools: { send },
    } as Any),
  "AI SDK 7": (send, inputSchema) =>
    guardAiTools(openLedger(), { send: seven.tool({ inputSchema, execute: async () => 1 } as Any) }, {
      scope: "s",
      tools: { send },
    } as Any),
  "OpenAI Agents, the factory": (send, parameters) =>
    guardOpenAiTools(openLedger(), openAiTool as Any, { scope: "s", tools: { send } })({
      name: "send",
      description: "",
      parameters,
      strict: !("type" in parameters && "properties" in parameters),
      execute: async () => "",
    }),
  "OpenAI Agents, a finished tool": (send, parameters) => {
    const made = openAiTool({
      name: "send",
      description: "",
      parameters,
      strict: !("type" in parameters && "properties" in parameters),
      execute: async () => "",
    } as Any);
    return guardOpenAiTools(openLedger(), [made] as Any, { scope: "s", tools: { send } });
  },
  LangChain: (send, of) =>
    guardLangChainTools(openLedger(), [langChainTool(async () => "", { name: "send", description: "", schema: of })], {
      tools: { send },
    }),
  Mastra: (send, inputSchema) => {
    const made = createTool({ id: "send", description: "", inputSchema, execute: async () => ({}) });
    return guardMastraTools(openLedger(), { send: made }, { tools: { send } } as Any);
  },
  "Claude Agent SDK": (send, of) => {
    const made = claudeTool("send", "", of.shape ?? {}, async () => text);
    return claudeGuard(openLedger(), { tools: { send } }).server({ name: "mail", tools: [made] } as Any);
  },
  ...Object.fromEntries(
    NEWEST.map(({ sdk, McpServer, major }) => [
      `MCP server, SDK ${sdk}`,
      (send: object, of: Any) => {
        const server = guardMcpServer(openLedger(), new McpServer(INFO), { scope: null, tools: { send } }) as Any;
        return server.registerTool("send", { inputSchema: major === 1 ? of.shape : of }, async () => text);
      },
    ]),
  ),
};

const TAKE_JSON = ["AI SDK 6", "AI SDK 7", "OpenAI Agents, the factory", "OpenAI Agents, a finished tool", "LangChain"];

describe.each(Object.keys(WRAPPERS))("%s", (wrapper) => {
  const guard = WRAPPERS[wrapper] as (options: object, schema: unknown) => unknown;

  it("all arguments are free: refused when the tool is guarded", () => {
    expect(() => guard({ free: ["to", "body"] }, schema)).toThrow(/all of its arguments \(to, body\) are free/);
    if (!TAKE_JSON.includes(wrapper)) return;
    const given =
      wrapper === "AI SDK 6" ? six.jsonSchema(json) : wrapper === "AI SDK 7" ? seven.jsonSchema(json) : json;
    expect(() => guard({ free: ["to", "body"] }, given)).toThrow(/all of its arguments \(to, body\) are free/);
  });

  it("a key, an argument that is not free, no arguments at all, a tool that passes: fine", () => {
    guard({ free: ["to", "body"], key: () => ["once"] }, schema);
    guard({ free: ["body"] }, schema);
    guard({ free: ["to"] }, none);
    guard({ free: ["to", "body"], readOnly: true }, schema);
  });
});

describe("where no schema is known, the call whose arguments are all free is refused, and nothing runs", () => {
  const told = /all arguments of this call \(to\) are free, so that nothing is left for the key\. Nothing was run/;

  it("guardTool; observed, it runs and is not recorded", async () => {
    let runs = 0;
    const run = async (_: object) => ++runs;
    const options = { name: "send", free: ["to"], scope: null } as Any;
    const send = guardTool(openLedger(), options, run) as Any;
    await expect(send({ to: "ada" }, undefined)).rejects.toMatchObject({
      code: "INVALID_KEY",
      message: expect.stringMatching(told),
    });
    expect([await send({}, undefined), await send({}, undefined), await send({ to: "ada", id: 1 }, undefined)]).toEqual(
      [1, 1, 2],
    );
    const warnings: string[] = [];
    const nt = openLedger({ onWarning: ({ code }: Any) => warnings.push(code) });
    expect(await (guardTool(nt, { ...options, mode: "observe" }, run) as Any)({ to: "ada" }, undefined)).toBe(3);
    expect(warnings).toContain("OBSERVE_UNRECORDED");
  });

  it("toolMemory on a ledger", async () => {
    const memory = toolMemory({ nt: openLedger(), scope: "s", tools: { send: { free: ["to"] } } } as Any);
    const call = async (args: object) => memory.call("send", args as Any, async () => "sent");
    await expect(call({ to: "ada" })).rejects.toThrow(told);
  });

  it("AI SDK, a schema without fields", async () => {
    const made = seven.tool({ inputSchema: z.record(z.string(), z.string()), execute: async () => 1 });
    const { send } = guardAiTools(openLedger(), { send: made }, {
      scope: "s",
      tools: { send: { free: ["to"] } },
    } as Any) as Any;
    await expect(send.execute({ to: "ada" }, { toolCallId: "a", messages: [] })).rejects.toThrow(told);
  });

  it("LangChain's middleware", async () => {
    let runs = 0;
    const send = langChainTool(async () => `${++runs}`, { name: "send", description: "", schema });
    const wrapToolCall = guardToolCalls(openLedger(), { ToolMessage, scope: "s", tools: { send: { free: ["to"] } } });
    const model = new Scripted([[{ name: "send", args: { to: "ada" }, id: "a", type: "tool_call" }]]);
    const agent = createAgent({ model, tools: [send], middleware: [createMiddleware({ name: "n", wrapToolCall })] });
    await expect(agent.invoke({ messages: [new AIMessage("go")] })).rejects.toThrow(told);
    expect(runs).toBe(0);
  });

  it.each(NEWEST)("the low-level Server of SDK $sdk", async ({ Server, major, methods }) => {
    let runs = 0;
    const server = new Server(INFO, { capabilities: { tools: {} } });
    guardMcpServer(openLedger(), server, {
      scope: null,
      tools: { send: { free: ["to"] }, other: { free: ["to", "body"] } },
    });
    const tools = [
      { name: "send", inputSchema: json },
      { name: "other", inputSchema: json },
    ];
    server.setRequestHandler(methods.list, () => ({ tools }));
    server.setRequestHandler(methods.call, () => ({ content: [{ type: "text", text: `run ${++runs}` }] }));
    const { client } = await connect(server, major);
    const call = (name: string) => client.callTool({ name, arguments: { to: "ada" } });
    await expect(call("send")).rejects.toThrow(told);
    await expect(call("other")).rejects.toThrow(/all of its arguments \(to, body\) are free/);
    expect(runs).toBe(0);
  });
});

it("an MCP server of OpenAI Agents: refused with the server's list, before the model is asked", async () => {
  const provider = await startMailProvider();
  const server = new MCPServerStdio({
    name: "mail",
    command: process.execPath,
    args: [MAIL_SERVER, "stdio", provider.url],
  });
  onTestFinished(() => server.close());
  const free = ["to", "body", "amount"];
  const guarded = guardOpenAiMcpServer(openLedger(), server as Any, {
    scope: "s",
    tools: { send_mail: { free } },
  }) as Any;
  await guarded.connect();
  const model = scripted([[{ to: "ada" }]]) as Any;
  const run = new Runner().run(new Agent({ name: "a", instructions: "b", model, mcpServers: [guarded] }), "mail them");
  await expect(run).rejects.toThrow(/tool "send_mail": all of its arguments \(to, body, amount\) are free/);
  expect(provider.mails).toHaveLength(0);
});

it("the proxy: the call is refused, and nothing is sent", async () => {
  const provider = await startMailProvider();
  const config = { tools: { send_mail: { free: ["to", "body"] } } };
  const { client } = await connectStdio(proxied(folder(), [MAIL_SERVER, "stdio", provider.url], config));
  const call = (args: object) => client.callTool({ name: "send_mail", arguments: { ...args } });
  const refused = await call({ to: "ada", body: "Hello" });
  expect(refused.isError).toBe(true);
  expect(said(refused)).toMatch(/^Not run: tool "send_mail": all arguments of this call \(to, body\) are free/);
  expect(said(await call({ to: "ada", amount: 5 }))).toBe("sent mail_1");
  expect(provider.mails).toHaveLength(1);
});
