/** Whose call it is, in every wrapper: a tenant or a scope that is not known refuses the call, and nothing runs. */
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { guardTool } from "../guard-tool.ts";
import { guardMcpTool } from "../mcp/server/index.ts";
import { queuedTool } from "../queued-tool.ts";
import { guardAiTool, guardAiTools } from "./ai-sdk.ts";
import { claudeGuard } from "./claude-agent-sdk.ts";
import { guardLangChainTool, guardToolCalls } from "./langchain.ts";
import { guardMastraTool } from "./mastra.ts";
import { guardOpenAiTools } from "./openai-agents.ts";

// biome-ignore lint/suspicious/noExplicitAny: the tools of nine frameworks, called by shape
type Any = any;
type Options = Record<string, unknown>;
type Call = () => Promise<unknown>;
type Nt = ReturnType<typeof nevertwice>;
type Wrapper = (nt: Nt, options: Options, effect: () => unknown) => Call;

class ToolMessage {
  constructor(fields: object) {
    Object.assign(this, fields);
  }
}

const WRAPPERS: Record<string, Wrapper> = {
  guardTool: (nt, options, effect) => {
    const tool = guardTool(nt, { name: "balance", ...options } as Any, async () => effect());
    return () => tool({ month: "may" } as Any, {} as Any);
  },
  guardAiTool: (nt, options, effect) => {
    const tool = guardAiTool(nt, "balance", { execute: async () => effect() }, options as Any) as Any;
    return () => tool.execute({ month: "may" }, { toolCallId: "1", messages: [] });
  },
  guardAiTools: (nt, options, effect) => {
    const { balance } = guardAiTools(nt, { balance: { execute: async () => effect() } }, options as Any) as Any;
    return () => balance.execute({ month: "may" }, { toolCallId: "1", messages: [] });
  },
  claudeGuard: (nt, options, effect) => {
    const handler = async () => ({ content: [{ type: "text", text: String(effect()) }] });
    const tool = claudeGuard(nt, options as Any).tool({ name: "balance", handler } as Any) as Any;
    return () => tool.handler({ month: "may" }, {});
  },
  guardLangChainTool: (nt, options, effect) => {
    const tool = guardLangChainTool(nt, { name: "balance", _call: async () => effect() } as Any, options as Any) as Any;
    return () => tool._call({ month: "may" }, undefined, {});
  },
  guardToolCalls: (nt, options, effect) => {
    const wrap = guardToolCalls(nt, { ToolMessage, ...options } as Any);
    const request = { toolCall: { name: "balance", args: { month: "may" }, id: "1" } };
    return () => wrap(request, async () => new ToolMessage({ content: String(effect()), tool_call_id: "1" }) as Any);
  },
  guardMastraTool: (nt, options, effect) => {
    const tool = guardMastraTool(nt, { id: "balance", execute: async () => effect() } as Any, options as Any) as Any;
    return () => tool.execute({ month: "may" }, {});
  },
  guardMcpTool: (nt, options, effect) => {
    const callback = async () => ({ content: [{ type: "text", text: String(effect()) }] });
    const tool = guardMcpTool(nt, "balance", { inputSchema: {} }, callback as Any, options as Any) as Any;
    return () => tool({ month: "may" }, {});
  },
  guardOpenAiTools: (nt, options, effect) => {
    const invoke = async () => String(effect());
    const given = { type: "function", name: "balance", parameters: {}, invoke };
    const [tool] = guardOpenAiTools(nt, [given] as Any, options as Any) as Any;
    return () => tool.invoke({}, '{"month":"may"}', {});
  },
  queuedTool: (nt, { effect: kind, ...options }, effect) => {
    const kindOfEffect = kind === undefined ? {} : { effect: kind as Any };
    const run = async (_input: { month: string }) => effect();
    const tool = queuedTool(nt.action("balance", { key: ["month"], run, ...kindOfEffect }), options as Any);
    return () => tool({ month: "may" }, {} as Any);
  },
};

function open() {
  const nt = nevertwice({ store: memoryStore(), tenant: "acme", sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

describe.each(Object.entries(WRAPPERS))("%s", (_, wrap) => {
  it("a tenant function that gives a name is taken, one name after the other", async () => {
    const nt = open();
    let customer = "ada";
    const call = wrap(nt, { scope: null, tenant: () => customer }, () => customer);
    await call();
    customer = "bob";
    await call();
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.map(({ record }) => record.tenant).sort()).toEqual(["ada", "bob"]);
  });

  it.each([[undefined], [null], [""], [" "], [7], [{}]])(
    "a tenant function that gives %j: refused, nothing runs, nobody's result is given",
    async (gives) => {
      const nt = open();
      const ran: string[] = [];
      let tenant: unknown = "ada";
      const call = wrap(nt, { scope: null, tenant: () => tenant }, () => ran.push("secret of ada"));
      await call();
      const before = ran.length;
      tenant = gives;
      // The OpenAI SDK's tools answer with text where others throw.
      const said = await call().then(String, (error: Error) => error.message);
      expect(said).toMatch(/tenant gave .* for this call\. Nothing was run/);
      expect(ran).toHaveLength(before);
      expect((await nt.store.list({ limit: 10 })).items).toHaveLength(1);
    },
  );

  it.each([["tenant"], ["scope"]])("%s that is there and undefined is refused when the tool is guarded", (option) => {
    const guard = () => wrap(open(), { [option]: undefined }, () => {});
    expect(guard).toThrow(
      expect.objectContaining({ code: "CONFIG", message: expect.stringContaining(`${option} is undefined`) }),
    );
  });
});

// Sets of tools have the options of each tool apart.
const SETS = new Set(["guardAiTools", "claudeGuard", "guardToolCalls", "guardOpenAiTools"]);
const optionsFor = (wrapper: string, own: Options, whose: Options = {}) =>
  SETS.has(wrapper) ? { ...whose, tools: { balance: own } } : { ...whose, ...own };

describe.each(Object.entries(WRAPPERS))("O13 %s", (name, wrap) => {
  it("a payment without a scope is refused when the tool is guarded, and the remedy named", () => {
    const guard = () => wrap(open(), optionsFor(name, { effect: "payment" }), () => {});
    expect(guard).toThrow(
      expect.objectContaining({
        code: "CONFIG",
        message: expect.stringMatching(/balance.*effect is "payment", and scope is not given\..*scope: null/),
      }),
    );
  });

  it.each([[null], ["order-7"], [() => "order-7"]])("a payment whose scope is given is taken", async (scope) => {
    const nt = open();
    const call = wrap(nt, optionsFor(name, { effect: "payment" }, { scope }), () => "paid");
    await call();
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.map(({ record }) => [record.scope, record.keepMs])).toEqual([
      [scope === null ? null : "order-7", null],
    ]);
  });

  it("an unknown effect is refused with the nearest name", () => {
    if (name === "guardToolCalls") return;
    const guard = () => wrap(open(), optionsFor(name, { effect: "payments" }, { scope: null }), () => {});
    expect(guard).toThrow(/effect is "payments"\. Did you mean "payment"\?/);
  });
});

it("O13 a tool that only reads needs no scope, and otherTools are looked at too", () => {
  const tool = { execute: async () => 1 };
  guardAiTools(open(), { balance: tool }, { tools: { balance: { effect: "payment", readOnly: true } } });
  guardAiTools(open(), { balance: tool }, { otherTools: false });
  expect(() => guardAiTools(open(), { balance: tool }, { otherTools: { effect: "payment" } })).toThrow(
    /guardAiTools: otherTools: effect is "payment", and scope is not given/,
  );
});

describe("a scope that nobody gave", () => {
  const wrapperOf = (name: string) => WRAPPERS[name] as Wrapper;

  it.each(["guardTool", "guardAiTool", "guardAiTools", "guardOpenAiTools", "queuedTool"])(
    "%s has no conversation to take it from: refused when the tool is guarded, with what to write",
    (name) => {
      const guard = () => wrapperOf(name)(open(), {}, () => {});
      expect(guard).toThrow(
        expect.objectContaining({
          code: "CONFIG",
          message: expect.stringMatching(/balance"\): scope is not given.*another's result\. Write .*scope: null/),
        }),
      );
    },
  );

  it("the factory of OpenAI Agents is refused before it makes a tool", () => {
    expect(() => guardOpenAiTools(open(), () => ({}), {})).toThrow(
      /guardOpenAiTools: scope is not given.*scope: \(\{ runContext \}\) => runContext\?\.context\.userId, or scope: null/,
    );
  });

  it.each(["guardLangChainTool", "guardToolCalls", "guardMastraTool", "claudeGuard"])(
    "%s takes the conversation of the call; a call without one runs nothing, and says so to model and developer",
    async (name) => {
      const nt = open();
      let runs = 0;
      const call = wrapperOf(name)(nt, {}, () => ++runs);
      await expect(call()).rejects.toMatchObject({
        code: "CONFIG",
        message: expect.stringMatching(
          /^balance was not run, and nothing was sent: .*which conversation.*tell the user.*For its developer: .*scope/,
        ),
      });
      expect(runs).toBe(0);
      expect((await nt.store.list({ limit: 10 })).items).toEqual([]);
    },
  );
});
