/** What a server answers over HTTP, and what of it is evidence: redirects, other requests' answers, streams in odd shapes. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../../nevertwice.ts";
import { memoryStore } from "../../../stores/memory.ts";
import { McpGuard } from "../guard.ts";
import { type HttpProxyOptions, httpProxy } from "./proxy.ts";

interface Message {
  readonly id?: unknown;
  readonly method: string;
}

type Answer = (message: Message, response: ServerResponse, request: IncomingMessage) => unknown;

async function proxied(answer: Answer, options: Partial<HttpProxyOptions> = {}) {
  const came: Message[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const message = (text === "" ? { method: request.method } : JSON.parse(text)) as Message;
    came.push(message);
    answer(message, response, request);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  const config = { tools: { send: { key: ["to"], wait: 0 } } };
  const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
  const proxy = await httpProxy({ guard, config, url, host: "127.0.0.1", port: 0, ...options });
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await proxy.close();
    await nt.close();
  });
  const post = (message: object, headers: Record<string, string> = {}) =>
    fetch(proxy.url, {
      method: "POST",
      redirect: "manual",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
  const call = (id: unknown, to = "ada", headers = {}) =>
    post({ id, method: "tools/call", params: { name: "send", arguments: { to } } }, headers);
  return { proxy, came, post, call };
}

const sent = (id: unknown) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "sent mail_1" }] } });
const asJson = (response: ServerResponse, body: object) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
const calls = (came: readonly Message[]) => came.filter(({ method }) => method === "tools/call").length;

describe("redirects", () => {
  it.each([301, 302, 303, 307, 308])(
    "HTTP %s is passed on for no message: its client would leave the guard",
    async (status) => {
      const { post } = await proxied((_, response) =>
        response.writeHead(status, { location: "http://other.example/mcp?key=1" }).end(),
      );
      const answer = await post({ id: 1, method: "initialize", params: {} });
      expect([answer.status, answer.headers.get("location")]).toEqual([502, null]);
      expect(await answer.text()).toMatch(/redirect \(HTTP \d+ to http:\/\/other\.example\/mcp\).*--url/);
    },
  );

  it.each([307, 308])("a call answered with HTTP %s was not run: it may be sent again", async (status) => {
    let moved = true;
    const { call, came } = await proxied(({ id }, response) =>
      moved ? response.writeHead(status, { location: "/elsewhere" }).end() : asJson(response, sent(id)),
    );
    expect((await call(1)).status).toBe(502);
    moved = false;
    expect(await (await call(2)).text()).toContain("sent mail_1");
    expect(calls(came)).toBe(2);
  });

  it("a call answered with HTTP 303 may have been run: it is in doubt", async () => {
    const { call, came } = await proxied((_, response) => response.writeHead(303, { location: "/receipt" }).end());
    await call(1);
    expect(await (await call(2)).text()).toMatch(/It may have happened all the same/);
    expect(calls(came)).toBe(1);
  });

  it("a person may be sent from /authorize to where they log in", async () => {
    const { proxy } = await proxied((_, response) =>
      response.writeHead(302, { location: "http://login.example/" }).end(),
    );
    const answer = await fetch(new URL("/authorize?client_id=1&code_challenge_method=S256", proxy.url), {
      redirect: "manual",
    });
    expect([answer.status, answer.headers.get("location")]).toEqual([302, "http://login.example/"]);
  });
});

describe("evidence", () => {
  it.each([
    ["another request's answer", (id: unknown) => sent(`not ${String(id)}`)],
    ["no answer at all", () => ({ jsonrpc: "2.0", method: "notifications/message" })],
    ["an answer without a result", (id: unknown) => ({ jsonrpc: "2.0", id })],
    ["a batch", (id: unknown) => [sent(id)]],
  ])("%s does not confirm a call", async (_, body) => {
    const { call, came } = await proxied(({ id }, response) => asJson(response, body(id)));
    await call(1);
    expect(await (await call(2)).text()).toMatch(/It may have happened all the same/);
    expect(calls(came)).toBe(1);
  });

  it("another request with a call's id is refused while the call is under way: its answer could be taken for the call's", async () => {
    const held: ServerResponse[] = [];
    const { call, post, came } = await proxied((message, response) => {
      if (message.method === "tools/call") return held.push(response);
      response.writeHead(200, { "content-type": "text/event-stream" });
      return response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, result: {} })}\n\n`);
    });
    const session = { "mcp-session-id": "s" };
    const first = call(5, "ada", session);
    await expect.poll(() => calls(came)).toBe(1);
    const other = await post({ id: 5, method: "ping" }, session);
    expect([other.status, await other.text()]).toEqual([400, expect.stringMatching(/Not run: .* the same id/)]);
    expect(came).toHaveLength(1);
    expect(await (await post({ id: 6, method: "ping" }, session)).text()).toContain('"result":{}');
    for (const response of held) asJson(response, sent(5));
    expect(await (await first).text()).toContain("sent mail_1");
    expect(await (await call(6)).text()).toMatch(/Already done at .*sent mail_1/);
    expect(await (await post({ id: 5, method: "ping" }, session)).text()).toContain('"result":{}');
  });

  it("a call with the id of another request that is under way is not run, in that session alone", async () => {
    const held: ServerResponse[] = [];
    const { call, post, came } = await proxied((message, response) =>
      message.method === "ping" ? held.push(response) : asJson(response, sent(message.id)),
    );
    const session = { "mcp-session-id": "s" };
    const ping = post({ id: 5, method: "ping" }, session);
    await expect.poll(() => held.length).toBe(1);
    expect(await (await call(5, "ada", session)).text()).toMatch(/Not run: .* the same id/);
    expect(calls(came)).toBe(0);
    expect(await (await call(5, "ada", { "mcp-session-id": "s2" })).text()).toContain("sent mail_1");
    for (const response of held) asJson(response, { jsonrpc: "2.0", id: 5, result: {} });
    await ping;
    expect(await (await call(5, "bob", session)).text()).toContain("sent mail_1");
  });

  it("two calls with one id in a session at the same time: the second is not run", async () => {
    const held: ServerResponse[] = [];
    const { call, came } = await proxied((message, response) =>
      message.method === "tools/list"
        ? asJson(response, { jsonrpc: "2.0", id: message.id, result: { tools: [] } })
        : held.push(response),
    );
    const session = { "mcp-session-id": "s" };
    const first = call(5, "ada", session);
    await expect.poll(() => calls(came)).toBe(1);
    expect(await (await call(5, "bob", session)).text()).toMatch(/Not run: a call with the same id is under way/);
    // Another caller's session id is another session.
    const other = call(5, "bob", { ...session, authorization: "Bearer eve" });
    await expect.poll(() => calls(came)).toBe(2);
    for (const response of held) asJson(response, sent(5));
    expect(await (await first).text()).toContain("sent mail_1");
    expect(await (await other).text()).toContain("sent mail_1");
  });

  it("another caller's cancellation does not reach a call, whatever session it names", async () => {
    const held: ServerResponse[] = [];
    const { call, post, came } = await proxied(
      (message, response) => (message.method === "tools/call" ? held.push(response) : response.writeHead(202).end()),
      { graceMs: 1 },
    );
    const first = call(5, "ada", { "mcp-session-id": "s" });
    await expect.poll(() => calls(came)).toBe(1);
    const cancel = { method: "notifications/cancelled", params: { requestId: 5 } };
    await post(cancel, { "mcp-session-id": "s", authorization: "Bearer eve" });
    await new Promise((grace) => setTimeout(grace, 50));
    for (const response of held) asJson(response, sent(5));
    expect(await (await first).text()).toContain("sent mail_1");
  });
});

describe("streams", () => {
  const answered = (id: unknown) => JSON.stringify(sent(id)).replace("sent mail_1", "sent \u00e9\u2028 mail_1");

  it.each([
    ["a byte order mark", (text: string) => `\uFEFFdata: ${text}\n\n`],
    ["carriage returns", (text: string) => `: hello\rdata: ${text}\r\r`],
    ["mixed line ends", (text: string) => `event: message\r\ndata: ${text}\n\r\n`],
    ["data in several lines", (text: string) => `data: ${text.replace(",", ",\ndata:")}\n\n`],
    [
      "other answers before it",
      (text: string) => `data: ${JSON.stringify(sent("x"))}\n\ndata: [1]\n\ndata: ${text}\n\n`,
    ],
    ["a second answer behind it", (text: string) => `data: ${text}\n\ndata: ${text.replace("sent", "twice")}\n\n`],
  ])("with %s: the answer is found, cut anywhere, and settles the call", async (_, stream) => {
    const { call, came } = await proxied(async ({ id }, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      // Byte by byte: characters are cut too.
      for (const byte of Buffer.from(stream(answered(id)))) {
        response.write(Buffer.from([byte]));
        await new Promise((turn) => setImmediate(turn));
      }
      response.end();
    });
    expect(await (await call(1)).text()).toContain("sent \u00e9\u2028 mail_1");
    expect(await (await call(2)).text()).toMatch(/Already done at .*sent \u00e9\u2028 mail_1/);
    expect(calls(came)).toBe(1);
  });
});

describe("pages in a browser", () => {
  it("one that may call reads the answers, whatever the server says about pages; others get none", async () => {
    const { call, proxy } = await proxied(
      ({ id }, response) => {
        response.setHeader("access-control-allow-origin", "*");
        asJson(response, sent(id));
      },
      { allowOrigins: ["https://app.example.com"] },
    );
    const allowed = await call(1, "ada", { origin: "https://app.example.com" });
    expect(allowed.headers.get("access-control-allow-origin")).toBe("https://app.example.com");
    expect(allowed.headers.get("vary")).toBe("origin");
    const plain = await call(2, "bob");
    expect(plain.headers.get("access-control-allow-origin")).toBe(null);
    const headers = {
      origin: "https://app.example.com",
      "access-control-request-method": "POST",
      "access-control-request-headers": "mcp-session-id",
    };
    const preflight = await fetch(proxy.url, { method: "OPTIONS", headers });
    expect([preflight.status, preflight.headers.get("access-control-allow-headers")]).toEqual([204, "mcp-session-id"]);
    const foreign = await fetch(proxy.url, {
      method: "OPTIONS",
      headers: { ...headers, origin: "https://evil.example" },
    });
    expect([foreign.status, foreign.headers.get("access-control-allow-origin")]).toEqual([403, null]);
  });

  it("a proxy for the network serves addresses and the names it was given", async () => {
    const { proxy } = await proxied((_, response) => asJson(response, {}), {
      host: "0.0.0.0",
      allowHosts: ["Proxy.internal"],
    });
    const { port } = new URL(proxy.url);
    const status = (host: string) =>
      new Promise<number | undefined>((answered) => {
        import("node:http").then(({ get }) =>
          get({ host: "127.0.0.1", port, path: "/mcp", headers: { host } }, (answer) => {
            answer.resume();
            answered(answer.statusCode);
          }),
        );
      });
    expect(await Promise.all(["10.1.2.3:80", "proxy.internal", "[fd00::1]", "localhost"].map(status))).toEqual([
      200, 200, 200, 200,
    ]);
    expect(await Promise.all(["evil.example", "proxy.internal.evil.example"].map(status))).toEqual([403, 403]);
  });
});
