import { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { type ProxyConfig, readProxyConfig } from "./config.ts";
import { McpGuard } from "./guard.ts";
import { SseReader } from "./http/sse.ts";
import { incomingText } from "./incoming.ts";
import { onLines } from "./lines.ts";
import type { ToolResult } from "./result.ts";
import { onlyGaveUp } from "./rpc.ts";
import { countMatches, verifyCall } from "./verify.ts";

describe("lines", () => {
  it("come out whole, however they were cut, blank ones dropped", async () => {
    const lines: string[] = [];
    const chunks = [Buffer.from('{"a":"é'), Buffer.from('"}\r\n\n{"b"'), Buffer.from(":2}\n"), Buffer.from("rest")];
    await new Promise<void>((end) => {
      onLines(Readable.from(chunks), { line: (line) => lines.push(line), end, error: () => {} });
    });
    expect(lines).toEqual(['{"a":"é"}', '{"b":2}']);
  });
});

describe("server-sent events", () => {
  it("are read one by one and kept as they came", () => {
    const reader = new SseReader();
    expect(reader.push("event: message\nda")).toEqual([]);
    const [first, second] = reader.push('ta: {"a":\ndata: 1}\n\nid: 7\ndata: x\r\n\r\n: ping');
    expect(first).toEqual({
      raw: 'event: message\ndata: {"a":\ndata: 1}\n\n',
      data: '{"a":\n1}',
      type: "message",
      resumable: false,
    });
    expect(second).toMatchObject({ data: "x", resumable: true });
    expect(reader.rest).toBe(": ping");
  });
});

describe("messages", () => {
  it("a client that only gave up waiting is told from one that wants to stop", () => {
    const cancelled = (reason: string) => ({
      jsonrpc: "2.0" as const,
      method: "notifications/cancelled",
      params: { requestId: 1, reason },
    });
    expect(onlyGaveUp(cancelled("McpError: MCP error -32001: Request timed out"))).toBe(true);
    expect(onlyGaveUp(cancelled("AbortError: the user pressed stop"))).toBe(false);
  });

  it("a batch is refused when a tool is called in it, or when a part of it is no message", () => {
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "a" } };
    const ping = { jsonrpc: "2.0", id: "x", method: "ping" };
    const read = (parts: unknown[]) => incomingText(JSON.stringify(parts));
    expect(read([call, ping])).toMatchObject({ kind: "refused", answers: { ids: [1, "x"], isBatch: true } });
    expect(read([null, call])).toMatchObject({ kind: "refused", answers: { ids: [1] } });
    expect(read([])).toMatchObject({ kind: "refused", answers: { ids: [null] } });
    expect(read([[call]])).toMatchObject({ kind: "refused" });
    expect(read([ping])).toMatchObject({ kind: "batch" });
    expect(incomingText("[not json")).toMatchObject({ kind: "refused", answers: { ids: [null], isBatch: false } });
  });
});

describe("verify", () => {
  const verify = {
    tool: "list",
    arguments: { repo: "$repo", state: "open" },
    match: { title: "$title" },
    quietFor: "1s",
  };
  const args = { repo: "r", title: "Printer burns" };
  const answering = (result: ToolResult) => async (name: string, given: object) => {
    expect([name, given]).toEqual(["list", { repo: "r", state: "open" }]);
    return result;
  };
  const text = (value: unknown) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

  it("finds an entry anywhere in the answer", async () => {
    const found = await verifyCall(verify, args, answering(text({ items: [{ number: 7, title: "Printer burns" }] })));
    expect(found).toEqual({ as: "done", result: text({ number: 7, title: "Printer burns" }) });
    const structured = { structuredContent: { issues: [{ title: "Printer burns" }, { title: "Printer burns" }] } };
    expect(await countMatches(verify, args, answering(structured))).toBe(2);
  });

  it("not there is not done; an error, or a text that is no data, is unknown", async () => {
    expect(await verifyCall(verify, args, answering(text([{ title: "another" }])))).toBe("not-done");
    expect(await verifyCall(verify, args, answering({ isError: true, content: [] }))).toBe("unknown");
    expect(await verifyCall(verify, args, answering({ content: [{ type: "text", text: "1. Printer burns" }] }))).toBe(
      "unknown",
    );
  });
});

describe("the proxy's config", () => {
  const read = (value: unknown) => () => readProxyConfig(value, "tools.json");

  it("takes the words of an action", () => {
    const config = { tools: { create_issue: { key: ["title"], free: ["body"], keep: "1d", doubt: "hold" } } };
    expect(readProxyConfig(config, "tools.json")).toEqual(config);
  });

  it("says what is wrong, and where", () => {
    expect(read([])).toThrow(/tools\.json must be an object, such as/);
    expect(read({ tool: {} })).toThrow(/tools\.json: there is no option "tool"\. The options are: name, preset, scope/);
    expect(read({ window: "soon" })).toThrow(/tools\.json: window: "soon" is not a duration/);
    expect(read({ window: "0s" })).toThrow(/tools\.json: window is 0, so no call would be guarded/);
    expect(read({ tools: { a: { key: "title" } } })).toThrow(/tools\.json: tools\.a\.key takes a list of names/);
    expect(read({ tools: { a: { errors: "retry" } } })).toThrow(
      /tools\.a\.errors is "retry"; it takes "doubt", "not-done" or "answer"/,
    );
    expect(read({ tools: { a: { declined: "no" } } })).toThrow(/tools\.a\.declined is "no"; it takes/);
    expect(read({ tools: { a: { verify: { tool: "list" } } } })).toThrow(
      /tools\.a\.verify needs tool, match and quietFor/,
    );
    expect(read({ tools: { a: { doubt: "retry", verify: {} } } })).toThrow(
      /verify settles a doubt by looking, and doubt says "retry"\. Keep one/,
    );
    expect(read({ statusTool: "yes" })).toThrow(/statusTool takes true or false/);
    expect(read({ onTimeout: "wait" })).toThrow(/tools\.json: onTimeout is "wait"; it takes "cancel" or "finish"/);
    expect(read({ tools: { a: { onTimeout: true } } })).toThrow(/tools\.a\.onTimeout is true; it takes "cancel"/);
    // What an action would refuse at its first call is refused at the start.
    expect(read({ tools: { a: { keep: "1 fortnight" } } })).toThrow(/tools\.a: keep: "1 fortnight" is not a duration/);
    expect(read({ tools: { a: { doubt: "hodl" } } })).toThrow(/tools\.a: doubt is "hodl"; it takes "hold", "retry"/);
    expect(read({ tools: { a: { wait: "soon" } } })).toThrow(/tools\.a: wait: "soon" is not a duration/);
    expect(read({ tools: { a: { lease: "1s", timeout: "1h" } } })).toThrow(
      /timeout \(1h\) must be .* than lease \(1s\)/,
    );
    expect(read({ name: " " })).toThrow(/name takes a text that is not blank/);
  });

  it("O13 takes kinds of effect; a payment needs a scope, or null by name", () => {
    const paying = (more: object) => ({ ...more, tools: { charge: { key: ["order"], effect: "payment" } } });
    expect(read(paying({}))).toThrow(
      /tools\.json: tools\.charge: effect is "payment", and the file gives no scope\..*"scope": null at the top/,
    );
    for (const scope of [null, "shop"])
      expect(readProxyConfig(paying({ scope }), "tools.json")).toEqual(paying({ scope }));
    expect(readProxyConfig(paying({}), "tools.json", { scope: "shop" })).toEqual(paying({}));
    expect(read({ scope: "" })).toThrow(/scope takes a text that is not blank/);
    expect(read({ tools: { a: { effect: "post" } } })()).toEqual({ tools: { a: { effect: "post" } } });
    expect(read({ tools: { a: { effect: "posts" } } })).toThrow(/tools\.a: effect is "posts"\. Did you mean "post"\?/);
    expect(read({ scope: null, tools: { a: { effect: "payment", doubt: "retry" } } })).toThrow(/could be made twice/);
  });

  it("O13 a configured payment is kept forever, in the scope of its caller", async () => {
    const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const config: ProxyConfig = { scope: null, tools: { charge: { key: ["order"], effect: "payment" } } };
    const guard = new McpGuard({ nt, config, server: "shop", identity: "shop" });
    const message = {
      jsonrpc: "2.0" as const,
      id: 1,
      method: "tools/call",
      params: { name: "charge", arguments: { order: 7 } },
    };
    const forward = async () => ({ content: [{ type: "text", text: "paid" }] }) as ToolResult;
    await guard.answer({ message, principal: "", forward } as never, (async () => ({})) as never);
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.map(({ record }) => [record.action, record.keepMs])).toEqual([["shop/charge", null]]);
  });
});

describe("the server's tools", () => {
  function guardOf(config: ProxyConfig) {
    const nt = nevertwice({ store: memoryStore(), sweep: false });
    onTestFinished(() => nt.close());
    const notes: string[] = [];
    const note = (text: string) => void notes.push(text);
    return { notes, guard: new McpGuard({ nt, config, server: "tracker", identity: "tracker", note }) };
  }

  it("a tool of the config that the server has not is said once, when its whole list is known", () => {
    const verify = { tool: "list_issue", match: { title: "$title" }, quietFor: "1s" };
    const { guard, notes } = guardOf({ tools: { create_isue: { key: ["title"] }, create_issue: { verify } } });
    guard.learn([{ name: "create_issue" }], false);
    expect(notes).toEqual([]);
    guard.learn([{ name: "list_issues" }]);
    guard.learn([{ name: "list_issues" }]);
    expect(notes).toEqual([
      'the config names "create_isue", "list_issue", and the server has no such tool. It has: create_issue, list_issues.',
    ]);
  });

  it("a first page of them is not the whole list: a tool on the next one may be read-only", () => {
    const { guard } = guardOf({});
    guard.learn([{ name: "first" }], false);
    expect(guard.needsList("second")).toBe(true);
    guard.learn([{ name: "second", annotations: { readOnlyHint: true } }]);
    expect([guard.needsList("second"), guard.guarded("second"), guard.guarded("first")]).toEqual([false, false, true]);
  });

  it("names that the server does not list are bounded: each would be an action for good", async () => {
    const { guard } = guardOf({});
    guard.learn([{ name: "send" }]);
    const call = (name: string) => ({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name } }) as const;
    const forward = async () => ({ content: [] });
    for (let names = 0; names < 1_001; names += 1) {
      const message = call(`unlisted_${names}`);
      if (guard.refusal(message) === null) await guard.answer({ message, forward }, async () => ({}));
    }
    expect(guard.refusal(call("one_more"))?.message).toMatch(/too many names that it does not list/);
    expect(guard.refusal(call("unlisted_1"))).toBe(null);
    expect(guard.refusal(call("send"))).toBe(null);
  });
});
