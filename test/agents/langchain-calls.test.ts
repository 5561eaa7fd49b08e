/** The two ways in which LangChain calls a tool: a model's call is answered by a ToolMessage, any other by the result itself. */
import { ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Command, END, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardLangChainTool, guardLangChainTools, guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { nevertwice } from "../../dist/index.js";
import { Scripted } from "./lib/agents/langchain-model.mjs";

// biome-ignore lint/suspicious/noExplicitAny: states and messages, read by shape
type Any = any;

function open() {
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

const thread = { configurable: { thread_id: "t1" } };
const schema = z.object({ order: z.string(), cents: z.number().optional() });
const named = { name: "refund", description: "pays back", schema };
const call = (id: string, args: object) => ({ name: "refund", args, id, type: "tool_call" as const });

describe("LangChain, a refusal", () => {
  const refund = () => {
    const made = tool(async ({ order }) => ({ refunded: order }), named);
    return guardLangChainTool(open(), made, { key: ["order"] });
  };

  it("is thrown where no model reads the answer: tool.invoke(args)", async () => {
    const pay = refund();
    await pay.invoke({ order: "A-1", cents: 5 }, thread);
    await expect(pay.invoke({ order: "A-1", cents: 6 }, thread)).rejects.toMatchObject({
      code: "KEY_CONFLICT",
      message: expect.stringMatching(/^Refused, and nothing was done/),
    });
  });

  it("is thrown in a node of one's own", async () => {
    const pay = refund();
    const graph = new StateGraph<Any>({ channels: { cents: null } as Any })
      .addNode("pay", async ({ cents }: Any, config) => {
        await pay.invoke({ order: "A-1", cents }, config);
        return {};
      })
      .addEdge(START, "pay")
      .addEdge("pay", END)
      .compile();
    await graph.invoke({ cents: 5 }, thread);
    await expect(graph.invoke({ cents: 6 }, thread)).rejects.toMatchObject({ code: "KEY_CONFLICT" });
  });

  it("is a ToolMessage with status error for a model's call, and the run goes on", async () => {
    const pay = refund();
    const first = (await pay.invoke(call("c1", { order: "A-1", cents: 5 }), thread)) as Any;
    expect(first).toMatchObject({ content: '{"refunded":"A-1"}', status: "success", tool_call_id: "c1" });
    const refused = (await pay.invoke(call("c2", { order: "A-1", cents: 6 }), thread)) as Any;
    expect(ToolMessage.isInstance(refused)).toBe(true);
    expect(refused).toMatchObject({
      content: expect.stringMatching(/^Refused, and nothing was done/),
      status: "error",
      tool_call_id: "c2",
      name: "refund",
    });
    const steps = [[call("c3", { order: "A-1", cents: 7 })]];
    const agent = createAgent({ model: new Scripted(steps), tools: [pay] });
    const { messages } = await agent.invoke({ messages: ["pay"] }, thread);
    expect(messages.map((one: Any) => one.status).filter(Boolean)).toEqual(["error"]);
    expect(messages.at(-1)?.content).toBe("finished");
    const node = new ToolNode([pay]);
    const asked = { role: "assistant", content: "", tool_calls: [call("c4", { order: "A-1", cents: 8 })] };
    const { AIMessage } = await import("@langchain/core/messages");
    const told = await node.invoke({ messages: [new AIMessage(asked as Any)] }, thread);
    expect(told.messages[0]).toMatchObject({ status: "error", content: expect.stringMatching(/^Refused/) });
  });

  it("a call without a thread is refused, and nothing runs; with a scope it needs none", async () => {
    let runs = 0;
    const made = tool(async () => `ran ${++runs}`, named);
    const [pay] = guardLangChainTools(open(), [made]);
    await expect(pay?.invoke({ order: "A-1" })).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/^refund was not run.*without a thread.*\{ configurable: \{ thread_id \} \}/),
    });
    const wrapToolCall = guardToolCalls(open(), { ToolMessage });
    const guard = createMiddleware({ name: "nevertwice", wrapToolCall });
    const agent = createAgent({
      model: new Scripted([[call("c1", { order: "A-1" })]]),
      tools: [made],
      middleware: [guard],
    });
    await expect(agent.invoke({ messages: ["pay"] })).rejects.toThrow(/refund was not run.*without a thread/);
    expect(runs).toBe(0);
    expect(await guardLangChainTool(open(), made, { scope: null }).invoke({ order: "A-1" })).toBe("ran 1");
  });
});

describe("LangChain, a repeat", () => {
  it.each<[string, unknown]>([
    ["an object", { refunded: { cents: 5 } }],
    ["a list", [1, 2]],
    ["a number", 7],
    ["a text", "refunded"],
    ["null", null],
  ])("has the type that the first call gave: %s", async (_, result) => {
    const pay = guardLangChainTool(open(), tool(async () => result, named) as Any, { key: ["order"] }) as Any;
    for (let time = 0; time < 2; time += 1) expect(await pay.invoke({ order: "A-1" }, thread)).toEqual(result);
    const bare = tool(async () => result, named) as Any;
    const unguarded = await bare.invoke(call("c1", { order: "A-1" }), thread);
    const message = await pay.invoke(call("c2", { order: "A-1" }), thread);
    const [note, ...rest] = (message.content as string).split("\n");
    expect(note).toMatch(/^Already done at /);
    expect(rest.join("\n")).toBe(unguarded.content);
  });

  it("content and artifact stay apart", async () => {
    const rows = [{ id: 1 }];
    const made = tool(async () => ["one row", rows], { ...named, responseFormat: "content_and_artifact" });
    const pay = guardLangChainTool(open(), made, { key: ["order"] }) as Any;
    for (let time = 0; time < 2; time += 1) expect(await pay.invoke({ order: "A-1" }, thread)).toBe("one row");
    const message = await pay.invoke(call("c3", { order: "A-1" }), thread);
    expect(message).toMatchObject({ artifact: rows, status: "success", tool_call_id: "c3" });
    expect(message.content).toMatch(/^Already done at .*\none row$/s);
    const refused = await pay.invoke(call("c4", { order: "A-1", cents: 1 }), thread);
    expect(refused).toMatchObject({ status: "error", content: expect.stringMatching(/^Refused/) });
  });

  it("content and artifact that name an error are one: read, and given again as they were", async () => {
    for (const errors of ["not-done", undefined] as const) {
      let runs = 0;
      const made = tool(
        async ({ cents = 0 }) => {
          runs += 1;
          return cents < 0 ? ['{"error":"no"}', { error: "no" }] : ["paid", { cents }];
        },
        { ...named, responseFormat: "content_and_artifact" },
      );
      const pay = guardLangChainTool(open(), made, { key: ["order"], ...(errors && { errors }) }) as Any;
      const wrong = { order: "A-1", cents: -5 };
      await pay.invoke(call("c1", wrong), thread);
      const again = (await pay.invoke(call("c2", wrong), thread)) as Any;
      expect(again).toMatchObject({ artifact: { error: "no" }, content: expect.not.stringMatching(/Already done/) });
      expect(again.content).toMatch(
        errors === undefined ? /^It may have happened.*\n\{"error":"no"\}$/s : /^\{"error"/,
      );
      expect(runs).toBe(errors === undefined ? 1 : 2);
      if (errors === undefined) continue;
      const right = (await pay.invoke(call("c3", { order: "A-1", cents: 5 }), thread)) as Any;
      expect(right).toMatchObject({ content: "paid", artifact: { cents: 5 } });
    }
  });

  it("content blocks stay blocks, with the note before them", async () => {
    const blocks = [{ type: "text", text: "refunded" }];
    const pay = guardLangChainTool(
      open(),
      tool(async () => blocks, named),
      { key: ["order"] },
    ) as Any;
    await pay.invoke(call("c1", { order: "A-1" }), thread);
    const { content } = await pay.invoke(call("c2", { order: "A-1" }), thread);
    expect(content).toEqual([{ type: "text", text: expect.stringMatching(/^Already done/) }, ...blocks]);
  });

  it("a message of the tool's own is one again, with its artifact, status and the id of its own call", async () => {
    const made = tool(
      async (_: Any, { toolCall }: Any) =>
        new ToolMessage({ content: "refunded", artifact: { id: 7 }, tool_call_id: toolCall?.id ?? "none" }),
      named,
    );
    const pay = guardLangChainTool(open(), made as Any, { key: ["order"] }) as Any;
    await pay.invoke(call("c1", { order: "A-1" }), thread);
    const again = await pay.invoke(call("c2", { order: "A-1" }), thread);
    expect(ToolMessage.isInstance(again)).toBe(true);
    expect(again).toMatchObject({ artifact: { id: 7 }, tool_call_id: "c2" });
    expect(again.content).toMatch(/^Already done at .*\nrefunded$/s);
    const plain = await pay.invoke({ order: "A-1" }, thread);
    expect(ToolMessage.isInstance(plain)).toBe(true);
    expect(plain).toMatchObject({ content: "refunded", artifact: { id: 7 } });
  });

  it("an object is an object also when a node runs again after interrupt() is answered", async () => {
    let refunds = 0;
    const seen: unknown[] = [];
    const made = tool(async ({ order }) => ({ order, id: ++refunds }), named);
    const pay = guardLangChainTool(open(), made, { key: ["order"] });
    const graph = new StateGraph<Any>({ channels: { receipt: null } as Any })
      .addNode("pay", async (_: Any, config) => {
        const receipt = (await pay.invoke({ order: "A-1" }, config)) as Any;
        seen.push(receipt);
        interrupt(`is ${receipt.id} right?`);
        return { receipt };
      })
      .addEdge(START, "pay")
      .addEdge("pay", END)
      .compile({ checkpointer: new MemorySaver() });
    await graph.invoke({}, thread);
    const { receipt } = await graph.invoke(new Command({ resume: "yes" }), thread);
    expect(receipt).toEqual({ order: "A-1", id: 1 });
    expect(seen).toEqual([receipt, receipt]);
    expect(refunds).toBe(1);
  });

  it("a guarded tool that another one calls answers for itself", async () => {
    const nt = open();
    const inner = guardLangChainTool(
      nt,
      tool(async () => ({ inner: true }), { ...named, name: "inner" }),
      {},
    );
    const made = tool(async (input: Any, config: Any) => {
      const { configurable } = config;
      await inner.invoke(input, { configurable });
      return inner.invoke(input, { configurable });
    }, named);
    const outer = guardLangChainTool(nt, made as Any, {}) as Any;
    const message = await outer.invoke(call("c1", { order: "A-1" }), thread);
    expect(message).toMatchObject({ content: '{"inner":true}', status: "success" });
  });

  it("errors as a function is asked about each result of a tool", async () => {
    const answers = ["FAILED", "refunded"];
    const made = tool(async () => answers.shift() as string, named);
    const errors = (result: unknown) => (result === "FAILED" ? ("not-done" as const) : ("answer" as const));
    const pay = guardLangChainTool(open(), made, { key: ["order"], errors });
    const told = [];
    for (let time = 0; time < 3; time += 1) told.push(await pay.invoke({ order: "A-1" }, thread));
    expect(told).toEqual(["FAILED", "refunded", "refunded"]);
  });
});
