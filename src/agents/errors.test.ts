/** What a tool's own error means: in doubt unless somebody said otherwise, per tool or for all of them. */

import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { FakeMcpServer } from "../../test/support/fake-mcp-server.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardAiTools } from "./frameworks/ai-sdk.ts";
import { claudeGuard } from "./frameworks/claude-agent-sdk.ts";
import { guardLangChainTools, guardToolCalls } from "./frameworks/langchain.ts";
import { guardMastraTools } from "./frameworks/mastra.ts";
import { guardOpenAiTools } from "./frameworks/openai-agents.ts";
import { guardTool } from "./guard-tool.ts";
import { mcpCodec, mcpErrorMeaning, type ToolResult } from "./mcp/result.ts";
import { guardMcpServer } from "./mcp/server/index.ts";
import { queuedTool } from "./queued-tool.ts";
import { toolMemory } from "./tool/memory.ts";

interface Warning {
  readonly code: string;
  readonly action: string;
  readonly message: string;
}

function open() {
  const warned: Warning[] = [];
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: (warning) => warned.push(warning) });
  onTestFinished(() => nt.close());
  const states = async () => (await nt.store.list({ limit: 10 })).items.map(({ record }) => record.state);
  return { nt, warned, states };
}

const bad = { to: "nowhere", cents: 5 };
const good = { to: "nowhere", cents: 6 };
const key = ["to"] as const;

/** Throws for the first input, whatever its key; works for any other. */
function checking(error: () => unknown = () => new Error("invalid email")) {
  // biome-ignore lint/suspicious/noExplicitAny: every wrapper hands its own type of input to it
  return async (input: any): Promise<unknown> => {
    if (input.cents === bad.cents) throw error();
    return { sent: input.cents };
  };
}

describe('errors: "not-done"', () => {
  it("a plain error is thrown as it came, and the corrected call with the same key runs", async () => {
    const { nt, warned } = open();
    const send = guardTool(nt, { name: "send_mail", scope: null, key, errors: "not-done" }, checking());
    await expect(send(bad, undefined)).rejects.toThrow("invalid email");
    await expect(send(bad, undefined)).rejects.toThrow("invalid email");
    expect(await send(good, undefined)).toEqual({ sent: 6 });
    expect(warned).toEqual([]);
  });

  it.each([
    ["a lost connection", () => Object.assign(new Error("socket hang up"), { code: "ECONNRESET" })],
    ["a timeout", () => new DOMException("too slow", "TimeoutError")],
    ["an abort", () => new DOMException("stopped", "AbortError")],
    ["an answer of 500", () => Object.assign(new Error("oops"), { status: 500 })],
    [
      "a timeout that no rule lists",
      () => Object.assign(new Error("MCP error -32001: Request timed out"), { code: -32001 }),
    ],
    ["one of these as its cause", () => new Error("mail failed", { cause: { code: "ECONNRESET" } })],
  ])("%s stays in doubt: that is known about such errors", async (_what, error) => {
    const { nt } = open();
    const send = guardTool(nt, { name: "send_mail", scope: null, key, errors: "not-done" }, checking(error));
    expect(await send.answer(bad, undefined)).toMatchObject({ kind: "refused", outcome: { status: "unknown" } });
    expect(await send.answer(good, undefined)).toMatchObject({ kind: "refused" });
  });

  it("a result that says so in words stays in doubt; another error result may be corrected", async () => {
    const failure = (text: string) => ({ isError: true, content: [{ type: "text", text }] });
    for (const [text, status] of [
      ["MCP error -32001: Request timed out", "unknown"],
      [`${"x".repeat(2_000)} socket hang up`, "unknown"],
      ["invalid email", undefined],
    ] as const) {
      for (const errors of ["not-done", mcpErrorMeaning("not-done")] as const) {
        const options = { name: "send_mail", scope: null, key, errors } as const;
        let runs = 0;
        const run = async () => {
          runs += 1;
          return failure(text);
        };
        const send = guardTool<typeof bad, undefined, ToolResult>(open().nt, options, run, mcpCodec);
        const answer = await send.answer(bad, undefined);
        expect(answer.kind === "refused" ? answer.outcome?.status : undefined).toBe(status);
        await send.answer(good, undefined);
        expect(runs).toBe(status === "unknown" ? 1 : 2);
      }
    }
  });

  it("a loop of one's own does not run a timeout again, with a ledger and without", async () => {
    for (const ledger of [{ nt: open().nt }, {}]) {
      const memory = toolMemory({ scope: "s1", errors: "not-done", ...ledger });
      let runs = 0;
      const run = async () => {
        runs += 1;
        throw new Error("Command timed out");
      };
      for (const _ of [1, 2])
        expect(await memory.call("pay", { to: "ada" }, run)).toMatchObject({ outcome: { status: "unknown" } });
      expect(runs).toBe(1);
    }
  });

  it("the text of a finished OpenAI tool's failure is read too", async () => {
    for (const [said, times] of [
      [" Error: Error: socket hang up", 1],
      [" Error: Error: invalid email", 2],
      ["", 2],
    ] as const) {
      let runs = 0;
      const invoke = async () => {
        runs += 1;
        return `An error occurred while running the tool. Please try again.${said}`;
      };
      const tool = { type: "function", name: "send_mail", parameters: {}, invoke };
      const [guarded] = guardOpenAiTools(open().nt, [tool], {
        scope: null,
        tools: { send_mail: { key, errors: "not-done" } },
      } as never) as unknown as [{ invoke(context: unknown, input: string): Promise<unknown> }];
      await guarded.invoke({}, JSON.stringify(bad));
      await guarded.invoke({}, JSON.stringify(good));
      expect(runs, said).toBe(times);
    }
  });

  it("an action inside that refused its input ran nothing; one whose outcome is unknown leaves a doubt", async () => {
    const { nt } = open();
    const inner = nt.action("deliver", {
      input: z.object({ to: z.string(), cents: z.number().min(6) }),
      run: async ({ cents }) => {
        if (cents === 7) throw new Error("hang up");
        return cents;
      },
    });
    const send = guardTool(nt, { name: "send_mail", scope: null, key, errors: "not-done" }, (input: typeof bad) =>
      inner(input),
    );
    await expect(send(bad, undefined)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    expect(await send.answer({ ...bad, cents: 7 }, undefined)).toMatchObject({ outcome: { status: "unknown" } });
  });

  it("a loop of one's own, with a ledger and without", async () => {
    for (const ledger of [{ nt: open().nt }, {}]) {
      const set = toolMemory({ scope: "s1", errors: "not-done", ...ledger });
      let runs = 0;
      const call = (memory: typeof set, tool: string) =>
        memory.call(tool, { to: "ada" }, async () => {
          runs += 1;
          throw new Error("invalid email");
        });
      await expect(call(set, "send_mail")).rejects.toThrow("invalid email");
      await expect(call(set, "send_mail")).rejects.toThrow("invalid email");
      const tools = { send_mail: { errors: "not-done" }, pay: { errors: "doubt" } } as const;
      const each = toolMemory({ scope: "s2", errors: "not-done", tools, ...ledger });
      await expect(call(each, "send_mail")).rejects.toThrow("invalid email");
      expect(await call(each, "pay")).toMatchObject({ outcome: { status: "unknown" } });
      expect(runs).toBe(4);
    }
    expect(() => toolMemory({ scope: "s", errors: "none" as never })).toThrow(/toolMemory: errors is "none"/);
  });
});

class Message {
  readonly content: unknown;

  constructor({ content }: { readonly content: unknown }) {
    this.content = content;
  }
}

type Tools = Record<string, (input: unknown) => Promise<unknown>>;

/** Two tools behind each wrapper of several, called as their framework would. */
const SETS: [string, (nt: ReturnType<typeof open>["nt"], options: object) => Tools][] = [
  [
    "guardAiTools",
    (nt, options) => {
      const tools = guardAiTools(nt, { send: { execute: checking() }, pay: { execute: checking() } }, options);
      const call = (tool: unknown) => (input: unknown) =>
        (tool as { execute(input: unknown, call: object): Promise<unknown> }).execute(input, { toolCallId: "c" });
      return { send: call(tools.send), pay: call(tools.pay) };
    },
  ],
  [
    "claudeGuard",
    (nt, options) => {
      const guard = claudeGuard(nt, { ...options, scope: null });
      const tool = (name: string) => guard.tool({ name, handler: checking() as never });
      const call = (name: string) => (input: unknown) => (tool(name).handler as Tools[string])(input);
      return { send: call("send"), pay: call("pay") };
    },
  ],
  [
    "guardMcpServer",
    (nt, options) => {
      const server = guardMcpServer(nt, new FakeMcpServer(), { scope: null, ...options });
      for (const name of ["send", "pay"]) server.registerTool(name, { inputSchema: {} }, checking() as never);
      return { send: server.handler("send"), pay: server.handler("pay") } as Tools;
    },
  ],
  [
    "guardLangChainTools",
    (nt, options) => {
      const tools = guardLangChainTools(
        nt,
        ["send", "pay"].map((name) => ({ name, _call: checking() })),
        options,
      );
      return Object.fromEntries(tools.map(({ name, _call }) => [name, _call]));
    },
  ],
  [
    "guardToolCalls",
    (nt, options) => {
      const wrap = guardToolCalls(nt, { ToolMessage: Message as never, ...options });
      const call = (name: string) => (args: unknown) =>
        wrap({ toolCall: { name, args, id: "c" } }, ({ toolCall }) => checking()(toolCall.args));
      return { send: call("send"), pay: call("pay") };
    },
  ],
  [
    "guardOpenAiTools",
    (nt, options) => {
      const tool = guardOpenAiTools(nt, (one: { execute: Tools[string] }) => one.execute, options);
      return {
        send: tool({ name: "send", execute: checking() } as never),
        pay: tool({ name: "pay", execute: checking() } as never),
      };
    },
  ],
  [
    "guardMastraTools",
    (nt, options) => {
      const made = (id: string) => ({ id, execute: checking() });
      const tools = guardMastraTools(nt, { send: made("send"), pay: made("pay") }, options);
      return { send: tools.send.execute, pay: tools.pay.execute };
    },
  ],
];

describe.each(SETS)("%s", (where, guarded) => {
  const settled = async (call: Promise<unknown>) =>
    call.then(
      (result) => JSON.stringify(result) ?? String(result),
      (error) => String(error),
    );

  it("errors for all of its tools; a tool's own option counts more", async () => {
    const { nt, warned } = open();
    const options = { scope: null, errors: "not-done", tools: { send: { key }, pay: { key, errors: "doubt" } } };
    const { send, pay } = guarded(nt, options) as { send: Tools[string]; pay: Tools[string] };
    expect(await settled(send(bad))).toContain("invalid email");
    expect(await settled(send(good))).toContain('"sent":6');
    await settled(pay(bad));
    expect(await settled(pay(good))).not.toContain('"sent":6');
    expect(warned).toEqual([]);
  });

  it("a word that is no meaning is refused", () => {
    const { nt } = open();
    expect(() => guarded(nt, { errors: "notdone" })).toThrow(
      `${where}: errors is "notdone"; it takes "doubt", "not-done", "answer".`,
    );
  });
});

describe("errors that only look like a refused input", () => {
  it("an MCP tool that passes on another server's -32602 has begun: a doubt, not a second effect", async () => {
    const { nt } = open();
    let mails = 0;
    const content = [{ type: "text", text: "MCP error -32602: Invalid arguments for tool log" }];
    const guard = claudeGuard(nt, { scope: null });
    const handler = async () => {
      mails += 1;
      return { content, isError: true };
    };
    const send = guard.tool({ name: "send_mail", handler: handler as never });
    for (let call = 0; call < 2; call += 1) await (send.handler as Tools[string])({ to: "ada" });
    expect(mails).toBe(1);
  });
});

describe("an input that a schema refuses", () => {
  it("leaves no record: a call, an enqueue, a tool that records", async () => {
    const { nt, states } = open();
    const input = z.object({ to: z.email() });
    const send = nt.action("send_mail", { input, run: async () => 1 });
    await expect(send({ to: "x" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(send.enqueue({ to: "x" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(queuedTool(send, { scope: null })({ to: "x" }, undefined)).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
    expect(await states()).toEqual([]);
  });
});

describe("an error that nobody classified", () => {
  it("the developer is warned once per action and kind of error, with the line to add and nothing of the call", async () => {
    const { nt, warned } = open();
    const send = guardTool(nt, { name: "send_mail", scope: null, key }, async ({ to }: { to: string }) => {
      throw to.startsWith("t") ? new TypeError(`no such ${to}`) : new Error(`no such ${to}`);
    });
    for (const to of ["ada", "bob", "tim", "tom"]) await send.answer({ to }, undefined);
    expect(warned.map(({ code, action }) => `${code} ${action}`)).toEqual([
      "UNCLASSIFIED_ERROR send_mail",
      "UNCLASSIFIED_ERROR send_mail",
    ]);
    for (const { message } of warned) {
      expect(message).toContain("`throw refused(error)`");
      expect(message).toContain("`throw notSent(error)`");
      expect(message).toContain("`throw rejected(error)`");
      expect(message).toContain('`tools: { send_mail: { errors: "not-done" } }`');
      expect(message).not.toMatch(/nt1_|ada|bob|tim|tom|no such/);
    }
  });

  it("so it is for a result that says error", async () => {
    const { nt, warned } = open();
    const guard = claudeGuard(nt, { scope: null });
    const failed = async () => ({ content: [{ type: "text", text: "invalid email" }], isError: true });
    await (guard.tool({ name: "send mail", handler: failed as never }).handler as Tools[string])({ to: "ada" });
    expect(warned).toMatchObject([
      { message: expect.stringContaining('tools: { "send mail": { errors: "not-done" } }') },
    ]);
  });

  it("the code that called is told the same line, the model is not", async () => {
    const { nt } = open();
    const send = nt.action("send_mail", {
      key: ["to"],
      run: (_: { to: string }) => Promise.reject(new Error("invalid email")),
    });
    await expect(send({ to: "ada" })).rejects.toThrow(/`throw notSent\(error\)`.*`classify:.*`doubt: "retry"`/s);
    const tool = guardTool(nt, { name: "pay", scope: null }, () => Promise.reject(new Error("invalid email")));
    const answer = await tool.answer({ to: "ada" }, undefined);
    const text = answer.kind === "refused" ? answer.text : "";
    expect(text).toMatch(/Do not repeat it, and do not try another way to the same end\./);
    expect(text).not.toMatch(/notSent|rejected|errors:/);
  });

  it("nobody is warned where the doubt settles itself, or where the code said that it is one", async () => {
    const { nt, warned } = open();
    const run = () => Promise.reject(new Error("hang up"));
    const retry = { attempts: 1 };
    await nt.action("again", { doubt: "retry", retry, run }).attempt({ to: "ada" });
    await nt.action("said", { classify: () => "doubt", run }).attempt({ to: "ada" });
    await guardTool(nt, { name: "tool", scope: null, errors: "doubt" }, run).answer({ to: "ada" }, undefined);
    expect(warned).toEqual([]);
  });
});

describe('"Already done" is said of what was done', () => {
  it.each([[{ error: "no such address" }], [{ success: false }], [{ isError: true }]])(
    "a kept answer that names an error, %j, is repeated as an error",
    async (answer) => {
      const { nt } = open();
      const tools = [
        guardTool(nt, { name: "send_mail", scope: null, errors: "answer" }, async () => answer).answer,
        (args: unknown) => toolMemory({ nt, scope: "s1", errors: "answer" }).call("send_text", args, () => answer),
      ];
      const loop = toolMemory({ scope: "s1", errors: "answer" });
      tools.push((args: unknown) => loop.call("send_text", args, () => answer));
      for (const call of tools) {
        expect(await call({ to: "ada" }, undefined)).toMatchObject({ result: answer, note: null });
        expect(await call({ to: "ada" }, undefined)).toMatchObject({
          result: answer,
          note: expect.stringMatching(/^It may have happened: .* answered with the error that follows/),
        });
      }
    },
  );
});
