/** A tool that returns its failure in place of throwing it: read whatever it is wrapped in, behind every wrapper. */
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardAiTools } from "./frameworks/ai-sdk.ts";
import { guardLangChainTools, guardToolCalls } from "./frameworks/langchain.ts";
import { guardMastraTools } from "./frameworks/mastra.ts";
import { guardOpenAiTools } from "./frameworks/openai-agents.ts";
import { guardTool } from "./guard-tool.ts";
import { statusTool } from "./status-tool.ts";
import { toolMemory } from "./tool/memory.ts";

function open() {
  const warned: { readonly code: string }[] = [];
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: (warning) => warned.push(warning) });
  onTestFinished(() => nt.close());
  return { nt, warned };
}

const bad = { to: "nowhere", cents: 5 };
const good = { to: "nowhere", cents: 6 };
const key = ["to"] as const;

/** One tool behind each wrapper of several, called as its framework would. */
type Handler = (input: typeof bad) => Promise<unknown>;
type Wrapper = (nt: ReturnType<typeof open>["nt"], own: object, handler: Handler) => (input: typeof bad) => unknown;

class Message {
  readonly content: unknown;
  readonly status: unknown;
  readonly tool_call_id: unknown;

  constructor({ content, status = "success" }: { content: unknown; status?: string }) {
    Object.assign(this, { content, status, tool_call_id: "c" });
  }
}

const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

const WRAPPERS: [string, Wrapper][] = [
  [
    "guardTool",
    (nt, own, handler) => {
      const send = guardTool(nt, { name: "send", scope: null, ...own }, handler);
      return async (input) => {
        const answer = await send.answer(input, undefined);
        return answer.kind === "result" ? [answer.note, answer.result] : answer.text;
      };
    },
  ],
  [
    "toolMemory",
    (_, own, handler) => {
      const { key: _key, ...options } = own as { key: unknown };
      const memory = toolMemory({ scope: "s", tools: { send: options } });
      return async (input) => {
        const answer = await memory.call("send", input, () => handler(input));
        return answer.kind === "result" ? [answer.note, answer.result] : answer.text;
      };
    },
  ],
  [
    "guardAiTools",
    (nt, own, execute) => {
      const { send } = guardAiTools(nt, { send: { execute } }, { scope: null, tools: { send: own } });
      const { toModelOutput, ...tool } = send as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
      return async (input) => {
        const call = { toolCallId: "c", input: { ...input } };
        return toModelOutput?.({ ...call, output: await tool.execute?.(call.input, call) });
      };
    },
  ],
  [
    "guardOpenAiTools, a factory",
    (nt, own, execute) => {
      const tool = guardOpenAiTools(nt, (one: { execute: Handler }) => one.execute, {
        scope: null,
        tools: { send: own },
      } as never);
      return tool({ name: "send", execute } as never) as Handler;
    },
  ],
  [
    "guardOpenAiTools, a finished tool",
    (nt, own, handler) => {
      const invoke = async (_: unknown, text: string) => handler(JSON.parse(text));
      const [tool] = guardOpenAiTools(nt, [{ type: "function", name: "send", parameters: {}, invoke }], {
        scope: null,
        tools: { send: own },
      } as never) as unknown as [{ invoke(context: unknown, input: string): Promise<unknown> }];
      return (input) => tool.invoke({}, JSON.stringify(input));
    },
  ],
  [
    "guardLangChainTools",
    (nt, own, _call) => {
      const [tool] = guardLangChainTools(nt, [{ name: "send", _call }], { scope: null, tools: { send: own } } as never);
      return (tool as unknown as { _call: Handler })._call;
    },
  ],
  [
    "guardLangChainTools, with an artifact",
    (nt, own, handler) => {
      const _call = async (input: typeof bad) => {
        const result = await handler(input);
        return result instanceof Error ? result : [asText(result), result];
      };
      const tool = { name: "send", responseFormat: "content_and_artifact", _call };
      const [guarded] = guardLangChainTools(nt, [tool], { scope: null, tools: { send: own } } as never);
      return (guarded as unknown as { _call: Handler })._call;
    },
  ],
  [
    "guardToolCalls",
    (nt, own, handler) => {
      const wrap = guardToolCalls(nt, { ToolMessage: Message as never, scope: null, tools: { send: own } });
      const tool = { name: "send", _call: handler };
      // As LangChain makes a message of a result.
      return (args) =>
        wrap({ tool, toolCall: { name: "send", args, id: "c" } }, async (request) => {
          const content = asText(await request.tool._call(request.toolCall.args));
          return new Message({ content });
        });
    },
  ],
  [
    "guardMastraTools",
    (nt, own, execute) =>
      guardMastraTools(nt, { send: { id: "send", execute } }, { scope: null, tools: { send: own } } as never).send
        .execute,
  ],
];

describe.each(WRAPPERS)("a failure that is returned, behind %s", (where, wrapper) => {
  const failures: [string, unknown][] = [
    ["an object", { error: "no such order" }],
    ["an object without success", { success: false, reason: "no such order" }],
    ["a text that is JSON", '{"error":"no such order"}'],
    ["a client's answer", { data: null, error: { message: "no such order", code: "PGRST116" } }],
    ["an Error", new Error("no such order")],
  ];
  const settled = async (call: unknown) =>
    Promise.resolve(call).then(
      (result) => asText(result) ?? String(result),
      (error) => String(error),
    );

  it.each(failures)("%s: not-done, so that the corrected call runs", async (_, failure) => {
    const { nt } = open();
    let runs = 0;
    const send = wrapper(nt, { key, errors: "not-done" }, async ({ cents }) => {
      runs += 1;
      return cents === bad.cents ? failure : "sent";
    });
    for (let time = 0; time < 2; time += 1) expect(await settled(send(bad))).not.toMatch(/Already done|It may have/);
    expect(runs).toBe(2);
    expect(await settled(send(good))).toContain("sent");
    expect(runs).toBe(3);
  });

  it.each(failures)("%s: a repeat does not read that it is done", async (what, failure) => {
    const { nt, warned } = open();
    let runs = 0;
    const send = wrapper(nt, { key }, async () => {
      runs += 1;
      return failure;
    });
    for (let time = 0; time < 2; time += 1) expect(await settled(send(bad))).not.toContain("Already done");
    expect(runs).toBe(1);
    if (where === "toolMemory") return;
    const isFailed = what === "a client's answer" || what === "an Error";
    expect(warned.map(({ code }) => code)).toEqual([isFailed ? "UNCLASSIFIED_ERROR" : "RESULT_IS_ERROR"]);
    const { items } = await nt.store.list({ limit: 10 });
    const reference = items.map(({ record }) => record.key).find(Boolean);
    expect(await statusTool(nt).execute({ reference })).toMatch(/^It may have happened/);
  });
});

describe("a returned Error", () => {
  it("is what the call that ran gets, and an answer with its message where errors are answers", async () => {
    const { nt } = open();
    const error = new Error("no such order");
    const send = guardTool(nt, { name: "send", scope: null, key, errors: "not-done" }, async () => error);
    expect(await send(bad, undefined)).toBe(error);
    const pay = guardTool(nt, { name: "pay", scope: null, key, errors: "answer" }, async () => error);
    expect(await pay(bad, undefined)).toBe(error);
    expect(await pay.answer(bad, undefined)).toMatchObject({
      result: { error: "no such order" },
      note: expect.stringMatching(/^It may have happened/),
    });
  });
});
