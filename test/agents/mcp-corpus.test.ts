/**
 * The HTTP proxy against malformed, smuggled and re-encoded requests, as bytes over real sockets. Behind it stands a server
 * that executes whatever it can make sense of: each effect it has must be one that the ledger knows, once.
 */
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { McpGuard } from "../../src/agents/mcp/guard.ts";
import { type HttpProxy, httpProxy } from "../../src/agents/mcp/http/proxy.ts";
import { stringifyExact } from "../../src/core/exact-json.ts";
import { nevertwice } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { BODY_CASES } from "./lib/corpus/body-cases.ts";
import { HEAD_CASES } from "./lib/corpus/head-cases.ts";
import { effectOf, type LenientServer, lenientServer, otherServer } from "./lib/corpus/lenient-server.ts";
import { type Case, call, request } from "./lib/corpus/requests.ts";

const CASES: readonly Case[] = [...HEAD_CASES, ...BODY_CASES];

const store = memoryStore();
const nt = nevertwice({ store, sweep: false });
let server: LenientServer;
let other: Awaited<ReturnType<typeof otherServer>>;
let proxy: HttpProxy;
let ports: { self: number; other: number };

beforeAll(async () => {
  [server, other] = await Promise.all([lenientServer(), otherServer()]);
  const config = { principal: ["authorization", "x-api-key"] };
  const guard = new McpGuard({ nt, config, server: "lenient", identity: "lenient" });
  const url = new URL(`http://127.0.0.1:${server.port}/mcp`);
  const allowOrigins = ["https://app.example.com"];
  proxy = await httpProxy({ guard, config, url, host: "127.0.0.1", port: 0, allowOrigins });
  ports = { self: Number(new URL(proxy.url).port), other: other.port };
});

afterAll(async () => {
  await proxy.close();
  server.close();
  other.close();
  await nt.close();
});

/** Sends the bytes, and what came back until as many answers were complete or the proxy closed the connection. */
function sent(bytes: Buffer, { answers = 1, cut = false }: { answers?: number; cut?: boolean } = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(ports.self, "127.0.0.1");
    let text = "";
    const tooLong = setTimeout(() => socket.destroy(new Error(`no end after 20 s; so far: ${text}`)), 20_000);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (completeAnswers(text) >= answers) socket.end();
    });
    // A connection that is reset before all was sent is closed too.
    socket.on("error", (error) => (/no end/.test(error.message) ? reject(error) : undefined));
    socket.on("close", () => {
      clearTimeout(tooLong);
      resolve(text);
    });
    if (cut) socket.end(bytes);
    else socket.write(bytes);
  });
}

function completeAnswers(text: string): number {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return 0;
  const [head, rest] = [text.slice(0, end), text.slice(end + 4)];
  if (/^HTTP\/1\.1 100/.test(head)) return completeAnswers(rest);
  const length = /^content-length: (\d+)/im.exec(head)?.[1];
  const size = length === undefined ? rest.indexOf("0\r\n\r\n") + 5 : Number(length);
  if (/^HTTP\/1\.1 (204|304)/.test(head)) return 1 + completeAnswers(rest);
  return size < 5 && length === undefined ? 0 : rest.length < size ? 0 : 1 + completeAnswers(rest.slice(size));
}

/** Every effect the ledger has a record of, in the words of the server. */
async function recorded(): Promise<string[]> {
  const { items } = await store.list({ limit: 1_000 });
  return items.map(({ record }) => {
    const input = record.input as { readonly json?: string } | null;
    // The server reads numbers as doubles; the ledger has their digits.
    const text = stringifyExact(JSON.parse(input?.json ?? "null"));
    return effectOf(record.action.slice("lenient/".length), JSON.parse(text));
  });
}

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (?!100)(\d{3})/m.exec(answer)?.[1] ?? 0);

it("has more than 500 cases, as the documents say, each under a name of its own", () => {
  expect(CASES.length).toBeGreaterThan(500);
  expect(new Set(CASES.map(({ name }) => name)).size).toBe(CASES.length);
});

describe("none reaches the server unguarded, none reaches another, none breaks the proxy", () => {
  it.each(CASES)("$fate: $name", async ({ name, fate, status, bytes, ...how }) => {
    const [effects, records] = [server.effects.length, await recorded()];
    const answer = await sent(bytes(ports), how);
    const had = server.effects.slice(effects);
    const known = (await recorded()).filter((one) => !records.includes(one));
    expect(had, `what the server was asked for: ${server.requests.at(-1)}`).toEqual(fate === "guarded" ? known : []);
    expect(had).toHaveLength(fate === "guarded" ? 1 : 0);
    if (fate === "guarded") expect(had[0]).toContain(JSON.stringify(name));
    const code = statusOf(answer);
    if (status !== undefined) expect(code, answer).toBe(status);
    if (fate === "refused") expect(code === 0 || code >= 400, answer).toBe(true);
    if (fate === "passes") expect([200, 202, 204], answer).toContain(code);
    if (fate === "not run") expect(answer).toMatch(/"isError":true/);
    expect(other.came.splice(0)).toEqual([]);
  });

  it("after all of them it still serves, and holds nothing", async () => {
    const answer = await sent(request(call("after all"))(ports));
    expect(answer).toContain("did send");
    await expect.poll(() => proxy.held).toBe(0);
    expect(other.came).toEqual([]);
    // What it asked the server for was only ever the endpoint, or metadata.
    const paths = new Set(server.requests.map((one) => one.split(" ")[1]?.split("?")[0]));
    expect([...paths].sort()).toEqual([
      "/.well-known/oauth-protected-resource/mcp",
      "/mcp",
      "/mcp/.well-known/openid-configuration",
      "/register",
      "/token",
    ]);
  });
});
