/** Who calls over HTTP: nobody gets another's stored answer, and a refreshed token is the same caller. */
import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../../nevertwice.ts";
import { memoryStore } from "../../../stores/memory.ts";
import { type ProxyConfig, readProxyConfig } from "../config.ts";
import { McpGuard } from "../guard.ts";
import { Beliefs } from "./beliefs.ts";
import { whoCalls } from "./principal.ts";
import { httpProxy } from "./proxy.ts";

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const signed = (head: string, secret: string) => createHmac("sha256", secret).update(head).digest("base64url");

/** A JWT; signed by the server's own key unless told otherwise. */
function jwt(claims: object, { secret = "key of the server", alg = "HS256" } = {}): string {
  const head = `${part({ alg, typ: "JWT" })}.${part(claims)}`;
  return `${head}.${signed(head, secret)}`;
}

const seconds = (fromNow: number) => Math.floor(Date.now() / 1000) + fromNow;

interface Came {
  readonly method: string;
  readonly who: string | undefined;
}

/** Checks tokens as servers do: signature and end of a JWT, a list of opaque ones; gives sessions, which any valid token may use. */
async function server({ opaque = [] as readonly string[], issuers = ["https://id.example"] } = {}) {
  const [came, valid, sessions]: [Came[], Set<string>, Set<string>] = [[], new Set(opaque), new Set()];
  const isValid = (request: IncomingMessage) => {
    const { authorization, cookie } = request.headers;
    const key = request.headers["x-api-key"];
    if (key !== undefined || cookie !== undefined) return valid.has(String(key ?? cookie));
    const [, token = ""] = /^bearer (.*)$/i.exec(authorization ?? "") ?? [];
    const [head, body, signature] = token.split(".");
    if (body === undefined) return valid.has(token);
    const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as { exp?: number; iss?: string };
    const isOwn = signed(`${head}.${body}`, "key of the server") === signature;
    return (
      isOwn && (claims.exp ?? seconds(9)) > seconds(0) && (claims.iss === undefined || issuers.includes(claims.iss))
    );
  };
  const listener = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { id, method, params } = JSON.parse(text || "{}") as { id?: unknown; method?: string; params?: never };
    came.push({ method: method ?? String(request.method), who: request.headers.authorization });
    if (!isValid(request)) return response.writeHead(401, { "www-authenticate": "Bearer" }).end("who are you");
    const session = request.headers["mcp-session-id"];
    if (session !== undefined && !sessions.has(String(session))) return response.writeHead(404).end("no such session");
    const head: Record<string, string> = { "content-type": "application/json" };
    if (method === "initialize") {
      const given = `session-${sessions.size + 1}`;
      sessions.add(given);
      head["mcp-session-id"] = given;
    }
    const calls = came.filter((one) => one.method === "tools/call").length;
    const result =
      method === "tools/list"
        ? { tools: [{ name: "send" }] }
        : method === "tools/call"
          ? { content: [{ type: "text", text: `secret ${calls}` }], params }
          : {};
    return response.writeHead(200, head).end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
  await new Promise<void>((listening) => listener.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    listener.closeAllConnections();
    listener.close();
  });
  return { url: new URL(`http://127.0.0.1:${(listener.address() as AddressInfo).port}/mcp`), came, valid };
}

async function proxied(given: Parameters<typeof server>[0] = {}, more: ProxyConfig = {}) {
  const { url, came, valid } = await server(given);
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  const config = { ...more, tools: { send: { key: ["to"], wait: 0 } } };
  const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
  const proxy = await httpProxy({ guard, config, url, host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    await proxy.close();
    await nt.close();
  });
  const post = (headers: Record<string, string>, message: object) =>
    fetch(proxy.url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }),
    });
  const send = (headers: Record<string, string>) =>
    post(headers, { method: "tools/call", params: { name: "send", arguments: { to: "ada" } } });
  /** The number of the call that the answer is of; a status: refused. */
  const call = async (headers: Record<string, string>) => {
    const answer = await send(headers);
    const text = await answer.text();
    return answer.status === 200 ? Number(/secret (\d+)/.exec(text)?.[1]) : `HTTP ${answer.status}`;
  };
  const begin = async (headers: Record<string, string>) =>
    (await post(headers, { method: "initialize" })).headers.get("mcp-session-id") as string;
  return { call, send, begin, came, valid };
}

const bearer = (token: string, scheme = "Bearer") => ({ authorization: `${scheme} ${token}` });
const ada = { iss: "https://id.example", sub: "ada" };

describe("a JWT", () => {
  it("is known by issuer and subject: a refreshed one is the same caller, in any case of the scheme and with any cookie", async () => {
    const { call } = await proxied();
    expect(await call(bearer(jwt({ ...ada, jti: 1 })))).toBe(1);
    expect(await call(bearer(jwt({ ...ada, jti: 2, exp: seconds(600) }), "bearer"))).toBe(1);
    expect(await call({ ...bearer(jwt({ ...ada, jti: 3 }), "BEARER"), "x-csrf-token": "1" })).toBe(1);
    expect(await call(bearer(jwt({ ...ada, sub: "bob" })))).toBe(2);
  });

  it.each([
    ["signed by somebody else", jwt({ ...ada }, { secret: "key of a thief" })],
    ["with alg none", `${part({ alg: "none" })}.${part(ada)}.`],
    ["with alg none and a signature", jwt(ada, { alg: "none", secret: "key of a thief" })],
    ["that has ended", jwt({ ...ada, exp: seconds(-10) })],
    ["without a signature", jwt(ada).split(".").slice(0, 2).join(".")],
  ])("%s is refused by the server's own answer, whatever it says about itself", async (_, forged) => {
    const { call, send } = await proxied();
    expect(await call(bearer(jwt(ada)))).toBe(1);
    const answer = await send(bearer(forged));
    expect([answer.status, answer.headers.get("www-authenticate"), await answer.text()]).toEqual([
      401,
      "Bearer",
      "who are you",
    ]);
  });

  it("of two issuers with one subject, and of a subject that is no text, is another caller each", async () => {
    const { call } = await proxied({ issuers: ["https://id.example", "https://other.example"] });
    const answers = [];
    for (const claims of [
      ada,
      { ...ada, iss: "https://other.example" },
      { ...ada, sub: 1 },
      { ...ada, sub: "1" },
      { sub: "ada" },
    ])
      answers.push(await call(bearer(jwt(claims))));
    expect(answers).toEqual([1, 2, 3, 4, 5]);
  });

  it("is no longer believed once it has ended, and asked about again", async () => {
    const { call, came } = await proxied();
    const token = bearer(jwt({ ...ada, exp: seconds(2) }));
    expect(await call(token)).toBe(1);
    await expect.poll(() => call(token), { timeout: 10_000, interval: 200 }).toBe("HTTP 401");
    expect(came.filter(({ method }) => method === "tools/call")).toHaveLength(1);
  });
});

describe("a credential that says nothing about its holder", () => {
  it("is its own caller, and the server is asked once whether it accepts it", async () => {
    const { call, came } = await proxied({ opaque: ["a", "b"] });
    expect([await call(bearer("a")), await call(bearer("a", "bearer")), await call(bearer("b"))]).toEqual([1, 1, 2]);
    expect(await call(bearer("c"))).toBe("HTTP 401");
    expect(came.filter(({ method }) => method === "tools/list")).toHaveLength(3);
    expect([await call({ "x-api-key": "a" }), await call({ "x-api-key": "b" }), await call({ cookie: "a" })]).toEqual([
      3, 4, 5,
    ]);
  });

  it("refreshed inside a session is the same caller; outside it is another", async () => {
    const { call, begin, valid } = await proxied({ opaque: ["a", "a2"] });
    const session = { "mcp-session-id": await begin(bearer("a")) };
    expect(await call({ ...bearer("a"), ...session })).toBe(1);
    valid.delete("a");
    expect(await call({ ...bearer("a2"), ...session })).toBe(1);
    expect(await call(bearer("a2"))).toBe(2);
  });

  it("in another's session is not that other: known from elsewhere, refused by the server, or with a session nobody was given", async () => {
    const { call, begin } = await proxied({ opaque: ["a", "b"] });
    const [of, session] = [await begin(bearer("a")), await begin(bearer("b"))];
    expect(await call({ ...bearer("a"), "mcp-session-id": of })).toBe(1);
    expect(await call({ ...bearer("b"), "mcp-session-id": session })).toBe(2);
    expect(await call({ ...bearer("b"), "mcp-session-id": of })).toBe(2);
    expect(await call({ ...bearer("a"), "mcp-session-id": session })).toBe(1);
    expect(await call({ ...bearer("thief"), "mcp-session-id": of })).toBe("HTTP 401");
    expect(await call({ ...bearer("b"), "mcp-session-id": "made-up" })).toBe("HTTP 404");
  });

  it("that comes again after a later one shows that a session is shared: each is then its own caller", async () => {
    const { call, begin } = await proxied({ opaque: ["a", "b", "c"] });
    const session = { "mcp-session-id": await begin(bearer("a")) };
    expect(await call({ ...bearer("a"), ...session })).toBe(1);
    expect(await call({ ...bearer("b"), ...session })).toBe(1);
    expect(await call({ ...bearer("a"), ...session })).toBe(1);
    expect(await call({ ...bearer("b"), ...session })).toBe(2);
    expect(await call({ ...bearer("c"), ...session })).toBe(3);
  });

  it("a JWT in a session that another began is known by its own claims", async () => {
    const { call, begin } = await proxied({ opaque: ["a"] });
    const session = { "mcp-session-id": await begin(bearer("a")) };
    expect(await call({ ...bearer("a"), ...session })).toBe(1);
    expect(await call({ ...bearer(jwt(ada)), ...session })).toBe(2);
  });
});

describe("principal", () => {
  it("names claims: with them a token of another issuer, or without the claim, is still another's", async () => {
    const issuers = ["https://id.example", "https://other.example"];
    const { call } = await proxied({ issuers }, { principal: ["claim:tenant"] });
    const tenant = (claims: object) => call(bearer(jwt({ ...ada, ...claims })));
    expect(await tenant({ tenant: "t1" })).toBe(1);
    expect(await tenant({ tenant: "t1", sub: "bob" })).toBe(1);
    expect(await tenant({ tenant: "t2" })).toBe(2);
    expect(await tenant({ tenant: "t1", iss: "https://other.example" })).toBe(3);
    expect([await tenant({}), await tenant({ sub: "bob" }), await tenant({ tenant: "" })]).toEqual([4, 5, 6]);
    expect(await call(bearer(jwt({ ...ada, tenant: "t1" }, { secret: "key of a thief" })))).toBe("HTTP 401");
  });

  it("names a header that stays the same, and still no refused token gets an answer", async () => {
    const { call } = await proxied({ opaque: ["a", "a2"] }, { principal: ["X-User-Id"] });
    expect(await call({ ...bearer("a"), "x-user-id": "ada" })).toBe(1);
    expect(await call({ ...bearer("a2"), "x-user-id": "ada", cookie2: "x" })).toBe(1);
    expect(await call({ ...bearer("a2"), "x-user-id": "bob" })).toBe(2);
    expect(await call({ ...bearer("gone"), "x-user-id": "ada" })).toBe("HTTP 401");
  });

  it.each([["claim:"], ["X User"], [""]])("%j is refused", (name) => {
    expect(() => readProxyConfig({ principal: [name] }, "tools.json")).toThrow(/principal/);
  });

  it("an empty list is refused: all callers would be one", () => {
    expect(() => readProxyConfig({ principal: [] }, "tools.json")).toThrow(/all callers would be one/);
  });
});

describe("by the head of a request", () => {
  it("a token that can be read in two ways is a text like any other", () => {
    const twice = `${part({ alg: "HS256" })}.${Buffer.from('{"iss":"i","sub":"bob","sub":"ada"}').toString("base64url")}.x`;
    const once = whoCalls(bearer(jwt({ iss: "i", sub: "ada" })), "");
    expect(whoCalls(bearer(twice), "").principal).not.toBe(once.principal);
    expect(once).toMatchObject({ isOpaque: false, endsAt: null });
  });

  it("without a credential there is one caller; another query is another", () => {
    expect(whoCalls({ accept: "x", "user-agent": "y" }, "")).toMatchObject({ principal: "", credential: null });
    expect(whoCalls({}, "?key=1").principal).not.toBe(whoCalls({}, "?key=2").principal);
  });

  it("keys in other headers tell callers apart, beside a token too", () => {
    const texts = [
      {},
      { "private-token": "a" },
      { "private-token": "b" },
      { "x-auth-user": "a" },
      { "api-key": "a" },
    ].map((more) => whoCalls({ ...bearer(jwt(ada)), ...more }, "").principal);
    expect(new Set(texts).size).toBe(texts.length);
  });
});

it("beliefs are bounded: the oldest are asked about again", () => {
  const beliefs = new Beliefs(() => 0, 2);
  const who = (credential: string) => ({ principal: credential, credential, isOpaque: true, endsAt: null });
  for (const one of ["a", "b", "c"]) beliefs.accept(who(one), undefined);
  expect(["a", "b", "c"].map((one) => beliefs.isAccepted(who(one), undefined))).toEqual([false, true, true]);
});
