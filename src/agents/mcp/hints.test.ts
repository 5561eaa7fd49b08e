/** What passes by its own word, and what an error answer is repeated as: in the proxy, and in programs. */

import { describe, expect, it, onTestFinished } from "vitest";
import { FakeMcpServer } from "../../../test/support/fake-mcp-server.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { claudeGuard } from "../frameworks/claude-agent-sdk.ts";
import { guardToolCalls } from "../frameworks/langchain.ts";
import { guardTool } from "../guard-tool.ts";
import type { ProxyConfig } from "./config.ts";
import { McpGuard } from "./guard.ts";
import { probeServer, type Wire } from "./probe.ts";
import { mcpResult, type ToolResult, textOf } from "./result.ts";
import { RpcFailure } from "./rpc.ts";
import { guardMcpServer, guardMcpTool } from "./server/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: tools by shape
type Any = any;

function open() {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

const text = (said: string, more: object = {}): ToolResult => ({ content: [{ type: "text", text: said }], ...more });

describe("a tool that declares idempotentHint", () => {
  const IDEMPOTENT = { idempotentHint: true, destructiveHint: true, readOnlyHint: false };

  it.each<[string, object, boolean]>([
    ["idempotentHint", IDEMPOTENT, false],
    ["readOnlyHint", { readOnlyHint: true }, false],
    ["idempotentHint: false", { idempotentHint: false }, true],
    ["destructiveHint: false alone", { destructiveHint: false }, true],
    ["a hint that is no true", { idempotentHint: "true" }, true],
  ])("in the proxy: %s", (_, annotations, guarded) => {
    const guard = new McpGuard({ nt: open(), config: {}, server: "files", identity: "files" });
    guard.learn([{ name: "write_file", annotations }]);
    expect(guard.guarded("write_file")).toBe(guarded);
  });

  it.each<[ProxyConfig["tools"], boolean]>([
    [{ write_file: { key: ["path"] } }, true],
    [{ write_file: {} }, true],
    [{ write_file: { readOnly: true } }, false],
    [{ other: { key: ["path"] } }, false],
  ])("the proxy guards it where the config names it: %j", (tools, guarded) => {
    const guard = new McpGuard({ nt: open(), config: { tools } as ProxyConfig, server: "files", identity: "files" });
    guard.learn([{ name: "write_file", annotations: IDEMPOTENT }]);
    expect(guard.guarded("write_file")).toBe(guarded);
  });

  it('a file written "1", "2", "1" holds "1", in guardMcpServer and claudeGuard', async () => {
    const file = { text: "" };
    const write = async (args: { text: string }) => {
      file.text = args.text;
      return text("written");
    };
    const server = guardMcpServer(open(), new FakeMcpServer(), { scope: null, otherTools: { keep: "1h" } });
    server.registerTool("write", { inputSchema: {}, annotations: IDEMPOTENT }, write);
    const claude = claudeGuard(open(), { scope: null }).tool({
      name: "write",
      annotations: IDEMPOTENT,
      handler: write,
    } as Any) as Any;
    for (const call of [
      (given: object) => server.handler("write")(given, {}) as Any,
      (g: object) => claude.handler(g, {}),
    ]) {
      for (const one of ["1", "2", "1"]) expect(textOf(await call({ text: one }))).toBe("written");
      expect(file.text).toBe("1");
    }
  });

  it("in programs it is guarded where it is named, and a tool that only reads passes still", () => {
    const callback = async () => text("x");
    const config = (annotations: object) => ({ inputSchema: {}, annotations });
    const guardOne = (annotations: object, options: object) =>
      guardMcpTool(open(), "write", config(annotations), callback as Any, { scope: null, ...options } as Any) !==
      (callback as Any);
    expect(guardOne(IDEMPOTENT, {})).toBe(false);
    expect([guardOne(IDEMPOTENT, { key: ["path"] }), guardOne(IDEMPOTENT, { readOnly: false })]).toEqual([true, true]);
    expect(guardOne({ readOnlyHint: true }, { key: ["path"] })).toBe(false);
    const tool = { name: "write", annotations: IDEMPOTENT, handler: async () => text("x") };
    const ofClaude = (options: object, own?: object) =>
      claudeGuard(open(), options as Any).tool(tool as Any, own as Any) !== (tool as Any);
    expect([ofClaude({}), ofClaude({ otherTools: { keep: "1d" } })]).toEqual([false, false]);
    expect([ofClaude({ tools: { write: {} } }), ofClaude({}, { key: ["path"] })]).toEqual([true, true]);
  });
});

describe("an error answer", () => {
  function proxied(config: ProxyConfig, forward: () => Promise<ToolResult>) {
    const nt = open();
    const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
    guard.learn([{ name: "send" }]);
    const params = { name: "send", arguments: { to: "ada" } };
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params } as const;
    const call = async () => mcpResult(await guard.answer({ message, forward }, async () => ({})));
    const status = async (reference: string) => {
      const params = { name: "nevertwice_status", arguments: { reference } };
      return textOf((await guard.status({ jsonrpc: "2.0", id: 2, method: "tools/call", params })) ?? undefined);
    };
    return { call, status };
  }

  it("is repeated as the error it is, never as done: without a config, and with errors: answer", async () => {
    for (const config of [{}, { tools: { send: { key: ["to"], errors: "answer" } } }] as ProxyConfig[]) {
      let calls = 0;
      const forward = async () => text(`socket hang up ${++calls}`, { isError: true });
      const { call, status } = proxied({ ...config, statusTool: true }, forward);
      expect(await call()).toEqual(text("socket hang up 1", { isError: true }));
      const again = await call();
      expect([calls, again.isError]).toEqual([1, true]);
      const said = String(again.content?.[0]?.text);
      expect(said).toMatch(
        /^It may have happened: send was called for this at .*with the error that follows\. It was not/,
      );
      expect(again.content?.[1]).toEqual({ type: "text", text: "socket hang up 1" });
      expect(JSON.stringify(again)).not.toContain("Already done");
      const [reference = ""] = /nt1_\w+/.exec(said) ?? [];
      expect(await status(reference)).toMatch(/^It may have happened: it answered with an error at/);
    }
  });

  it.each([
    ["a doubt", { guard: "intent" }, /It may have happened all the same/],
    ["an answer until it has arrived", {}, /^It may have happened: send was called .*MCP error -32603: internal error/],
  ] as const)("of JSON-RPC is %s, and not done", async (_, config, again) => {
    const forward = async () => Promise.reject(new RpcFailure({ code: -32603, message: "internal error" }));
    const { call } = proxied(config, forward);
    const said = [await call().catch((error: Error) => text(error.message)), await call()].map(textOf);
    expect(said[1]).toMatch(again);
    expect(said.join()).not.toContain("Already done");
  });

  it("that was lost on the way is a doubt, whatever the guard", async () => {
    const lost = new RpcFailure({ code: -32603, message: "the stream ended before the answer came" }, true);
    const { call } = proxied({}, async () => Promise.reject(lost));
    await call().catch(() => {});
    expect(textOf(await call())).toMatch(/It may have happened all the same/);
  });

  it("of a program's own tools too: a returned error, and a ToolMessage of LangChain", async () => {
    const nt = open();
    const failed = { data: null, error: { message: "duplicate key", code: "23505" } };
    const tool = guardTool(nt, { name: "insert", scope: null, errors: "answer" }, async () => failed);
    await tool.answer({ id: 1 }, undefined);
    expect(await tool.answer({ id: 1 }, undefined)).toMatchObject({
      kind: "result",
      result: failed,
      note: expect.stringMatching(/^It may have happened: insert/),
    });
    class ToolMessage {
      constructor(fields: object) {
        Object.assign(this, fields);
      }
    }
    const wrap = guardToolCalls(nt, { ToolMessage, scope: null, errors: "answer" } as Any);
    const request = { toolCall: { name: "post", args: { id: 1 }, id: "1" } };
    const call = () =>
      wrap(request, async () => new ToolMessage({ content: "no", status: "error", tool_call_id: "1" }) as Any);
    await call();
    expect(await call()).toMatchObject({
      content: expect.stringMatching(/^It may have happened: post/),
      status: "error",
    });
  });
});

describe("the probe", () => {
  /** A server of one tool, by its lines. */
  function wireTo(tool: object, answer: (calls: number) => object, count: () => number): Wire {
    let to: Parameters<Wire["listen"]>[0];
    let calls = 0;
    return {
      listen: (on) => {
        to = on;
      },
      send: (line) => {
        const { id, method, params } = JSON.parse(line);
        if (id === undefined) return;
        const result =
          method === "tools/list"
            ? { tools: [tool, { name: "list", annotations: { readOnlyHint: true } }] }
            : method === "tools/call" && params.name === "list"
              ? text(JSON.stringify(Array.from({ length: count() }, () => ({ to: "ada" }))))
              : method === "tools/call"
                ? answer(++calls)
                : { protocolVersion: "2025-06-18", capabilities: {}, serverInfo: { name: "s", version: "1" } };
        queueMicrotask(() => to.line(JSON.stringify({ jsonrpc: "2.0", id, result })));
      },
    };
  }

  const probe = async (
    tool: { name: string },
    answer: (calls: number) => object,
    config: ProxyConfig,
    count = () => 0,
  ) => {
    const calls = [{ tool: tool.name, args: { to: "ada" } }];
    const report = await probeServer({ wire: wireTo(tool, answer, count), nt: open(), config, version: "1", calls });
    return report.tools[0];
  };
  const verify = { tool: "list", match: { to: "$to" }, quietFor: "1s" };

  it("says that answers differ, and nothing of effects, where nothing was counted", async () => {
    const at = await probe({ name: "send" }, (calls) => text(`at ${calls}`), {});
    expect(at).toMatchObject({
      verdict: "answers-differ",
      bare: { answers: 3, effects: null },
      guarded: { answers: 1 },
    });
    expect(await probe({ name: "send" }, () => text("ok"), {})).toMatchObject({ verdict: "no-sign" });
  });

  it("says that it acts again, or once, where the verify tool shows it, whatever the answers are", async () => {
    let sent = 0;
    const acts = (calls: number) => {
      sent += 1;
      return text(calls === 0 ? "" : "ok");
    };
    const config = { tools: { send: { verify } } };
    expect(await probe({ name: "send" }, acts, config, () => sent)).toMatchObject({ verdict: "acts-again" });
    expect(
      await probe(
        { name: "send" },
        (calls) => text(`at ${calls}`),
        config,
        () => 1,
      ),
    ).toMatchObject({
      verdict: "once",
    });
  });

  it("an error that is repeated counts as one answer", async () => {
    const errors = await probe({ name: "send" }, () => text("no such address", { isError: true }), {});
    expect(errors).toMatchObject({ verdict: "failed", bare: { errors: 3 }, guarded: { answers: 1 } });
  });

  it("answers that are errors are no sign of anything: no call succeeded, or only repeats failed", async () => {
    const moved = (calls: number) => (calls === 1 ? text("moved") : text("no such file", { isError: true }));
    expect(await probe({ name: "send" }, moved, {})).toMatchObject({ verdict: "repeat-fails", bare: { errors: 2 } });
  });

  it("a tool that is idempotent by its own word passes through the guard, and is shown as such where it was not called", async () => {
    const tool = { name: "send", annotations: { idempotentHint: true } };
    expect(await probe(tool, (calls) => text(`at ${calls}`), {})).toMatchObject({
      idempotentHint: true,
      guarded: { answers: 3 },
    });
    const wire = wireTo(
      tool,
      () => text(""),
      () => 0,
    );
    const { tools } = await probeServer({ wire, nt: open(), config: {}, version: "1", calls: [] });
    expect(tools.map(({ verdict }) => verdict)).toEqual(["idempotent", "read-only"]);
  });
});
