/** A tool that sounds like money, scoped to a session: warned about once, with the remedy. */
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { guardAiTool } from "../frameworks/ai-sdk.ts";
import { claudeGuard } from "../frameworks/claude-agent-sdk.ts";
import { guardLangChainTool, guardToolCalls } from "../frameworks/langchain.ts";
import { guardMastraTool } from "../frameworks/mastra.ts";
import { guardTool } from "../guard-tool.ts";
import type { ProxyConfig } from "../mcp/config.ts";
import { McpGuard } from "../mcp/guard.ts";

// biome-ignore lint/suspicious/noExplicitAny: tools by shape
type Any = any;
type Nt = ReturnType<typeof nevertwice>;

function open() {
  const warnings: { code: string; message: string; action: string }[] = [];
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: (warning) => warnings.push(warning) });
  onTestFinished(() => nt.close());
  const money = () => warnings.filter(({ code }) => code === "MONEY_PER_SESSION");
  return { nt, money };
}

class ToolMessage {
  constructor(fields: object) {
    Object.assign(this, fields);
  }
}

type Session = (session: string | undefined) => Promise<unknown>;
type Wrapper = (nt: Nt, name: string, own: object, whose?: object) => Session;

const WRAPPERS: Record<string, Wrapper> = {
  claudeGuard: (nt, name, own, whose = {}) => {
    const guard = claudeGuard(nt, { tools: { [name]: own }, ...whose } as Any);
    const tool = guard.tool({ name, handler: async () => ({ content: [] }) } as Any) as Any;
    const [learn] = guard.hooks().PreToolUse[0]?.hooks ?? [];
    let calls = 0;
    return async (session) => {
      const id = String(++calls);
      await learn?.({ session_id: session, tool_use_id: id });
      return tool.handler({ order: 7 }, { _meta: { "claudecode/toolUseId": id } });
    };
  },
  guardLangChainTool: (nt, name, own, whose = {}) => {
    const tool = guardLangChainTool(nt, { name, _call: async () => "x" } as Any, { ...own, ...whose } as Any) as Any;
    return (thread_id) => tool._call({ order: 7 }, undefined, { configurable: { thread_id } });
  },
  guardToolCalls: (nt, name, own, whose = {}) => {
    const wrap = guardToolCalls(nt, { ToolMessage, tools: { [name]: own }, ...whose } as Any);
    return (thread_id) =>
      wrap(
        { toolCall: { name, args: { order: 7 }, id: "1" }, runtime: { configurable: { thread_id } } } as Any,
        async () => new ToolMessage({ content: "x", tool_call_id: "1" }) as Any,
      );
  },
  guardMastraTool: (nt, name, own, whose = {}) => {
    const tool = guardMastraTool(nt, { id: name, execute: async () => 1 } as Any, { ...own, ...whose } as Any) as Any;
    return (threadId) => tool.execute({ order: 7 }, { agent: { threadId } });
  },
};

describe.each(Object.entries(WRAPPERS))("%s", (_, wrap) => {
  it("a money-like tool in the wrapper's own scope is warned about once, and the remedy named", async () => {
    const { nt, money } = open();
    const call = wrap(nt, "refund_order", { key: ["order"] });
    for (const session of ["s1", "s1", "s2"]) await call(session);
    expect(money()).toMatchObject([{ action: "refund_order" }]);
    expect(money()[0]?.message).toMatch(
      /refund_order.*new session pays again.*effect: "payment" with scope: null.*key: \["orderId"\]/,
    );
  });

  it.each<[string, object, object]>([
    ["refund_order", { key: ["order"] }, { scope: null }],
    ["refund_order", { key: ["order"] }, { scope: "shop" }],
    ["refund_order", { key: ["order"] }, { scope: () => "order-7" }],
    ["refund_order", { effect: "payment" }, { scope: null }],
    ["refund_order", { effect: "notification" }, {}],
    ["refund_order", { readOnly: true }, {}],
    ["parse_payload", {}, {}],
    ["get_order", {}, {}],
  ])("%s with %j and %j says what holds, or is no money", async (name, own, whose) => {
    const { nt, money } = open();
    const call = wrap(nt, name, own, whose);
    await call("s1");
    expect(money()).toEqual([]);
  });
});

it("where the call is made once in any session, there is no warning", async () => {
  const { nt, money } = open();
  const ai = guardAiTool(nt, "book", { execute: async () => 1 }, { scope: null }) as Any;
  await ai.execute({ a: 1 }, { toolCallId: "1", messages: [] });
  await guardTool(nt, { name: "charge", scope: null }, async () => 1)({ a: 1 } as Any, undefined);
  expect(money()).toEqual([]);
});

describe("the proxy", () => {
  function notesOf(config: ProxyConfig, ...lists: object[][]): string[] {
    const notes: string[] = [];
    const note = (text: string) => void notes.push(text);
    const guard = new McpGuard({ nt: open().nt, config, server: "shop", identity: "shop", note });
    for (const tools of lists) guard.learn(tools);
    return notes;
  }

  it("a money-like tool without a config is noted once: for how long, for whom, and what to write", () => {
    const tools = [{ name: "create_payment" }, { name: "parse_payload" }, { name: "get_order" }];
    const [note, ...more] = notesOf({ window: "1h" }, tools, tools);
    expect(note).toMatch(
      /"create_payment" suggests that it moves money\. .*until its answer has arrived, within 1h, for one caller: after that/,
    );
    expect(notesOf({ guard: "intent", window: "1h" }, tools)[0]).toMatch(/made once within 1h, for one caller: after/);
    expect(note).toContain(
      '{ "scope": null, "tools": { "create_payment": { "key": ["order"], "effect": "payment" } } }',
    );
    expect(more).toEqual([]);
    expect(notesOf({ scope: "s1" }, tools)[0]).toContain('for one caller and scope "s1"');
  });

  it.each<[ProxyConfig, object, number]>([
    [{ tools: { pay: { key: ["order"] } } }, {}, 1],
    [{ scope: null, tools: { pay: { key: ["order"] } } }, {}, 0],
    [{ scope: null, tools: { pay: { effect: "payment" } } }, {}, 0],
    [{ tools: { pay: { effect: "notification" } } }, {}, 0],
    [{ tools: { pay: { readOnly: true } } }, {}, 0],
    [{}, { readOnlyHint: true }, 0],
    [{}, { idempotentHint: true }, 0],
  ])("%j, and hints %j: %d", (config, annotations, count) => {
    expect(notesOf(config, [{ name: "pay", annotations }])).toHaveLength(count);
  });

  it("also of a tool that the server does not list, at its first call", async () => {
    const notes: string[] = [];
    const note = (text: string) => void notes.push(text);
    const guard = new McpGuard({ nt: open().nt, config: {}, server: "shop", identity: "shop", note });
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "buy" } } as const;
    for (let i = 0; i < 2; i += 1)
      await guard.answer({ message, forward: async () => ({ content: [] }) }, async () => ({}));
    expect(notes).toEqual([expect.stringContaining('"buy" suggests that it moves money')]);
  });
});
