/** How much the HTTP proxy holds, and for how long it waits. */
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../../nevertwice.ts";
import { memoryStore } from "../../../stores/memory.ts";
import { McpGuard } from "../guard.ts";
import type { HttpLimits } from "./limits.ts";
import { httpProxy } from "./proxy.ts";

/** Keeps every call until it is told what to answer. */
async function heldServer() {
  const held: { readonly id: unknown; readonly response: ServerResponse }[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    held.push({ id: (JSON.parse(text) as { id: unknown }).id, response });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const answer = (said = "done") => {
    for (const { id, response } of held.splice(0)) {
      const result = { content: [{ type: "text", text: said }] };
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    }
  };
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`), held, answer };
}

async function proxied(limits: Partial<HttpLimits>, graceMs = 5_000) {
  const server = await heldServer();
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  const config = { tools: { send: { key: ["to"], wait: 0 } } };
  const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
  const proxy = await httpProxy({ guard, config, url: server.url, host: "127.0.0.1", port: 0, limits, graceMs });
  onTestFinished(async () => {
    server.answer();
    await proxy.close();
    await nt.close();
  });
  const send = (to: string, bytes = 0) => {
    const params = { name: "send", arguments: { to, body: "x".repeat(bytes) } };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    return fetch(proxy.url, { method: "POST", headers: { "content-type": "application/json" }, body });
  };
  return { server, proxy, send };
}

/** A connection that says so much and then nothing; everything that comes back until it is closed. */
function silent(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    let came = "";
    socket.on("data", (chunk) => {
      came += chunk.toString();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(came));
    socket.write(text);
  });
}

const HEAD = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

describe("requests", () => {
  it("too long is refused, by its length or as it comes", async () => {
    const { proxy, send } = await proxied({ bodyBytes: 1_000 });
    expect((await send("ada", 2_000)).status).toBe(413);
    const chunks = `${HEAD}Transfer-Encoding: chunked\r\n\r\n${`c8\r\n${" ".repeat(200)}\r\n`.repeat(6)}`;
    expect(await silent(proxy.url, chunks)).toMatch(/^HTTP\/1\.1 413/);
    await expect.poll(() => proxy.held).toBe(0);
  });

  it("are bounded in sum, those under way included: the next one is to come again later", async () => {
    const { server, proxy, send } = await proxied({ requestBytes: 10_000 });
    const first = send("ada", 6_000);
    await expect.poll(() => server.held.length).toBe(1);
    const second = await send("bob", 6_000);
    expect([second.status, second.headers.get("retry-after")]).toEqual([503, "1"]);
    server.answer();
    expect((await first).status).toBe(200);
    await expect.poll(() => proxy.held).toBe(0);
    const third = send("bob", 6_000);
    await expect.poll(() => server.held.length).toBe(1);
    server.answer();
    expect(await (await third).text()).toContain("done");
  });

  it("a body that stops is not waited for", async () => {
    const { server, proxy } = await proxied({ idleMs: 50 });
    expect(await silent(proxy.url, `${HEAD}Content-Length: 100\r\n\r\n{`)).toMatch(/^HTTP\/1\.1 408/);
    await expect.poll(() => proxy.held).toBe(0);
    expect(server.held).toHaveLength(0);
  });

  it("nor is one that comes byte by byte", async () => {
    const { proxy } = await proxied({ bodyMs: 200 });
    const { hostname, port } = new URL(proxy.url);
    const came = await new Promise<string>((resolve) => {
      const socket = connect(Number(port), hostname);
      let text = "";
      const drip = setInterval(() => socket.write(" "), 10);
      socket.on("data", (chunk) => {
        text += chunk.toString();
        clearInterval(drip);
      });
      socket.on("error", () => {});
      socket.on("close", () => {
        clearInterval(drip);
        resolve(text);
      });
      socket.write(`${HEAD}Content-Length: 100000\r\n\r\n`);
    });
    expect(came).toMatch(/^HTTP\/1\.1 408/);
  });

  it("a hundred that are sent at once and never finished leave nothing behind", async () => {
    const { proxy, server } = await proxied({ idleMs: 100, requestBytes: 50_000 });
    const start = `${HEAD}Content-Length: 100000\r\n\r\n${" ".repeat(1_000)}`;
    const answers = await Promise.all(Array.from({ length: 100 }, () => silent(proxy.url, start)));
    for (const one of answers) expect(["408", "503"]).toContain(one.slice(9, 12));
    await expect.poll(() => proxy.held).toBe(0);
    expect(server.held).toHaveLength(0);
  });
});

describe("answers", () => {
  it("are bounded in sum: one that does not fit is a doubt, and the proxy goes on", async () => {
    const { server, proxy, send } = await proxied({ answerBytes: 10_000 });
    const first = send("ada");
    await expect.poll(() => server.held.length).toBe(1);
    server.answer("x".repeat(20_000));
    expect(await (await first).text()).toMatch(/too many bytes are held at the moment/);
    expect(await (await send("ada")).text()).toMatch(/It may have happened/);
    await expect.poll(() => proxy.held).toBe(0);
    const second = send("bob");
    await expect.poll(() => server.held.length).toBe(1);
    server.answer();
    expect(await (await second).text()).toContain("done");
  });

  it("of a call that was cancelled and given up: its request is held until the late answer came, and then nothing", async () => {
    const { server, proxy } = await proxied({}, 10);
    const headers = { "content-type": "application/json", "mcp-session-id": "s" };
    const post = (message: object) =>
      fetch(proxy.url, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
    const params = { name: "send", arguments: { to: "ada" } };
    const first = post({ id: 1, method: "tools/call", params });
    await expect.poll(() => server.held.length).toBe(1);
    const cancel = post({ method: "notifications/cancelled", params: { requestId: 1 } });
    await expect.poll(() => server.held.length).toBe(2);
    server.held.pop()?.response.writeHead(202).end();
    await cancel;
    await (await first).text();
    expect(proxy.held).toBeGreaterThan(0);
    server.answer("late");
    await expect.poll(() => proxy.held).toBe(0);
  });

  it("that nobody reads are let go of", async () => {
    const { server, proxy } = await proxied({ readerMs: 100 });
    const params = { name: "send", arguments: { to: "ada" } };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const { hostname, port } = new URL(proxy.url);
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    // Never reads.
    socket.pause();
    socket.write(`${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
    await expect.poll(() => server.held.length).toBe(1);
    server.answer("x".repeat(30_000_000));
    await expect.poll(() => proxy.held).toBeGreaterThan(0);
    await expect.poll(() => proxy.held, { timeout: 20_000 }).toBe(0);
  });
});
