/** `repeats` where a framework makes only some calls of a turn again, and where it tells no turn. The stories have the rest. */
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langChainTool } from "@langchain/core/tools";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { createTool } from "@mastra/core/tools";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { Agent, MCPServerStdio, tool as openAiTool, Runner, RunState } from "@openai/agents";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardAiTools } from "../../dist/agents/frameworks/ai-sdk.js";
import { guardLangChainTool } from "../../dist/agents/frameworks/langchain.js";
import { guardMastraTool } from "../../dist/agents/frameworks/mastra.js";
import { guardOpenAiMcpServer, guardOpenAiTools } from "../../dist/agents/frameworks/openai-agents.js";
import { guardMcpServer, guardMcpTool } from "../../dist/agents/mcp/server/index.js";
import { agent } from "./lib/agents/ai-sdk.mjs";
import { calling } from "./lib/agents/ai-sdk-model.mjs";
import { scripted } from "./lib/agents/openai-agents.mjs";
import { startMailProvider } from "./lib/mail-provider.ts";
import { connectHttp, MAIL_SERVER, said } from "./lib/mcp.ts";
import { type Any, connect, INFO, openLedger, SDKS } from "./lib/mcp-sdks.ts";

const shape = { to: z.string() };
const ada = { to: "ada" };

describe.each([6, 7])("AI SDK %i", (version) => {
  const { ai, Model } = agent(version) as Any;

  it("two identical calls are approved one after the other, each twice: both run once", async () => {
    let sent = 0;
    const send = ai.tool({ inputSchema: z.object(shape), needsApproval: true, execute: async () => `mail_${++sent}` });
    const nt = openLedger();
    const tools = () => guardAiTools(nt, { send }, { scope: "s", tools: { send: { repeats: 2 } } });
    const model = calling(Model, [["a", "b"].map((id) => ["send", ada, id])]);
    const asked = await ai.generateText({ model, prompt: "mail them", tools: tools() });
    const requests = asked.content.filter(({ type }: Any) => type === "tool-approval-request");
    const approve = async ({ approvalId }: Any) => {
      const response = { type: "tool-approval-response", approvalId, approved: true };
      const messages = [{ role: "user", content: "mail them" }, ...asked.response.messages];
      // The other call has no answer yet, so that the model cannot be asked: the tool has run by then.
      const given = [...messages, { role: "tool", content: [response] }];
      await ai.generateText({ model: calling(Model, []), messages: given, tools: tools() }).catch(() => {});
    };
    for (const request of [...requests, ...requests]) await approve(request);
    expect(sent).toBe(2);
  });
});

describe("LangChain", () => {
  const setUp = () => {
    let sent = 0;
    const send = langChainTool(async () => `mail_${++sent}`, {
      name: "send",
      description: "",
      schema: z.object(shape),
    });
    const nt = openLedger();
    const node = () => new ToolNode([guardLangChainTool(nt, send, { repeats: 2 })]);
    return { node, send: () => guardLangChainTool(nt, send, { repeats: 2 }), sent: () => sent };
  };
  const thread = { configurable: { thread_id: "t1" } };
  const call = (id: string) => ({ name: "send", args: ada, id, type: "tool_call" as const });
  const asked = new AIMessage({ content: "", tool_calls: [call("a"), call("b")] });

  it("a graph goes on where only the second of two calls has no answer: it is the second", async () => {
    const { node, sent } = setUp();
    const answered = new ToolMessage({ content: "mail_1", tool_call_id: "a" });
    for (let time = 0; time < 2; time += 1) await node().invoke({ messages: [asked, answered] }, thread);
    expect(sent()).toBe(1);
    const { messages } = await node().invoke({ messages: [asked] }, thread);
    expect(messages.map(({ content }: Any) => content)).toEqual([
      "mail_2",
      expect.stringMatching(/^Already done.*mail_1/s),
    ]);
    await node().invoke([asked], thread);
    expect(sent()).toBe(2);
  });

  it("a call that came with no message is its first", async () => {
    const { send, sent } = setUp();
    for (const id of ["a", "b"]) await send().invoke(call(id), thread);
    expect(sent()).toBe(1);
  });
});

describe("OpenAI Agents", () => {
  it("two identical calls are approved one after the other in one run: both run, resumed again neither", async () => {
    let sent = 0;
    const options = { scope: "s", tools: { send: { repeats: 2 } } };
    const definition = { name: "send", description: "", parameters: z.object(shape), needsApproval: true };
    const guarded = guardOpenAiTools(openLedger(), openAiTool, options);
    const send = guarded({ ...definition, execute: async () => `mail_${++sent}` });
    const made = new Agent({
      name: "a",
      instructions: "b",
      model: scripted([[ada, ada]], "send") as Any,
      tools: [send],
    });
    let { state, interruptions } = await new Runner().run(made, "mail them");
    const stored = state.toString();
    while (interruptions.length > 0) {
      state.approve(interruptions[0] as Any);
      ({ state, interruptions } = await new Runner().run(made, state));
    }
    expect(sent).toBe(2);
    const again = (await RunState.fromString(made, stored)) as Any;
    for (const one of again.getInterruptions()) again.approve(one);
    await new Runner().run(made, again);
    expect(sent).toBe(2);
  });

  it("an MCP server of an agent: by the answer of the model that the calls came with", async () => {
    const provider = await startMailProvider();
    const server = new MCPServerStdio({
      name: "mail",
      command: process.execPath,
      args: [MAIL_SERVER, "stdio", provider.url],
    });
    onTestFinished(() => server.close());
    const options = { scope: "s", tools: { send_mail: { key: ["to"], repeats: 2 } } };
    const guarded = guardOpenAiMcpServer(openLedger(), server as Any, options) as Any;
    await guarded.connect();
    const mail = { to: "ada", body: "Hello", amount: 1 };
    const run = async (steps: Any[]) => {
      const model = scripted(steps) as Any;
      await new Runner().run(new Agent({ name: "a", instructions: "b", model, mcpServers: [guarded] }), "mail them");
      return model.seen
        .filter(({ type }: Any) => type === "function_call_result")
        .map(({ output }: Any) => JSON.stringify(output));
    };
    const told = await run([[mail, mail, mail], [mail], [mail, mail]]);
    expect(told.map((one: string) => one.includes("Already done")).filter(Boolean)).toHaveLength(4);
    await run([[mail, mail]]);
    expect(provider.mails).toHaveLength(2);
  });
});

it("Mastra tells no step: repeats without turn is refused when the tool is guarded", () => {
  const send = createTool({ id: "send", description: "", inputSchema: z.object(shape), execute: async () => ({}) });
  expect(() => guardMastraTool(openLedger(), send, { repeats: 2 })).toThrow(
    /tool "send": repeats counts .* nothing says here which turn .*Give turn: \(call\) => /,
  );
});

describe.each(SDKS)("a server of SDK $sdk", ({ McpServer, Server, major, methods, sdk }) => {
  const options = { scope: null, tools: { send: { key: ["to"], repeats: 2, wait: "40s" } } } as Any;
  const text = (said: string) => ({ content: [{ type: "text", text: said }] });

  /** A tool that answers when it is let go. */
  const held = () => {
    const waiting: (() => void)[] = [];
    let begun = 0;
    const run = async () => {
      begun += 1;
      const mine = begun;
      await new Promise<void>((go) => void waiting.push(go));
      return text(`mail_${mine}`);
    };
    const letGo = () => {
      for (const go of waiting.splice(0)) go();
    };
    return { run, letGo, begun: () => begun };
  };
  const begins = (tool: ReturnType<typeof held>, count: number) => expect.poll(tool.begun).toBe(count);
  const listed = { tools: [{ name: "send", inputSchema: { type: "object", properties: { to: { type: "string" } } } }] };

  const serve = (level: string, run: () => unknown, own = options) => {
    const nt = openLedger();
    if (level === "low") {
      const server = guardMcpServer(nt, new Server(INFO, { capabilities: { tools: {} } }), own) as Any;
      server.setRequestHandler(methods.list, () => listed);
      server.setRequestHandler(methods.call, run);
      return { nt, server };
    }
    const server = guardMcpServer(nt, new McpServer(INFO), own) as Any;
    server.registerTool("send", sdk === "1.13.0" ? {} : { inputSchema: major === 1 ? shape : z.object(shape) }, run);
    return { nt, server };
  };
  const args = sdk === "1.13.0" ? {} : ada;
  const keyed = sdk === "1.13.0" ? { ...options, tools: { send: { repeats: 2, wait: "40s" } } } : options;

  it.each(["high", "low"])(
    "%s level: calls under way together are first and second, a later one is a repeat",
    async (level) => {
      const tool = held();
      const { server } = serve(level, tool.run, keyed);
      const { call } = await connect(server, major);
      const calls = [call("send", args), call("send", args)];
      await begins(tool, 2);
      tool.letGo();
      expect((await Promise.all(calls)).toSorted()).toEqual(["mail_1", "mail_2"]);
      expect(await call("send", args)).toMatch(/^Already done at .*mail_[12]/s);
      expect(tool.begun()).toBe(2);
    },
  );

  it("the client gives up and calls again: it is the same call; so it is by a new connection", async () => {
    const tool = held();
    const { nt, server } = serve("high", tool.run, keyed);
    const { client, call } = await connect(server, major);
    const over = new AbortController();
    const given = [{ name: "send", arguments: args }, ...(major === 1 ? [undefined] : []), { signal: over.signal }];
    const first = client.callTool(...given).catch(() => "given up");
    await begins(tool, 1);
    over.abort();
    expect(await first).toBe("given up");
    const again = call("send", args);
    const other = new McpServer(INFO);
    const second = guardMcpServer(nt, other, keyed) as Any;
    second.registerTool(
      "send",
      sdk === "1.13.0" ? {} : { inputSchema: major === 1 ? shape : z.object(shape) },
      tool.run,
    );
    const elsewhere = (await connect(second, major)).call("send", args);
    tool.letGo();
    for (const told of await Promise.all([again, elsewhere])) expect(told).toMatch(/mail_1/);
    expect(tool.begun()).toBe(1);
  });

  it("turn: what the client says in _meta decides; guardMcpTool, which knows no connection, needs it", async () => {
    let sent = 0;
    const turn = (extra: Any) => {
      const { turn: id, call } = extra._meta ?? extra.mcpReq._meta;
      return { call, turn: id };
    };
    const { server } = serve("high", async () => text(`mail_${++sent}`), { ...keyed, turn });
    const { client } = await connect(server, major);
    const call = (id: string, of: string) =>
      client.callTool({ name: "send", arguments: args, _meta: { turn: of, call: id } });
    for (const [id, of] of [
      ["a", "1"],
      ["b", "1"],
      ["a", "1"],
      ["c", "2"],
      ["d", "2"],
    ] as const)
      await call(id, of);
    expect(sent).toBe(2);
    const guard = (own: object) =>
      guardMcpTool(openLedger(), "send", {}, async () => text("sent"), { scope: null, repeats: 2, ...own });
    expect(() => guard({})).toThrow(/Give turn: \(call\) => /);
    guard({ turn });
  });
});

it("over HTTP, where a lost call looks like a second one, an MCP server needs turn, and says so", async () => {
  const { createServer } = await import("node:http");
  const { McpServer } = SDKS[0] as Any;
  let sent = 0;
  const server = guardMcpServer(openLedger(), new McpServer(INFO), {
    scope: null,
    tools: { send: { repeats: 2 } },
  }) as Any;
  server.registerTool("send", { inputSchema: shape }, async () => ({ content: [{ type: "text", text: `${++sent}` }] }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => "s1" });
  await server.connect(transport);
  const listener = createServer((request, response) => void transport.handleRequest(request, response));
  await new Promise<void>((listening) => listener.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    listener.closeAllConnections();
    listener.close();
  });
  const { client } = await connectHttp(`http://127.0.0.1:${(listener.address() as Any).port}`);
  const told = await client.callTool({ name: "send", arguments: ada });
  expect(told.isError).toBe(true);
  expect(said(told)).toMatch(/tool "send": repeats over HTTP needs turn\. Nothing was run.*Give turn: \(extra\) => /);
  expect(sent).toBe(0);
});
