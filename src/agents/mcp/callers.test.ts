/** Whose a doubt is, and who may look into it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { steeredClock } from "../../../test/support/each-store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { Callers } from "./callers.ts";
import type { ProxyConfig } from "./config.ts";
import { McpGuard } from "./guard.ts";
import { httpProxy } from "./http/proxy.ts";

interface Tool {
  readonly name: string;
  readonly annotations?: { readonly readOnlyHint: boolean };
}

interface Message {
  readonly id: unknown;
  readonly method: string;
  readonly params: { readonly name: string; readonly arguments: { readonly title: string } };
}

/** Issues of each caller, seen by nobody else. The first answer is lost. */
async function tracker(toolsOf: (who: string) => readonly Tool[] = () => [{ name: "create" }, { name: "list" }]) {
  const issues = new Map<string, string[]>();
  const asked: string[] = [];
  let losing = true;
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { id, method, params } = JSON.parse(text) as Message;
    const who = request.headers.authorization ?? "nobody";
    const own = issues.get(who) ?? [];
    issues.set(who, own);
    const answer = (result: object) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    if (method === "tools/list") return answer({ tools: toolsOf(who) });
    asked.push(`${params.name} by ${who}`);
    if (params.name === "list") {
      const found = own.map((title) => ({ title }));
      return answer({ content: [], structuredContent: { issues: found } });
    }
    own.push(params.arguments.title);
    if (losing) return request.socket.destroy();
    return answer({ content: [{ type: "text", text: `made ${own.length}` }] });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  return {
    url,
    asked,
    issues,
    answering: () => {
      losing = false;
    },
  };
}

const VERIFIED: ProxyConfig = {
  tools: {
    create: { key: ["title"], wait: 0, verify: { tool: "list", match: { title: "$title" }, quietFor: "1s" } },
    list: { readOnly: true },
  },
};

async function proxied(url: URL, config: ProxyConfig, secret?: string) {
  const clock = steeredClock();
  const store = memoryStore({ clock });
  const nt = nevertwice({ store, sweep: false, ...(secret !== undefined && { secret }) });
  const guard = new McpGuard({ nt, config, server: "tracker", identity: "tracker", secret });
  const proxy = await httpProxy({ guard, config, url, host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    await proxy.close();
    await nt.close();
  });
  const call = async (who: string, name: string, title: string, query = "") => ask(who, name, { title }, query);
  const ask = async (who: string, name: string, args: object, query = "") => {
    const headers = { "content-type": "application/json", authorization: who };
    const params = { name, arguments: args };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    return (await fetch(`${proxy.url}${query}`, { method: "POST", headers, body })).text();
  };
  return { nt, store, clock, call, ask };
}

it("a doubt is looked into with its own caller's connection alone; without it, it stays unknown and nothing is made twice", async () => {
  const server = await tracker();
  const { nt, clock, call } = await proxied(server.url, VERIFIED);
  await call("ada", "create", "Printer burns");
  server.answering();
  await call("bob", "create", "Printer works");
  clock.advance(60_000);
  expect(await nt.sweep()).toMatchObject({ settled: 1 });
  expect(server.asked.filter((one) => one.startsWith("list"))).toEqual(["list by ada"]);
  expect(await call("ada", "create", "Printer burns")).toMatch(/Already done/);
  expect(server.issues.get("ada")).toEqual(["Printer burns"]);
});

it("the status tool answers for the caller's own calls: another caller's reference is not known to it", async () => {
  const server = await tracker();
  const { store, ask, call } = await proxied(server.url, { ...VERIFIED, statusTool: true });
  await call("ada", "create", "Printer burns");
  const [doubt] = (await store.list({ limit: 10, states: ["unknown"] })).items;
  const reference = doubt?.record.key;
  expect(await ask("ada", "nevertwice_status", { reference })).toMatch(/may have happened/i);
  expect(await ask("bob", "nevertwice_status", { reference })).toMatch(/Not known/);
});

it("a doubt from before a restart waits for its caller: another's call does not settle it", async () => {
  const server = await tracker();
  const first = await proxied(server.url, VERIFIED);
  await first.call("ada", "create", "Printer burns");
  server.answering();
  // A proxy that was started again knows nobody yet.
  const config = VERIFIED;
  const nt = nevertwice({ store: first.store, sweep: false });
  const guard = new McpGuard({ nt, config, server: "tracker", identity: "tracker" });
  const proxy = await httpProxy({ guard, config, url: server.url, host: "127.0.0.1", port: 0 });
  onTestFinished(() => proxy.close());
  const call = async (who: string) => {
    const params = { name: "create", arguments: { title: "Printer burns" } };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const headers = { "content-type": "application/json", authorization: who };
    return (await fetch(proxy.url, { method: "POST", headers, body })).text();
  };
  expect(await call("bob")).toMatch(/made 1/);
  first.clock.advance(60_000);
  expect(await nt.sweep()).toMatchObject({ settled: 0 });
  expect(server.asked.filter((one) => one.startsWith("list"))).toEqual([]);
  // Its own caller's next call looks with its own connection, and finds it.
  expect(await call("ada")).toMatch(/Already done/);
  expect(server.issues.get("ada")).toEqual(["Printer burns"]);
});

it("what a tool is said to be by one caller's list says nothing about another's", async () => {
  const readOnly = { name: "create", annotations: { readOnlyHint: true } };
  const server = await tracker((who) => (who === "bob" ? [readOnly] : [{ name: "create" }]));
  server.answering();
  const { call } = await proxied(server.url, { guard: "intent" });
  await call("bob", "create", "a look");
  await call("bob", "create", "a look");
  expect(await call("ada", "create", "Printer burns")).toMatch(/made 1/);
  expect(await call("ada", "create", "Printer burns")).toMatch(/Already done/);
  expect(server.asked).toEqual(["create by bob", "create by bob", "create by ada"]);
});

it("another query than the configured one may be another account: its calls are not repeats", async () => {
  const server = await tracker();
  server.answering();
  const { call } = await proxied(server.url, { guard: "intent" });
  for (const query of ["?account=1", "?account=2", "?account=2"]) await call("ada", "create", "Printer burns", query);
  expect(server.asked).toHaveLength(2);
});

it("a record holds no credentials, only their digest: keyed where there is a secret", async () => {
  const server = await tracker();
  server.answering();
  const scopes = await Promise.all(
    [undefined, "a secret of 16 bytes or more"].map(async (secret) => {
      const { store, call } = await proxied(server.url, {}, secret);
      await call("Bearer ada-s-token", "create", "Printer burns");
      const { items } = await store.list({ limit: 10 });
      expect(JSON.stringify(items)).not.toContain("ada-s-token");
      return items[0]?.record.scope;
    }),
  );
  for (const scope of scopes) expect(scope).toMatch(/^mcp:[\w-]{16}:[\w-]{16}:$/);
  expect(scopes[0]).not.toBe(scopes[1]);
});

it("the least recent caller is forgotten when there are too many", () => {
  const callers = new Callers(2);
  const ask = async () => ({});
  callers.of("a").ask = ask;
  callers.of("b").ask = ask;
  callers.of("a");
  callers.of("c");
  expect([callers.find("a")?.ask, callers.find("b"), callers.find(null)]).toEqual([ask, null, null]);
});
