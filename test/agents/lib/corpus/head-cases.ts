/** Cases that lie in the head of a request: target, method, host, origin, headers. */
import { type Case, call, type Fate, type Head, request } from "./requests.ts";

const at = (target: string, fate: Fate, status?: number): Case => {
  const name = `target ${JSON.stringify(target)}`;
  return { name, fate, ...(status !== undefined && { status }), bytes: request(call(name), { target }) };
};

const SAME = ["/mcp", "/mcp/", "/MCP", "/Mcp/", "/%6dcp", "/%6Dcp", "/mc%70", "/%4d%43%50", "/mcp?x=1", "/mcp/?a=b&c"];

const NOT_ORIGIN_FORM = [
  "http://OTHER/mcp",
  "HTTP://OTHER/mcp",
  "https://OTHER/mcp",
  "http://OTHER",
  "http://SELF/mcp",
  "http://user:pw@OTHER/mcp",
  "http://SELF@OTHER/mcp",
  "http:OTHER/mcp",
  "http:/OTHER/mcp",
  "http:\\\\OTHER\\mcp",
  "ftp://OTHER/mcp",
  "file:///etc/passwd",
  "data:,x",
  "//OTHER/mcp",
  "///OTHER/mcp",
  "//SELF@OTHER/mcp",
  "//OTHER",
  "//mcp",
  "/mcp//",
  "/x//mcp",
  "/http://OTHER/mcp",
  "/\\OTHER/mcp",
  "\\\\OTHER\\mcp",
  "/\\/OTHER/mcp",
  "/mcp\\",
  "OTHER",
  "OTHER/mcp",
  "@OTHER/mcp",
  ":80/mcp",
  "mcp",
  "*",
  "?x=1",
  "/mcp#fragment",
  "/mcp?x=1#fragment",
];

const RESOLVED_DIFFERENTLY = [
  "/./mcp",
  "/x/../mcp",
  "/mcp/.",
  "/mcp/..",
  "/../mcp",
  "/%2e/mcp",
  "/%2e%2e/mcp",
  "/.%2e/mcp",
  "/x/%2E%2E/mcp",
  "/..;/mcp",
  "/..%2fmcp",
  "/%2fmcp",
  "/%2f%2fOTHER/mcp",
  "/%5cOTHER/mcp",
  "/mcp%2f",
  "/mcp%5c",
  "/mcp%00",
  "/mcp%0d%0aX-Injected:%201",
  "/mcp%7f",
  "/%256dcp",
  "/mcp%",
  "/mcp%zz",
  "/.well-known/../mcp",
];

const ELSEWHERE = [
  "/",
  "/mcp.json",
  "/mcp;v=1",
  "/mcpx",
  "/mc",
  "/api/mcp",
  "/mcp/extra",
  "/messages?sessionId=1",
  "/sse",
  "/rpc",
  "/@OTHER/mcp",
  "/OTHER/mcp",
  "/mcp%20",
  "/mcp%C3%A9",
  "/%EF%BD%8Dcp",
  "/mcp%E2%80%8B",
];

const CALL_IN_QUERY = [
  "/mcp?method=tools/call",
  "/mcp?jsonrpc=2.0",
  "/mcp?_method=PUT",
  "/mcp?%6dethod=tools/call",
  "/mcp?METHOD=tools/call",
  "/mcp?a=1;method=tools/call",
  "/mcp?params=%7B%7D",
];

const targets: readonly Case[] = [
  ...SAME.map((target) => at(target, "guarded", 200)),
  ...NOT_ORIGIN_FORM.map((target) => at(target, "refused", 400)),
  ...RESOLVED_DIFFERENTLY.map((target) => at(target, "refused", 400)),
  ...ELSEWHERE.map((target) => at(target, "refused", 404)),
  ...CALL_IN_QUERY.map((target) => at(target, "refused", 400)),
  at("/mcp\u00e9", "refused"),
  at("/mcp\u0000", "refused"),
  at("/mcp x", "refused"),
];

const withHead = (name: string, fate: Fate, head: Head, status?: number): Case => ({
  name,
  fate,
  ...(status !== undefined && { status }),
  bytes: request(call(name), head),
});

const METHODS =
  "PUT PATCH HEAD OPTIONS TRACE PROPFIND PROPPATCH SEARCH REPORT MKCOL COPY MOVE LOCK UNLOCK LINK UNLINK PURGE SUBSCRIBE NOTIFY MERGE";

const queryOf = (name: string) =>
  `?method=tools/call&id=1&params=${encodeURIComponent(JSON.stringify({ name: "send", arguments: { n: name } }))}`;

const methods: readonly Case[] = [
  ...METHODS.split(" ").map((method) => withHead(`method ${method} with a call in its body`, "refused", { method })),
  ...["GET", "DELETE"].map((method) =>
    withHead(`method ${method} with a call in its body`, "refused", { method }, 400),
  ),
  withHead("GET with a chunked body", "refused", {
    method: "GET",
    headers: { "content-length": null, "transfer-encoding": "chunked" },
  }),
  withHead("method post in lower case", "refused", { method: "post" }),
  withHead("method POSTX", "refused", { method: "POSTX" }),
  withHead("CONNECT to another host", "refused", { method: "CONNECT", target: "OTHER" }),
  withHead("CONNECT to the endpoint", "refused", { method: "CONNECT", target: "/mcp" }),
  withHead("OPTIONS of the whole server", "refused", { method: "OPTIONS", target: "*" }),
  ...["GET", "DELETE", "HEAD"].map((method): Case => {
    const name = `${method} with a call in its query`;
    return {
      name,
      fate: "refused",
      bytes: request("", { method, target: `/mcp${queryOf(name)}`, headers: { "content-length": null } }),
    };
  }),
  {
    name: "GET of metadata with a call in its query",
    fate: "refused",
    bytes: request("", {
      method: "GET",
      target: `/.well-known/oauth-protected-resource${queryOf("metadata")}`,
      headers: { "content-length": null },
    }),
  },
  {
    name: "GET of metadata",
    fate: "passes",
    bytes: request("", {
      method: "GET",
      target: "/.well-known/oauth-protected-resource/mcp",
      headers: { "content-length": null },
    }),
  },
  {
    name: "GET of metadata below the endpoint",
    fate: "passes",
    bytes: request("", {
      method: "GET",
      target: "/mcp/.well-known/openid-configuration",
      headers: { "content-length": null },
    }),
  },
  withHead("POST to the metadata", "refused", { target: "/.well-known/oauth-protected-resource" }, 405),
  {
    name: "GET for the stream",
    fate: "passes",
    bytes: request("", { method: "GET", headers: { "content-length": null, "content-type": null } }),
  },
  {
    name: "DELETE of the session",
    fate: "passes",
    bytes: request("", { method: "DELETE", headers: { "content-length": null, "mcp-session-id": "s" } }),
  },
];

const OVERRIDES = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"];

const overrides: readonly Case[] = OVERRIDES.flatMap((header) => [
  withHead(`${header} on a POST`, "refused", { headers: { [header]: header.includes("URL") ? "/admin" : "PUT" } }, 400),
  {
    name: `${header} on a GET`,
    fate: "refused",
    status: 400,
    bytes: request("", {
      method: "GET",
      headers: { "content-length": null, [header]: header.includes("URL") ? "/mcp" : "POST" },
    }),
  },
]);

const host = (value: string, fate: Fate): Case =>
  withHead(`host ${JSON.stringify(value)}`, fate, { headers: { host: value } });

const hosts: readonly Case[] = [
  ...["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80", "localhost:65535"].map((value) =>
    host(value, "guarded"),
  ),
  ...[
    "evil.example",
    "evil.example:80",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io",
    "localhost.",
    "localhost@evil.example",
    "evil.example@localhost",
    "evil.example#localhost",
    "localhost evil.example",
    "localhost,evil.example",
    "[::1",
    "::1]",
    "[::1]evil.example",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0.0.0.0",
    "[::]",
    "10.0.0.1",
    "localhost:",
    "localhost:port",
    "localhost/mcp",
    "http://localhost",
    "",
    "*",
    "loc\u00e0lhost",
  ].map((value) => host(value, "refused")),
  withHead("no host", "refused", { headers: { host: null } }),
  withHead("no host in HTTP/1.0", "refused", { version: "HTTP/1.0", headers: { host: null } }),
  withHead("two hosts, the first one ours", "refused", { lines: ["Host: evil.example"] }),
  withHead("two hosts, the last one ours", "refused", { headers: { host: "evil.example" }, lines: ["Host: SELF"] }),
  withHead("a foreign host that is said to be forwarded", "refused", {
    headers: { host: "evil.example", "x-forwarded-host": "localhost" },
  }),
];

const origin = (value: string, fate: Fate, more: Record<string, string | null> = {}): Case =>
  withHead(`origin ${JSON.stringify(value)} ${JSON.stringify(more)}`, fate, { headers: { origin: value, ...more } });

const preflight = (value: string): Head => ({
  method: "OPTIONS",
  headers: {
    origin: value,
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type",
    "content-length": null,
  },
});

const origins: readonly Case[] = [
  origin("https://app.example.com", "guarded"),
  origin("https://APP.example.com", "guarded"),
  ...[
    "https://evil.example",
    "http://app.example.com",
    "https://app.example.com.evil.example",
    "https://app.example.com:444",
    "https://app.example.com/",
    "https://app.example.com, https://evil.example",
    "http://SELF",
    "http://localhost",
    "null",
    "*",
    "file://",
    "",
  ].map((value) => origin(value, "refused")),
  origin("https://evil.example", "refused", { "content-type": "text/plain" }),
  origin("https://app.example.com", "refused", { "content-type": "text/plain" }),
  withHead("two origins", "refused", {
    headers: { origin: "https://app.example.com" },
    lines: ["Origin: https://evil.example"],
  }),
  withHead("a page that does not say its origin", "refused", { headers: { "sec-fetch-site": "cross-site" } }),
  withHead("a sibling page that does not say its origin", "refused", { headers: { "sec-fetch-site": "same-site" } }),
  {
    name: "preflight of a foreign page",
    fate: "refused",
    status: 403,
    bytes: request("", preflight("https://evil.example")),
  },
  {
    name: "preflight of a page that may call",
    fate: "passes",
    status: 204,
    bytes: request("", preflight("https://app.example.com")),
  },
  withHead(
    "a preflight with a call in its body",
    "passes",
    {
      ...preflight("https://app.example.com"),
      headers: { ...preflight("https://app.example.com").headers, "content-length": null },
    },
    204,
  ),
];

const type = (value: string | null, fate: Fate): Case =>
  withHead(
    `content type ${JSON.stringify(value)}`,
    fate,
    { headers: { "content-type": value } },
    fate === "guarded" ? 200 : 415,
  );

const types: readonly Case[] = [
  ...[
    "APPLICATION/JSON",
    "application/json; charset=utf-8",
    'application/json;charset="UTF-8"',
    "application/json;charset=utf8",
    "application/json;",
  ].map((value) => type(value, "guarded")),
  ...[
    null,
    "",
    "text/plain",
    "text/plain;application/json",
    "text/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/x-json",
    "application/json-rpc",
    "application/json-seq",
    "application/x-ndjson",
    "application/vnd.api+json",
    "application/octet-stream",
    "application/cbor",
    "application/json, text/plain",
    "application/json; charset=utf-16",
    "application/json; charset=utf-16le",
    "application/json; charset=utf-7",
    "application/json; charset=iso-8859-1",
    "application/json; charset=utf-8; charset=utf-16",
    "application/json; charset=utf-8,utf-16",
    "application/json; boundary=x",
    "application/json charset=utf-8",
    "*/*",
  ].map((value) => type(value, "refused")),
  withHead("two content types", "refused", { lines: ["Content-Type: text/plain"] }, 400),
  withHead("Content_Type beside Content-Type", "refused", { lines: ["Content_Type: text/plain"] }, 400),
];

const look = (name: string) =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "look", arguments: { n: name } } });
const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });

const ping2 = (name: string, fate: Fate, headers: Record<string, string>): Case => ({
  name,
  fate,
  bytes: request(ping, { headers }),
});

const headers: readonly Case[] = [
  withHead("two authorizations", "refused", { lines: ["Authorization: Bearer another"] }, 400),
  withHead("two sessions", "refused", { headers: { "mcp-session-id": "a" }, lines: ["Mcp-Session-Id: b"] }, 400),
  withHead("two API keys", "refused", { headers: { "x-api-key": "a" }, lines: ["X-Api-Key: b"] }, 400),
  withHead("X_Api_Key, which CGI takes for X-Api-Key", "refused", { headers: { X_Api_Key: "another" } }, 400),
  withHead("Content_Encoding", "refused", { headers: { Content_Encoding: "gzip" } }, 400),
  withHead("Mcp_Session_Id", "refused", { headers: { Mcp_Session_Id: "s" } }, 400),
  withHead("Mcp-Method that agrees", "guarded", { headers: { "mcp-method": "tools/call", "mcp-name": "send" } }),
  withHead("Mcp-Name in base64 that agrees", "guarded", { headers: { "mcp-name": "=?base64?c2VuZA==?=" } }),
  withHead("Mcp-Method that says another method", "refused", { headers: { "mcp-method": "tools/list" } }, 400),
  withHead("Mcp-Name that says another tool", "refused", { headers: { "mcp-name": "look" } }, 400),
  withHead(
    "Mcp-Method twice",
    "refused",
    { headers: { "mcp-method": "tools/call" }, lines: ["Mcp-Method: ping"] },
    400,
  ),
  ping2("a ping that Mcp-Method calls a tool call", "refused", { "mcp-method": "tools/call", "mcp-name": "send" }),
  ping2("a ping that Mcp-Name gives a tool", "refused", { "mcp-name": "send" }),
  {
    name: "a read-only call that Mcp-Name gives another tool",
    fate: "refused",
    bytes: request(look("x"), { headers: { "mcp-name": "send" } }),
  },
  { name: "a read-only call", fate: "passes", bytes: request(look("x")) },
  ping2("a ping", "passes", {}),
  withHead("headers named in Connection", "guarded", { headers: { connection: "close, authorization, content-type" } }),
  withHead("Upgrade to a websocket", "guarded", { headers: { connection: "upgrade", upgrade: "websocket" } }),
  withHead("Upgrade to HTTP/2, as Java's client asks", "guarded", {
    headers: { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c", "http2-settings": "AAMAAABkAAQAAP__" },
  }),
  withHead("Expect: 100-continue", "guarded", { headers: { expect: "100-continue" } }),
  withHead("another Expect", "refused", { headers: { expect: "200-ok" } }, 417),
  withHead("Max-Forwards and Via", "guarded", { headers: { "max-forwards": "0", via: "1.1 OTHER" } }),
  withHead("Forwarded headers that name another host", "guarded", {
    headers: { "x-forwarded-host": "OTHER", forwarded: "host=OTHER", "x-forwarded-proto": "https" },
  }),
  withHead("Proxy-Authorization", "guarded", { headers: { "proxy-authorization": "Basic eDp5" } }),
  withHead("a head of 20 KB", "refused", { headers: { "x-long": "a".repeat(20_000) } }, 431),
];

const oauth = (name: string, fate: Fate, target: string, type: string, body: string): Case => ({
  name,
  fate,
  bytes: request(body, { target, headers: { "content-type": type } }),
});
const JSON_TYPE = "application/json";
const FORM = "application/x-www-form-urlencoded";

const authorization: readonly Case[] = [
  oauth("a client registration", "passes", "/register", JSON_TYPE, '{"redirect_uris":["http://localhost/cb"]}'),
  oauth(
    "a request for a token",
    "passes",
    "/token",
    FORM,
    "grant_type=authorization_code&code=a%2Bb&redirect_uri=http%3A%2F%2Fx",
  ),
  oauth("a call to /register", "refused", "/register", JSON_TYPE, call("a call to /register")),
  oauth("a call to /token", "refused", "/token", JSON_TYPE, call("a call to /token")),
  oauth(
    "a call to /register, with Method",
    "refused",
    "/register",
    JSON_TYPE,
    call("x").replace('"method"', '"Method"').replace('"params"', '"Params"'),
  ),
  oauth("a batch to /register", "refused", "/register", JSON_TYPE, `[${call("a batch to /register")}]`),
  oauth("a call as a form", "refused", "/token", FORM, call("a call as a form")),
  oauth("a call in fields of a form", "refused", "/token", FORM, queryOf("a call in fields of a form").slice(1)),
  oauth(
    "a call as the name of a field",
    "refused",
    "/token",
    FORM,
    encodeURIComponent(call("a call as the name of a field")),
  ),
  oauth("a call with duplicate names to /register", "refused", "/register", JSON_TYPE, '{"a":1,"a":2}'),
  oauth(
    "a call in UTF-16 to /register",
    "refused",
    "/register",
    JSON_TYPE,
    Buffer.from(call("utf16 register"), "utf16le").toString("latin1"),
  ),
  oauth("a text to /token", "refused", "/token", "text/plain", call("a text to /token")),
  oauth("a call to /Token", "refused", "/Token", JSON_TYPE, call("a call to /Token")),
];

export const HEAD_CASES: readonly Case[] = [
  ...targets,
  ...methods,
  ...overrides,
  ...hosts,
  ...origins,
  ...types,
  ...headers,
  ...authorization,
];
