/**
 * An MCP server that executes whatever it can make sense of: on any path and method, compressed, in any encoding, with the
 * first or the last of two equal names, in any case. Each effect is written down; what reached it unguarded has one too many.
 */
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, createServer as createSocketServer } from "node:net";
import { runInNewContext } from "node:vm";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";

/** One effect: the tool and its arguments, as JSON. */
export type Effect = string;

export const effectOf = (tool: string, args: unknown): Effect => `${tool} ${JSON.stringify(args ?? {})}`;

/** "envoyé" is composed (NFC) in the server's own list. */
const TOOLS = [
  { name: "send", inputSchema: { type: "object" } },
  { name: "envoy\u00e9", inputSchema: { type: "object" } },
  { name: "look", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
];

export interface LenientServer {
  readonly port: number;
  readonly effects: Effect[];
  /** Method, path and body of each request. */
  readonly requests: string[];
  close(): void;
}

export async function lenientServer(): Promise<LenientServer> {
  const [effects, requests]: [Effect[], string[]] = [[], []];
  const server = createServer({ insecureHTTPParser: true }, async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    requests.push(`${request.method} ${request.url} ${body.toString("latin1")}`);
    const messages = messagesOf(request, body);
    const answers = messages.map((message) => answerOf(message));
    effects.push(...new Set(answers.flatMap(({ effect }) => effect ?? [])));
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(answers[0]?.answer ?? { ok: true }));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { port, effects, requests, close };
}

/** Counts who connects: nobody should. */
export async function otherServer(): Promise<{ readonly port: number; readonly came: string[]; close(): void }> {
  const came: string[] = [];
  const server = createSocketServer((socket) => {
    came.push("a connection");
    socket.on("error", () => {});
    socket.end("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return { port: (server.address() as AddressInfo).port, came, close: () => void server.close() };
}

// ---- reading

type Loose = Record<string, unknown>;

function messagesOf(request: IncomingMessage, body: Buffer): Loose[] {
  const url = new URL(`http://x${request.url?.startsWith("/") ? request.url : "/"}`);
  const query = Object.fromEntries(url.searchParams);
  const fromQuery = query.method === undefined ? [] : [{ ...query, params: values(query.params ?? "{}")[0] }];
  for (const text of texts(request, body)) {
    const found = [text, ...text.replaceAll("\x1e", "\n").split(/[\n\r\u2028\u2029\u0085]/)]
      .flatMap(values)
      .flatMap(flat);
    if (found.length > 0) return [...fromQuery, ...found];
  }
  return fromQuery;
}

function texts(request: IncomingMessage, body: Buffer): string[] {
  const bytes = unpacked(body);
  const swapped = Buffer.from(bytes.subarray(0, bytes.length & ~1)).swap16();
  const form = request.headers["content-type"]?.includes("form") || /^[\w%]+=/.test(bytes.toString("latin1"));
  const utf8 = bytes.toString("utf8").replace(/^\uFEFF/, "");
  const fields = form ? [...new URLSearchParams(utf8)].map(([, value]) => value) : [];
  const ownForm = form && /method=/.test(utf8) ? [JSON.stringify(Object.fromEntries(new URLSearchParams(utf8)))] : [];
  const wide = [bytes.toString("utf16le"), swapped.toString("utf16le")].map((text) => text.replace(/^\uFEFF/, ""));
  return [utf8, ...wide, utf8.replace(/[\0\uFEFF]/g, ""), bytes.toString("latin1"), ...fields, ...ownForm];
}

function unpacked(body: Buffer): Buffer {
  for (const unpack of [gunzipSync, inflateSync, brotliDecompressSync]) {
    try {
      const out = unpack(body);
      if (out.length > 0) return unpacked(out);
    } catch {
      // Not packed in this way.
    }
  }
  return body;
}

function values(text: string): unknown[] {
  try {
    return [JSON.parse(text), firstWins(text)];
  } catch {
    return loose(text);
  }
}

/** JSON5, comments, prefixes: an object in a text that JavaScript would read. */
function loose(text: string): unknown[] {
  const at = text.search(/[[{]/);
  if (at === -1 || text.length > 100_000) return [];
  try {
    return [runInNewContext(`(${text.slice(at)})`, {}, { timeout: 200 })];
  } catch {
    return [];
  }
}

/** JSON with the first of two equal names: by a reviver's order of visits it cannot be had, so names are numbered first. */
function firstWins(text: string): unknown {
  let count = 0;
  const numbered = text.replace(/"((?:[^"\\]|\\.)*)"(\s*:)/g, (_, name: string, colon: string) => {
    count += 1;
    return `"${count}#${name}"${colon}`;
  });
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip);
    if (typeof value !== "object" || value === null) return value;
    const out: Loose = {};
    for (const [name, inner] of Object.entries(value)) {
      const plain = name.slice(name.indexOf("#") + 1);
      if (!Object.hasOwn(out, plain)) Object.defineProperty(out, plain, { value: strip(inner), enumerable: true });
    }
    return out;
  };
  return strip(JSON.parse(numbered));
}

function flat(value: unknown): Loose[] {
  if (Array.isArray(value)) return value.flatMap(flat);
  return typeof value === "object" && value !== null ? [value as Loose] : [];
}

// ---- doing

/** By any spelling, also from a prototype that somebody sent. */
function field(object: unknown, name: string): unknown {
  if (typeof object !== "object" || object === null) return undefined;
  const own = object as Loose;
  const names = Object.keys(own).filter((one) => one.normalize("NFKC").toLowerCase() === name);
  if (names.length > 0) return own[names.at(-1) as string];
  return field(Object.getOwnPropertyDescriptor(own, "__proto__")?.value, name) ?? own[name];
}

const letters = (text: unknown) =>
  String(text)
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^a-z]/g, "");

function answerOf(message: Loose): { readonly answer: object; readonly effect?: Effect } {
  const [id, method] = [field(message, "id") ?? null, field(message, "method")];
  if (letters(method) === "toolslist") return { answer: { jsonrpc: "2.0", id, result: { tools: TOOLS } } };
  if (letters(method) !== "toolscall") return { answer: { jsonrpc: "2.0", id, result: {} } };
  const params = field(message, "params");
  const named = String(Array.isArray(params) ? params[0] : field(params, "name"))
    .normalize("NFKC")
    .toLowerCase();
  const tool = named.replace(/[\p{Cc}\p{Default_Ignorable_Code_Point}\s]/gu, "");
  const result = { content: [{ type: "text", text: `did ${tool}` }] };
  const answer = { jsonrpc: "2.0", id, result };
  if (tool === "look") return { answer };
  return { answer, effect: effectOf(tool, Array.isArray(params) ? params[1] : field(params, "arguments")) };
}
