import { ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createAgent, createMiddleware } from "langchain";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { guardToolCalls } from "../../dist/agents/frameworks/langchain.js";
import { nevertwice, notSent, refused, rejected } from "../../dist/index.js";
import { resumedTwice, runBy } from "./lib/agents/langchain.mjs";
import { Scripted } from "./lib/agents/langchain-model.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe.each(["tool", "middleware"])("LangChain and LangGraph, guarded by %s", (by) => {
  tellStories(runBy(by), { agent: `langchain:${by}` });

  it.each([
    { asks: "an interrupt goes through and is never stored", how: { ask: true } },
    { asks: "LangChain asks for approval", how: { approval: true } },
  ])("$asks; the answer is submitted twice", async ({ how }) => {
    for (const { guarded } of WAYS) {
      const { provider, world: at } = await world(guarded);
      await resumedTwice(at, by, how);
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    }
  });
});

describe("the middleware", () => {
  const schema = z.object({ to: z.string() });

  async function called(mail: ReturnType<typeof tool>, calls: readonly { name: string; args: object }[]) {
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
    const model = new Scripted(calls.map(({ name, args }, i) => [{ name, args, id: `c${i}`, type: "tool_call" }]));
    const wrapToolCall = guardToolCalls(nt, { ToolMessage, scope: "s", tools: { send_mail: { key: ["to"] } } });
    const guard = createMiddleware({ name: "nevertwice", wrapToolCall });
    await createAgent({ model, tools: [mail], middleware: [guard] }).invoke({ messages: ["mail them"] });
    const { items } = await nt.store.list({ limit: 10 });
    await nt.close();
    return items.map(({ record }) => `${record.action} ${record.state}`);
  }

  it("a schema error inside the tool, after its effect, is a doubt: only its own arguments were surely not sent", async () => {
    let mails = 0;
    const log = tool(async () => "", { name: "log", description: "logs", schema: z.object({ line: z.string() }) });
    const send = tool(
      async (args) => {
        mails += 1;
        return log.invoke(args as never);
      },
      { name: "send_mail", description: "sends", schema },
    );
    const call = { name: "send_mail", args: { to: "ada" } };
    expect(await called(send as never, [call, call])).toEqual(["send_mail unknown"]);
    expect(mails).toBe(1);
  });

  it("a tool that is not there was not run", async () => {
    const send = tool(async () => "sent", { name: "send_mail", description: "sends", schema });
    const records = await called(send as never, [{ name: "send_male", args: { to: "ada" } }]);
    expect(records).toEqual(["send_male failed"]);
  });

  type Fails = () => unknown;
  const fails: [string, object, Fails][] = [
    ["refused()", {}, () => Promise.reject(refused("no such order"))],
    ["rejected()", {}, () => Promise.reject(rejected("no such order"))],
    ["notSent()", {}, () => Promise.reject(notSent("no such order"))],
    [
      "an error that means that nothing was done",
      { errors: "not-done" },
      () => Promise.reject(new Error("no such order")),
    ],
    ["a returned error", { errors: "not-done" }, () => ({ error: "no such order" })],
    ["a returned { success: false }", { errors: "not-done" }, () => ({ success: false, reason: "no such order" })],
    ["a returned text that is JSON", { errors: "not-done" }, () => '{"error":"no such order"}'],
  ];

  async function paid(options: object, fail: Fails, calls: readonly object[], handleless = false) {
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
    let effects = 0;
    const pay = tool(
      async ({ cents }) => {
        if (cents < 0) return fail() as string;
        effects += 1;
        return "paid";
      },
      { name: "pay", description: "pays", schema: z.object({ order: z.string(), cents: z.number() }) },
    );
    const model = new Scripted(calls.map((args, i) => [{ name: "pay", args, id: `c${i}`, type: "tool_call" }]));
    const wrapToolCall = guardToolCalls(nt, {
      ToolMessage,
      scope: "s",
      tools: { pay: { key: ["order"], ...options } },
    });
    const through = (request: never, handler: (one: never) => unknown) => handler(request);
    const guard = createMiddleware({ name: "guard", wrapToolCall: (handleless ? through : wrapToolCall) as never });
    const agent = createAgent({ model, tools: [pay], middleware: [guard] });
    const { messages } = await agent.invoke({ messages: ["pay"] }).finally(() => nt.close());
    const told = messages.filter((one) => one.getType() === "tool") as ToolMessage[];
    return { told: told.map(({ status, content }) => `${status}: ${content}`), effects };
  }

  it.each(fails)("the model hears why it was not done, and corrects the call: %s", async (what, options, fail) => {
    const wrong = { order: "A-1", cents: -5 };
    const { told, effects } = await paid(options, fail, [wrong, { order: "A-1", cents: 5 }]);
    expect(told).toEqual([expect.stringMatching(/no such order/), "success: paid"]);
    expect(told[0]).toMatch(
      what.startsWith("a returned") ? /^success: \{/ : /^error: (It did not happen|Refused for good)/,
    );
    expect(effects).toBe(1);
  });

  it("the model hears what a check says", async () => {
    const check = ({ cents }: { cents: number }) => {
      if (cents < 0) throw new Error("cents must be positive");
    };
    const { told } = await paid({ check }, () => {}, [
      { order: "A-1", cents: -5 },
      { order: "A-1", cents: 5 },
    ]);
    expect(told).toEqual([expect.stringMatching(/^error: It did not happen: cents must be positive/), "success: paid"]);
  });

  it("an answer that only names an error is not repeated as done", async () => {
    const wrong = { order: "A-1", cents: -5 };
    for (const answer of [{ error: "no such order" }, { success: false }, '{"error":"no such order"}']) {
      const { told } = await paid({}, () => answer, [wrong, wrong]);
      expect(told[1]).toMatch(/^success: It may have happened/);
    }
  });

  it("an error under mode: observe ends the run, as behind a middleware that does nothing", async () => {
    const fail = () => Promise.reject(new Error("no such order"));
    const calls = [{ order: "A-1", cents: -5 }];
    await expect(paid({}, fail, calls, true)).rejects.toThrow("no such order");
    const observing = { ToolMessage, scope: "s", mode: "observe" } as const;
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
    const wrap = guardToolCalls(nt, observing);
    await expect(wrap({ toolCall: { name: "pay", args: {} } }, fail)).rejects.toThrow("no such order");
    await nt.close();
  });
});
