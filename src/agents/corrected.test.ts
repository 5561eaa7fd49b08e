/** A model makes a mistake, hears of it at once, corrects it, and the corrected call runs. In every wrapper. */

import { describe, expect, it, onTestFinished } from "vitest";
import { FakeMcpServer } from "../../test/support/fake-mcp-server.ts";
import { notSent, refused } from "../core/errors.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardAiTools } from "./frameworks/ai-sdk.ts";
import { claudeGuard } from "./frameworks/claude-agent-sdk.ts";
import { guardLangChainTools, guardToolCalls } from "./frameworks/langchain.ts";
import { guardMastraTools } from "./frameworks/mastra.ts";
import { guardOpenAiTools } from "./frameworks/openai-agents.ts";
import { guardTool } from "./guard-tool.ts";
import type { ProxyConfig } from "./mcp/config.ts";
import { McpGuard } from "./mcp/guard.ts";
import { mcpErrorMeaning, type ToolResult } from "./mcp/result.ts";
import { RpcFailure } from "./mcp/rpc.ts";
import { guardMcpServer } from "./mcp/server/index.ts";
import { toolMemory } from "./tool/memory.ts";
import type { AnyToolOptions } from "./tool/options.ts";

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

type Nt = ReturnType<typeof open>["nt"];
// biome-ignore lint/suspicious/noExplicitAny: every wrapper hands its own type of input to it
type Handler = (input: any) => Promise<unknown>;

const bad = { to: "ada", cents: 5 };
const good = { to: "ada", cents: 6 };
const key = ["to"] as const;

/** Fails for the first input; works for any other. */
const failing =
  (fail: () => unknown): Handler =>
  async (input) =>
    input.cents === bad.cents ? fail() : { sent: input.cents };

const throwing = (error: () => unknown) =>
  failing(() => {
    throw error();
  });

/** One tool behind each wrapper, called as its framework would. */
const WRAPPERS: [string, (nt: Nt, handler: Handler, options: AnyToolOptions) => Handler][] = [
  [
    "guardTool",
    (nt, handler, own) => guardTool(nt, { ...own, scope: null, name: "send" }, handler) as unknown as Handler,
  ],
  [
    "guardAiTools",
    (nt, execute, own) => {
      const { send } = guardAiTools(nt, { send: { execute } }, { scope: null, tools: { send: own } });
      return (input) =>
        (send as unknown as { execute(input: unknown, call: object): Promise<unknown> }).execute(input, {
          toolCallId: "c",
        });
    },
  ],
  [
    "claudeGuard",
    (nt, handler, own) =>
      claudeGuard(nt, { scope: null, tools: { send: own } }).tool({ name: "send", handler: handler as never })
        .handler as unknown as Handler,
  ],
  [
    "guardMcpServer",
    (nt, handler, own) => {
      const server = guardMcpServer(nt, new FakeMcpServer(), { scope: null, tools: { send: own } });
      server.registerTool("send", { inputSchema: {} }, handler as never);
      return server.handler("send") as Handler;
    },
  ],
  [
    "guardLangChainTools",
    (nt, _call, own) =>
      guardLangChainTools(nt, [{ name: "send", _call }], { scope: null, tools: { send: own } })[0]?._call as Handler,
  ],
  [
    "guardToolCalls",
    (nt, handler, own) => {
      class ToolMessage {
        constructor(fields: object) {
          Object.assign(this, fields);
        }
      }
      const wrap = guardToolCalls(nt, { ToolMessage: ToolMessage as never, scope: null, tools: { send: own } });
      return (args) => wrap({ toolCall: { name: "send", args, id: "c" } }, ({ toolCall }) => handler(toolCall.args));
    },
  ],
  [
    "guardOpenAiTools",
    (nt, execute, own) => {
      const tool = guardOpenAiTools(nt, (one: { execute: Handler }) => one.execute, {
        scope: null,
        tools: { send: own },
      });
      return tool({ name: "send", execute } as never);
    },
  ],
  [
    "guardMastraTools",
    (nt, execute, own) =>
      guardMastraTools(nt, { send: { id: "send", execute } }, { scope: null, tools: { send: own } }).send.execute,
  ],
];

const heard = async (call: Promise<unknown>) =>
  call.then(
    (result) => JSON.stringify(result) ?? String(result),
    (error) => String(error),
  );

describe.each(WRAPPERS)("%s", (_name, guarded) => {
  it("O4: refused(): the model hears the error, the corrected call runs, and nothing is in doubt", async () => {
    const { nt, warned, states } = open();
    const send = guarded(
      nt,
      throwing(() => refused("invalid email")),
      { key },
    );
    expect(await heard(send(bad))).toMatch(/invalid email/);
    expect(await states()).toEqual(["failed"]);
    expect(await heard(send(good))).toMatch(/"sent\\*":6/);
    expect(await states()).toEqual(["confirmed"]);
    expect(warned).toEqual([]);
  });

  it("O4: check: the model hears the error, there is no record, and the corrected call runs", async () => {
    const { nt, states } = open();
    const check = ({ cents }: typeof bad) => {
      if (cents === bad.cents) throw new Error("invalid amount");
    };
    const send = guarded(nt, async ({ cents }) => ({ sent: cents }), { key, check });
    expect(await heard(send(bad))).toMatch(/invalid amount/);
    expect(await states()).toEqual([]);
    expect(await heard(send(good))).toMatch(/"sent\\*":6/);
    expect(await heard(send(good))).toMatch(/Already done|"sent\\*":6/);
  });

  it('O4: errors: "not-done" covers what is thrown and what is returned', async () => {
    for (const fail of [
      () => Promise.reject(new Error("no such address")),
      async () => ({ error: "no such address" }),
      async () => ({ success: false, message: "no such address" }),
      async () => ({ isError: true, content: [{ type: "text", text: "no such address" }] }),
    ]) {
      const { nt, states, warned } = open();
      const send = guarded(nt, failing(fail), { key, errors: "not-done" });
      expect(await heard(send(bad))).toMatch(/no such address/);
      expect(await states()).toEqual(["failed"]);
      expect(await heard(send(good))).toMatch(/"sent\\*":6/);
      expect(warned).toEqual([]);
    }
  });

  it('O5: errors: "not-done" leaves a lost reply in doubt, thrown or returned', async () => {
    for (const fail of [
      () => Promise.reject(Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" })),
      async () => ({ error: "socket hang up" }),
      async () => ({ success: false, message: "the request timed out" }),
    ]) {
      const { nt, states } = open();
      const send = guarded(nt, failing(fail), { key, errors: "not-done" });
      await heard(send(bad));
      expect(await states()).toEqual(["unknown"]);
      expect(await heard(send(bad))).toMatch(/It may have happened all the same/);
    }
  });

  it("O4: notSent(): the answer comes at once, with the time where one is given, and the next call runs", async () => {
    const { nt, states } = open();
    let runs = 0;
    const send = guarded(
      nt,
      async () => {
        runs += 1;
        if (runs === 1) throw notSent(new Error("busy"));
        if (runs === 2) throw notSent(new Error("too many requests"), { retryAfter: "30s" });
        return { sent: runs };
      },
      { key },
    );
    expect(await heard(send(good))).toMatch(/busy/);
    expect(runs).toBe(1);
    expect(await heard(send(good))).toMatch(
      /It did not happen: too many requests\. You may call send again, but not before 2\d{3}-.*Z \(in 30s\)\./,
    );
    expect(runs).toBe(2);
    expect(await heard(send(good))).toMatch(/"sent\\*":3/);
    expect(await states()).toEqual(["confirmed"]);
  });

  it("with retry it is tried again inside the call", async () => {
    const { nt } = open();
    let runs = 0;
    const run = async () => {
      runs += 1;
      if (runs < 3) throw notSent(new Error("busy"));
      return { sent: runs };
    };
    const send = guarded(nt, run, { key, retry: { attempts: 3, backoff: 1 } });
    expect(await heard(send(good))).toMatch(/"sent\\*":3/);
  });
});

describe("an object that names an error", () => {
  it.each([
    ["{ error: … }", { error: "no such address" }],
    ["{ error: … }", { error: { code: 7 } }],
    ["{ success: false }", { success: false }],
  ])("O4: a plain tool that returns it is done, and whoever wrote it is warned once: %s", async (shape, answer) => {
    const { nt, warned, states } = open();
    const send = guardTool(nt, { name: "send", scope: null, key }, async (_mail: typeof bad) => answer);
    await send(bad, undefined);
    await send({ ...bad, to: "bob" }, undefined);
    expect(await states()).toEqual(["confirmed", "confirmed"]);
    expect(warned).toEqual([
      {
        code: "RESULT_IS_ERROR",
        action: "send",
        message: `tool send: it returned ${shape}, and that is recorded as done: a repeat gets it back, and nothing is run again. If it means that nothing was done, throw it: \`throw refused(error)\`; or give the tool \`errors: "not-done"\`. If it is a result like any other: \`errors: "answer"\`.`,
      },
    ]);
  });

  it("a plain action's run: the same warning, with its own remedy", async () => {
    const { nt, warned } = open();
    const send = nt.action("send", { key, run: async (_mail: typeof bad) => ({ error: "no such address" }) });
    await send(bad);
    await send({ ...bad, to: "bob" });
    expect(warned.map(({ code }) => code)).toEqual(["RESULT_IS_ERROR"]);
    expect(warned[0]?.message).toMatch(/^action send: run returned \{ error: … \}.*`throw refused\(error\)`/);
  });

  it("nothing is said of what names no error, nor where the tool's options say what it means", async () => {
    const { nt, warned } = open();
    const answers = [
      { error: null },
      { error: "", id: 1 },
      { success: true },
      { data: { id: 1 }, error: "one of two" },
      "error",
      [{ error: "x" }],
    ];
    for (const [i, answer] of answers.entries())
      await guardTool(nt, { name: `send_${i}`, scope: null, key }, async (_mail: typeof bad) => answer)(bad, undefined);
    const kept = guardTool(nt, { name: "kept", scope: null, key, errors: "answer" }, async (_mail: typeof bad) => ({
      error: "x",
    }));
    await kept(bad, undefined);
    expect((await kept.answer(bad, undefined)).kind).toBe("result");
    expect(warned).toEqual([]);
  });

  it('errors: "doubt" holds it, a function decides', async () => {
    const { nt, states } = open();
    const answer = async ({ to }: typeof bad) => ({ error: `no such address: ${to}` });
    const hold = guardTool(nt, { name: "hold", scope: null, key, errors: "doubt" }, answer);
    expect((await hold.answer(bad, undefined)).kind).toBe("refused");
    const errors = (result: { error: string }) => (result.error.endsWith("ada") ? "not-done" : "answer");
    const decides = guardTool(nt, { name: "decides", scope: null, key, errors }, answer);
    await decides(bad, undefined);
    await decides({ ...bad, to: "bob" }, undefined);
    expect((await states()).sort()).toEqual(["confirmed", "failed", "unknown"]);
  });
});

describe("errors as a function", () => {
  class Invalid extends Error {}

  it("O4: gets what the tool threw; what the rules know to be doubtful stays so", async () => {
    const { nt, states } = open();
    const errors = (_result: unknown, error?: unknown) => (error instanceof Invalid ? "not-done" : "doubt");
    const failures = [new Invalid("no such address"), new Invalid("socket hang up"), new TypeError("x is undefined")];
    const send = guardTool(nt, { name: "send", scope: null, key, errors }, () => Promise.reject(failures.shift()));
    await expect(send(bad, undefined)).rejects.toThrow("no such address");
    expect(await states()).toEqual(["failed"]);
    expect((await send.answer(bad, undefined)).kind).toBe("refused");
    expect(await states()).toEqual(["unknown"]);
    expect((await send.answer({ ...bad, to: "bob" }, undefined)).kind).toBe("refused");
    expect(await states()).toEqual(["unknown", "unknown"]);
  });

  it("one that is written for results alone says nothing about an error", async () => {
    const { nt, states } = open();
    const errors = (result: { text: string }) => (result.text.includes("x") ? "not-done" : "answer");
    const send = guardTool(nt, { name: "send", scope: null, key, errors }, () => Promise.reject(new Error("x")));
    expect((await send.answer(bad, undefined)).kind).toBe("refused");
    expect(await states()).toEqual(["unknown"]);
  });

  it("the proxy's: an error answer of the protocol means what the config says, and nothing where it is silent", () => {
    const failure = new Error("no such address");
    expect(mcpErrorMeaning("not-done")(undefined as never, failure)).toBe("not-done");
    expect(mcpErrorMeaning("doubt")(undefined as never, failure)).toBe("doubt");
    expect(mcpErrorMeaning(undefined)(undefined as never, failure)).toBe("answer");
  });
});

describe("the MCP proxy", () => {
  function proxy(config: ProxyConfig, answers: (() => Promise<ToolResult>)[]) {
    const { nt, states } = open();
    const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
    const call = (args: object) =>
      guard.answer(
        {
          message: {
            jsonrpc: "2.0",
            id: 1,
            method: "tools/call",
            params: { name: "send", arguments: args as Record<string, unknown> },
          },
          forward: () => (answers.shift() as () => Promise<ToolResult>)(),
        },
        () => Promise.reject(new Error("not asked")),
      );
    return { call, states };
  }
  const sent = async () => ({ content: [{ type: "text", text: "sent" }] });
  const failed = (error: { code: number; message: string }) => () => Promise.reject(new RpcFailure(error));

  it('O4: errors: "not-done" covers an error answer of the protocol, and the corrected call runs', async () => {
    const config = { tools: { send: { key: ["to"], errors: "not-done" } } } as const;
    const { call, states } = proxy(config, [failed({ code: -32_010, message: "no such address" }), sent]);
    await expect(call(bad)).rejects.toThrow("no such address");
    expect(await states()).toEqual(["failed"]);
    expect(await call(good)).toMatchObject({ kind: "result", note: null });
  });

  it("O5: without it, and for a lost connection, it is in doubt", async () => {
    for (const [errors, message] of [
      [undefined, "no such address"],
      ["not-done", "connection closed"],
    ] as const) {
      const tools = { send: { key: ["to"], ...(errors !== undefined && { errors }) } };
      const { call, states } = proxy({ tools }, [failed({ code: -32_010, message })]);
      expect(await call(bad)).toMatchObject({ kind: "refused", outcome: { status: "unknown" } });
      expect(await states()).toEqual(["unknown"]);
      expect(await call(good)).toMatchObject({ kind: "refused", outcome: { status: "unknown", differs: ["cents"] } });
    }
  });

  it("O4: what was surely not sent is answered at once; with retry in the config it is tried again", async () => {
    const down = () =>
      Promise.reject(Object.assign(new Error("connect"), { code: "ECONNREFUSED", syscall: "connect" }));
    const once = proxy({ tools: { send: { key: ["to"] } } }, [down, sent]);
    await expect(once.call(good)).rejects.toThrow("connect");
    expect(await once.call(good)).toMatchObject({ kind: "result", note: null });
    const retry = { attempts: 2, backoff: 1 };
    const again = proxy({ tools: { send: { key: ["to"], retry } } }, [down, sent]);
    expect(await again.call(good)).toMatchObject({ kind: "result", note: null });
  });
});

describe("toolMemory", () => {
  it.each(["process", "ledger"])("O4: refused(), check and named errors, remembered in the %s", async (where) => {
    const { nt, states } = open();
    const checks: unknown[] = [];
    const check = (args: object) => {
      checks.push(args);
      if ("wrong" in args) throw new Error("wrong");
    };
    const memory = toolMemory({
      scope: "run-1",
      ...(where === "ledger" && { nt }),
      tools: { checked: { check }, said: { errors: "not-done" } },
    });
    let runs = 0;
    const send = () =>
      memory.call("send", bad, () => {
        runs += 1;
        if (runs === 1) throw refused("invalid email");
        return runs;
      });
    await expect(send()).rejects.toThrow(/^invalid email$/);
    expect(await send()).toMatchObject({ result: 2 });
    await expect(memory.call("checked", { wrong: 1 }, () => "sent")).rejects.toThrow("wrong");
    expect(await memory.call("checked", { to: "ada" }, () => "sent")).toMatchObject({ result: "sent" });
    expect(await memory.call("checked", { to: "ada" }, () => "twice")).toMatchObject({ result: "sent" });
    expect(checks).toEqual([{ wrong: 1 }, { to: "ada" }]);
    const answers = [{ success: false }, { id: 1 }];
    const said = () => memory.call("said", {}, () => answers.shift());
    expect(await said()).toMatchObject({ result: { success: false }, note: null });
    expect(await said()).toMatchObject({ result: { id: 1 }, note: null });
    if (where === "ledger") expect((await states()).filter((state) => state !== "confirmed")).toEqual([]);
  });
});

it("check: what is no function is refused, and guards that share an action agree on having one", () => {
  const { nt } = open();
  const run = async () => 1;
  expect(() => guardTool(nt, { name: "a", scope: null, check: "x" as never }, run)).toThrow(
    /tool "a": check must be a function that throws where the tool must not begin/,
  );
  guardTool(nt, { name: "b", scope: null, check: () => {} }, run);
  expect(() => guardTool(nt, { name: "b", scope: null, check: () => {} }, run)).not.toThrow();
  expect(() => guardTool(nt, { name: "b", scope: null }, run)).toThrow(/guarded already with other options/);
});
