/** What the wrappers do by shape; against the real packages they are tested in test/agents. */

import { describe, expect, it, onTestFinished } from "vitest";
import { FakeMcpServer } from "../../../test/support/fake-mcp-server.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { guardMcpServer, guardMcpTool, subjectOf } from "../mcp/server/index.ts";
import { statusTool } from "../status-tool.ts";
import { guardAiTool, guardAiTools } from "./ai-sdk.ts";
import { claudeGuard } from "./claude-agent-sdk.ts";
import { guardLangChainTool, guardLangChainTools, guardToolCalls } from "./langchain.ts";
import { guardMastraTool, guardMastraTools } from "./mastra.ts";
import { guardOpenAiTools } from "./openai-agents.ts";

function open() {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

const aiCall = (toolCallId: string) => ({ toolCallId, messages: [] });

describe("AI SDK", () => {
  it("a tool that yields shows its values while it runs; a repeat yields the first result alone", async () => {
    let runs = 0;
    const counting = {
      async *execute(_input: object, _call: object) {
        runs += 1;
        yield "one";
        yield "two";
        yield { final: runs };
      },
    };
    const tool = guardAiTool(open(), "count", counting, { scope: null }) as unknown as {
      execute(input: object, call: object): AsyncIterable<unknown>;
    };
    const seen = async (id: string) => {
      const values = [];
      for await (const value of tool.execute({}, aiCall(id))) values.push(value);
      return values;
    };
    expect(await seen("c1")).toEqual(["one", "two", { final: 1 }]);
    expect(await seen("c2")).toEqual([{ final: 1 }]);
  });

  it("the note about a repeat goes to the model, in whatever form the tool's output has", async () => {
    const nt = open();
    const make = (name: string, toModelOutput?: unknown) =>
      guardAiTool(
        nt,
        name,
        { execute: async () => ({ id: 1 }), ...(toModelOutput !== undefined && { toModelOutput }) },
        { scope: null },
      ) as unknown as {
        execute(input: object, call: object): Promise<unknown>;
        toModelOutput(given: object): unknown;
      };
    const told = async (tool: ReturnType<typeof make>, id: string) => {
      const output = await tool.execute({}, aiCall(id));
      return tool.toModelOutput({ toolCallId: id, input: {}, output });
    };
    const plain = make("plain");
    expect(await told(plain, "c1")).toEqual({ type: "json", value: { id: 1 } });
    expect(await told(plain, "c2")).toMatchObject({
      type: "json",
      value: { note: expect.stringMatching(/^Already/), result: { id: 1 } },
    });
    const text = make("text", () => ({ type: "text", value: "it is 1" }));
    await told(text, "c1");
    expect(await told(text, "c2")).toMatchObject({
      type: "text",
      value: expect.stringMatching(/^Already.*\nit is 1$/s),
    });
    const content = make("content", async () => ({ type: "content", value: [{ type: "text", text: "x" }] }));
    await told(content, "c1");
    expect(await told(content, "c2")).toMatchObject({
      type: "content",
      value: [{ text: expect.stringMatching(/^Already/) }, { text: "x" }],
    });
  });

  it("tools without execute pass", () => {
    const provider = { type: "provider" };
    expect(guardAiTool(open(), "search", provider)).toBe(provider);
    expect(() => guardAiTool(open(), "search", undefined as never)).toThrow(/the third argument must be a tool/);
  });
});

describe("Claude Agent SDK", () => {
  it("the scope is the session the hook learned; read-only tools stay as they are", async () => {
    const guard = claudeGuard(open(), { tools: { send: { key: ["to"] } } });
    let runs = 0;
    const result = () => ({ content: [{ type: "text", text: `sent ${++runs}` }] });
    const send = guard.tool({ name: "send", handler: async (_args: { to: string }, _extra: unknown) => result() });
    const read = { name: "read", annotations: { readOnlyHint: true }, handler: async () => result() };
    expect(guard.tool(read)).toBe(read);
    const [learn] = guard.hooks().PreToolUse[0]?.hooks ?? [];
    const call = async (session_id: string, id: string) => {
      await learn?.({ session_id, tool_use_id: id });
      const { content } = (await send.handler({ to: "ada" }, { _meta: { "claudecode/toolUseId": id } })) as {
        content: { text: string }[];
      };
      return content.at(-1)?.text;
    };
    expect([await call("s1", "a"), await call("s1", "b"), await call("s2", "c")]).toEqual([
      "sent 1",
      "sent 1",
      "sent 2",
    ]);
  });

  it("K2: without the hook the session is not known: nothing runs, and it says what to install", async () => {
    const tool = { name: "send", handler: async () => ({ content: [{ type: "text", text: "sent" }] }) };
    const extra = { _meta: { "claudecode/toolUseId": "a" } };
    const call = (guard: ReturnType<typeof claudeGuard>) => guard.tool(tool).handler(...([{}, extra] as unknown as []));
    await expect(call(claudeGuard(open()))).rejects.toThrow(
      /send was not run.*its session is not known.*install .*guard\.hooks\(\).* or null/,
    );
    expect(await call(claudeGuard(open(), { scope: null }))).toMatchObject({ content: [{ text: "sent" }] });
  });

  it("hooks of one's own stay; a misspelled tool is an error", () => {
    const mine = { PreToolUse: [{ hooks: [] }], Stop: [] };
    expect(claudeGuard(open()).hooks(mine).PreToolUse).toHaveLength(2);
    const guard = claudeGuard(open(), { tools: { sned: {} } });
    expect(() => guard.server({ tools: [{ name: "send", handler: async () => ({}) }] })).toThrow(
      /sned, but there is no such tool/,
    );
  });
});

describe("MCP servers", () => {
  it("callbacks with and without arguments, the older tool(), and what is left alone", async () => {
    let runs = 0;
    const run = async () => ({ content: [{ type: "text", text: `run ${++runs}` }] });
    const server = guardMcpServer(open(), new FakeMcpServer(), { scope: null, tools: { alone: false } });
    server.registerTool("plain", {}, run);
    server.registerTool("alone", { inputSchema: {} }, run);
    server.tool("old", "described", { to: {} }, run);
    server.tool("reads", "described", { readOnlyHint: true }, run);
    const last = async (name: string, ...args: unknown[]) => {
      const { content } = (await server.handler(name)(...args)) as {
        content: { text: string }[];
      };
      return content.at(-1)?.text;
    };
    expect([await last("plain", {}), await last("plain", {})]).toEqual(["run 1", "run 1"]);
    expect([await last("alone", {}, {}), await last("alone", {}, {})]).toEqual(["run 2", "run 3"]);
    expect([await last("old", { to: "a" }, {}), await last("old", { to: "a" }, {})]).toEqual(["run 4", "run 4"]);
    expect([await last("reads", {}), await last("reads", {})]).toEqual(["run 5", "run 6"]);
  });

  it("the scope is the token's subject, not the client's id; control flow goes through", async () => {
    let runs = 0;
    const server = guardMcpServer(open(), new FakeMcpServer(), { scope: subjectOf });
    server.registerTool("ask", { inputSchema: {} }, async () =>
      ++runs === 1 ? { resultType: "input_required" } : { content: [] },
    );
    const ask = (sub: string) =>
      server.handler("ask")({ a: 1 }, { http: { authInfo: { clientId: "app", extra: { sub } } } });
    expect(await ask("c1")).toEqual({ resultType: "input_required" });
    expect(await ask("c1")).toEqual({ content: [] });
    expect(await ask("c1")).toMatchObject({ content: [{ text: expect.stringMatching(/^Already done/) }] });
    expect(await ask("c2")).toEqual({ content: [] });
    expect(runs).toBe(3);
    await expect(server.handler("ask")({ a: 1 }, { authInfo: { clientId: "app" } })).rejects.toThrow(/no subject/);
    await expect(server.handler("ask")({ a: 1 }, {})).rejects.toMatchObject({ code: "INVALID_KEY" });
    expect(() => guardMcpServer(open(), {} as never, { scope: null })).toThrow(/must be an McpServer or a Server/);
    expect(() => guardMcpServer(open(), { registerTool: () => {} }, { scope: null })).toThrow(/older or newer/);
    expect(() => guardMcpServer(open(), { tool: () => {} } as never, { scope: null })).toThrow(
      /has no registerTool.*older/,
    );
    expect(() => guardMcpServer(open(), new FakeMcpServer(), {} as never)).toThrow(/scope is missing.*subjectOf/);
    expect(() => guardMcpTool(open(), "x", {}, async () => ({}), {} as never)).toThrow(/scope is missing/);
  });
});

describe("LangChain", () => {
  it("content and artifact stay a pair; a tool that yields returns its return value", async () => {
    const made = {
      name: "pair",
      responseFormat: "content_and_artifact",
      _call: async (_input: unknown) => ["text", { rows: 1 }],
    };
    const pair = guardLangChainTool(open(), made, { scope: null });
    expect(await pair._call({})).toEqual(["text", { rows: 1 }]);
    expect(await pair._call({})).toEqual(["text", { rows: 1 }]);
    const chunks: unknown[] = [];
    const yielding = {
      name: "yields",
      async *_call(_input: unknown, _manager: unknown) {
        yield "a";
        return "done";
      },
    };
    const yields = guardLangChainTool(open(), yielding, { scope: null }) as unknown as {
      _call(input: unknown, manager: object): Promise<unknown>;
    };
    expect(await yields._call({}, { handleToolEvent: (chunk: unknown) => chunks.push(chunk) })).toBe("done");
    expect(chunks).toEqual(["a"]);
    expect(() => guardLangChainTool(open(), { name: "x" })).toThrow(/it has no _call/);
  });

  it("the middleware keeps a message's fields, and gives each repeat its own call id", async () => {
    class Message {
      constructor(fields: object) {
        Object.assign(this, fields);
      }
    }
    const wrap = guardToolCalls(open(), { ToolMessage: Message, scope: null });
    const request = (id: string) => ({ toolCall: { name: "post", args: { topic: "a" }, id } });
    const handler = async ({ toolCall }: ReturnType<typeof request>) =>
      new Message({ content: "posted", tool_call_id: toolCall.id, artifact: [1] });
    expect(await wrap(request("c1"), handler)).toMatchObject({ content: "posted", tool_call_id: "c1" });
    const again = await wrap(request("c2"), handler);
    expect(again).toMatchObject({
      content: expect.stringMatching(/^Already.*posted$/s),
      tool_call_id: "c2",
      artifact: [1],
    });
    expect(() => guardToolCalls(open(), {} as never)).toThrow(/pass the class ToolMessage/);
  });
});

describe("options for several tools", () => {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  const sets: [string, (options: object) => unknown][] = [
    ["guardAiTools", (options) => guardAiTools(nt, {}, options)],
    ["claudeGuard", (options) => claudeGuard(nt, options)],
    ["guardMcpServer", (options) => guardMcpServer(nt, new FakeMcpServer(), options as never)],
    ["guardLangChainTools", (options) => guardLangChainTools(nt, [], options)],
    ["guardToolCalls", (options) => guardToolCalls(nt, { ToolMessage: class {} as never, ...options })],
    ["guardOpenAiTools", (options) => guardOpenAiTools(nt, () => {}, options)],
    ["guardMastraTools", (options) => guardMastraTools(nt, {}, options)],
  ];
  it.each(sets)("%s: a misspelled word, or what are no options, is an error", (where, guard) => {
    expect(() => guard({ scop: "s" })).toThrow(
      `${where}: there is no option "scop". The options are: tools, otherTools`,
    );
    expect(() => guard({ key: ["to"] })).toThrow(/What is for one tool goes into tools/);
    expect(() => guard({ tools: { send: true } })).toThrow(
      /the options of "send" are true; give an object .* or false/,
    );
    expect(() => guard({ tools: ["send"] })).toThrow(/tools takes a record of options by the tool's name/);
    expect(() => guard({ otherTools: "none" })).toThrow(/the options of "otherTools" are "none"/);
  });
});

describe("OpenAI Agents and Mastra", () => {
  it("what is not a tool is refused", () => {
    expect(() => guardOpenAiTools(open(), "tool" as never)).toThrow(/must be a record of tools or a list of them/);
    expect(() => guardOpenAiTools(open(), { send: {} as never })).toThrow(/that is no tool of the OpenAI Agents SDK/);
    expect(() => guardMastraTools(open(), [] as never)).toThrow(/must be a record of tools\./);
    expect(() => guardMastraTool(open(), { id: "x" })).toThrow(/must be a tool made by createTool\(\)/);
  });
});

describe("the status tool", () => {
  it("A4: says the outcome of each kind of call, and runs nothing", async () => {
    const nt = open();
    const status = statusTool(nt);
    const lost = nt.action("lost", { run: async (_i: { id: number }) => Promise.reject(new Error("hang up")) });
    const refused = nt.action("refused", {
      run: async (_i: { id: number }) => Promise.reject(Object.assign(new Error("no"), { status: 422 })),
    });
    const done = nt.action("done", { run: async (_i: { id: number }) => 1 });
    const answers = [];
    for (const action of [lost, refused, done]) {
      const { key } = await action.attempt({ id: 1 });
      answers.push(await status.execute({ reference: ` ${key} ` }));
    }
    expect(answers).toEqual([
      expect.stringMatching(/^It may have happened \(2.*Do not repeat it/),
      expect.stringMatching(/^It did not happen: no\. It may be called again\./),
      expect.stringMatching(/^Done at .*Do not repeat it\./),
    ]);
    expect(await status.execute({ reference: await done.keyOf({ id: 2 }) })).toMatch(/^Not known/);
    expect(await status.execute({ reference: "msg_1" })).toMatch(/^That is no reference/);
    expect(await status.execute({})).toMatch(/^That is no reference/);
  });
});
