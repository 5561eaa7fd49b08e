/** Cases that lie in the body: its framing, its encoding, its JSON, its message. */
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { type Case, call, chunked, type Fate, type Head, raw, request } from "./requests.ts";

const body = (name: string, fate: Fate, text: string | Buffer, head: Head = {}, status?: number): Case => ({
  name,
  fate,
  ...(status !== undefined && { status }),
  bytes: request(text, head),
});

/** The call's own text under the case's name. */
const from = (
  name: string,
  fate: Fate,
  make: (text: string) => string | Buffer,
  head: Head = {},
  status?: number,
): Case => body(name, fate, make(call(name)), head, status);

const coded = (name: string, value: string, make: (text: string) => Buffer): Case =>
  from(name, "refused", make, { headers: { "content-encoding": value } }, 415);

const gzip = (text: string) => gzipSync(text);

const encodings: readonly Case[] = [
  coded("gzip", "gzip", gzip),
  coded("GZIP in capitals", "GZIP", gzip),
  coded("x-gzip", "x-gzip", gzip),
  coded("deflate", "deflate", (text) => deflateSync(text)),
  coded("br", "br", (text) => brotliCompressSync(text)),
  coded("gzip twice", "gzip, gzip", (text) => gzipSync(gzipSync(text))),
  coded("identity, then gzip", "identity, gzip", gzip),
  coded("gzip that is not", "gzip", (text) => Buffer.from(text)),
  coded("an unknown coding", "aes128gcm", (text) => Buffer.from(text)),
  coded("an empty member", "gzip,", gzip),
  from("identity", "guarded", (text) => text, { headers: { "content-encoding": "identity" } }),
  from("gzip that is not named", "refused", gzip, {}, 400),
  from("deflate that is not named", "refused", (text) => deflateSync(text), {}, 400),
  from("gzip as a transfer coding", "refused", (text) => gzip(text), {
    headers: { "content-length": null, "transfer-encoding": "gzip, chunked" },
  }),
];

const utf16be = (text: string) => Buffer.from(text, "utf16le").swap16();
const bytes = (...parts: (string | readonly number[] | Buffer)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from(part))));

const characters: readonly Case[] = [
  from("UTF-8 with a byte order mark", "refused", (text) => bytes([0xef, 0xbb, 0xbf], text), {}, 400),
  from("two byte order marks", "refused", (text) => bytes([0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf], text), {}, 400),
  from("UTF-16 LE with a mark", "refused", (text) => bytes([0xff, 0xfe], Buffer.from(text, "utf16le")), {}, 400),
  from("UTF-16 BE with a mark", "refused", (text) => bytes([0xfe, 0xff], utf16be(text)), {}, 400),
  from("UTF-16 LE", "refused", (text) => Buffer.from(text, "utf16le"), {}, 400),
  from("UTF-16 BE", "refused", utf16be, {}, 400),
  from("UTF-32 LE", "refused", (text) => bytes(...[...text].map((one) => [one.charCodeAt(0), 0, 0, 0])), {}, 400),
  from("UTF-7", "refused", (text) => text.replaceAll('"', "+ACI-").replaceAll("{", "+AHs-"), {}, 400),
  from(
    "Latin-1 in an argument",
    "refused",
    (text) => Buffer.from(text.replace('"n"', '"\u00e9":1,"n"'), "latin1"),
    {},
    400,
  ),
  from(
    "an overlong slash in the method",
    "refused",
    (text) =>
      bytes(
        text.split("tools/call")[0] as string,
        "tools",
        [0xc0, 0xaf],
        "call",
        text.split("tools/call")[1] as string,
      ),
    {},
    400,
  ),
  from("an overlong NUL", "refused", (text) => bytes(text.slice(0, -1), ',"x":"', [0xc0, 0x80], '"}'), {}, 400),
  from(
    "a surrogate in UTF-8",
    "refused",
    (text) => bytes(text.slice(0, -1), ',"x":"', [0xed, 0xa0, 0x80], '"}'),
    {},
    400,
  ),
  from("a byte that is never UTF-8", "refused", (text) => bytes(text.slice(0, -1), ',"x":"', [0xff], '"}'), {}, 400),
  from("a cut character at the end", "refused", (text) => bytes(text, [0xe2, 0x82]), {}, 400),
  from("NUL before it", "refused", (text) => `\0${text}`, {}, 400),
  from("NUL behind it", "refused", (text) => `${text}\0`, {}, 400),
  from("a no-break space before it", "refused", (text) => `\u00a0${text}`, {}, 400),
  from("a zero-width space before it", "refused", (text) => `\u200b${text}`, {}, 400),
  from("white space around it", "guarded", (text) => ` \t\r\n${text}\r\n `),
  from("an emoji and U+2028 in an argument", "guarded", (text) => text.replace('"n"', '"m":"\u{1f600}\u2028","n"')),
];

const texts: readonly Case[] = [
  body("an empty body", "refused", "", {}, 400),
  body("white space alone", "refused", " \r\n\t ", {}, 400),
  ...["null", "true", "1", '"tools/call"', "{", "[", "}", "{}", "[]", "undefined", "NaN"].map((text) =>
    body(`the body ${text}`, "refused", text, {}, 400),
  ),
  from("a call as a JSON string", "refused", (text) => JSON.stringify(text), {}, 400),
  from("two calls one after the other", "refused", (text) => `${text}${text}`, {}, 400),
  from("lines: a ping, then a call", "refused", (text) => `{"jsonrpc":"2.0","id":1,"method":"ping"}\n${text}`, {}, 400),
  from("lines: a call, then a ping", "refused", (text) => `${text}\n{"jsonrpc":"2.0","id":2,"method":"ping"}`, {}, 400),
  from("records with RS", "refused", (text) => `\x1e${text}\n`, {}, 400),
  from("a comment before it", "refused", (text) => `/* x */${text}`, {}, 400),
  from("a comment inside", "refused", (text) => text.replace("{", "{// x\n"), {}, 400),
  from("a comma too many", "refused", (text) => text.replace(/}$/, ",}"), {}, 400),
  from("single quotes", "refused", (text) => text.replaceAll('"', "'"), {}, 400),
  from("names without quotes", "refused", (text) => text.replace('"method"', "method"), {}, 400),
  from("parentheses around it", "refused", (text) => `(${text})`, {}, 400),
  from("a prefix against hijacking", "refused", (text) => `)]}',\n${text}`, {}, 400),
  from("JSONP", "refused", (text) => `f(${text})`, {}, 400),
  from("a hexadecimal id", "refused", (text) => text.replace('"id":1', '"id":0x1'), {}, 400),
  from("an id with a leading zero", "refused", (text) => text.replace('"id":1', '"id":01'), {}, 400),
  from("an id with a plus", "refused", (text) => text.replace('"id":1', '"id":+1'), {}, 400),
  from("NaN as an id", "refused", (text) => text.replace('"id":1', '"id":NaN'), {}, 400),
  from("a line break in a string", "refused", (text) => text.replace("tools/call", "tools/\ncall"), {}, 400),
  from("a bad escape", "refused", (text) => text.replace("tools/call", "tools\\xcall"), {}, 400),
  from("cut off", "refused", (text) => text.slice(0, -1), {}, 400),
  from("a form", "refused", (text) => `payload=${encodeURIComponent(text)}`, {}, 400),
  from(
    "multipart",
    "refused",
    (text) => `--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n${text}\r\n--x--\r\n`,
    {},
    400,
  ),
  from("a length before it", "refused", (text) => `Content-Length: ${text.length}\r\n\r\n${text}`, {}, 400),
  from("an event of a stream", "refused", (text) => `data: ${text}\n\n`, {}, 400),
];

/** With one part of the call's text replaced. */
const json = (name: string, fate: Fate, find: string, put: string, status?: number): Case => {
  const text = call(name);
  if (!text.includes(find)) throw new Error(`${name}: there is no ${find}`);
  return body(
    name,
    fate,
    text.replace(find, () => put),
    {},
    status,
  );
};

const METHOD = '"method":"tools/call"';
const PARAMS = '"params":{';
const NAME = '"name":"send"';

const names: readonly Case[] = [
  json("method twice, the call last", "refused", METHOD, `"method":"ping",${METHOD}`, 400),
  json("method twice, the call first", "refused", METHOD, `${METHOD},"method":"ping"`, 400),
  json("method twice, once with an escape", "refused", METHOD, `"method":"ping","\\u006dethod":"tools/call"`, 400),
  json("method twice, both the call", "refused", METHOD, `${METHOD},${METHOD}`, 400),
  json("id twice", "refused", '"id":1', '"id":1,"id":2', 400),
  json("params twice", "refused", PARAMS, '"params":{"name":"look"},"params":{', 400),
  json("name twice, read-only first", "refused", NAME, '"name":"look","name":"send"', 400),
  json("name twice, read-only last", "refused", NAME, '"name":"send","name":"look"', 400),
  json("arguments twice", "refused", '"arguments":', '"arguments":{"n":"another"},"arguments":', 400),
  json("an argument twice", "refused", '"n":', '"n":"another","n":', 400),
  json("an argument twice, deep inside", "refused", '"n":', '"m":[{"a":1,"a":2}],"n":', 400),
  json("jsonrpc twice", "refused", '"jsonrpc":"2.0"', '"jsonrpc":"1.0","jsonrpc":"2.0"', 400),
  json("Method beside a ping", "refused", METHOD, '"method":"ping","Method":"tools/call"', 400),
  json("Method alone", "refused", '"method"', '"Method"', 400),
  json("METHOD alone", "refused", '"method"', '"METHOD"', 400),
  json("method in full width", "refused", '"method"', '"\uff4dethod"', 400),
  json("Params beside params", "refused", PARAMS, '"Params":{"name":"look"},"params":{', 400),
  json("params with a long s", "refused", '"params"', '"param\u017f"', 400),
  json("ID in capitals", "refused", '"id"', '"ID"', 400),
  json("Id beside id", "refused", '"id":1', '"id":1,"Id":2', 400),
  json("Name beside name", "refused", NAME, '"name":"look","Name":"send"', 400),
  json("NAME alone", "refused", '"name"', '"NAME"', 400),
  json("Arguments beside arguments", "refused", '"arguments":', '"Arguments":{"n":"another"},"arguments":', 400),
  json("argument\u017f", "refused", '"arguments":', '"argument\u017f":', 400),
  json("RESULT beside a method", "refused", METHOD, `"RESULT":{},${METHOD}`, 400),
  json("the method in escapes", "guarded", '"method"', '"\\u006d\\u0065thod"'),
  json("the call in escapes", "guarded", "tools/call", "tools\\/c\\u0061ll"),
  json("the tool in escapes", "guarded", NAME, '"name":"\\u0073end"'),
  json("__proto__ with a method", "refused", METHOD, '"__proto__":{"method":"tools/call"}', 400),
  json("__proto__ in params", "refused", NAME, '"__proto__":{"name":"send"}', 400),
  json("__proto__ with arguments", "refused", '"arguments":', '"__proto__":{"arguments":{}},"arguments":', 400),
  json("__proto__ in arguments", "refused", '"n":', '"__proto__":{"n":"another"},"n":', 400),
  json("__proto__ in escapes", "refused", '"n":', '"__pr\\u006fto__":{"n":"another"},"n":', 400),
  json("constructor.prototype", "guarded", '"n":', '"constructor":{"prototype":{"n":"another"}},"n":'),
  json("another member of the message", "guarded", METHOD, `"trace":{"a":1},${METHOD}`),
];

const method = (value: string, fate: Fate): Case =>
  json(`the method ${value}`, fate, '"tools/call"', value, fate === "guarded" ? 200 : 400);

const methods: readonly Case[] = [
  ...[
    '"tools/call "',
    '" tools/call"',
    '"TOOLS/CALL"',
    '"Tools/Call"',
    '"tools/Call"',
    '"tools//call"',
    '"/tools/call"',
    '"tools/call/"',
    '"tools.call"',
    '"tools_call"',
    '"tools:call"',
    '"tools-call"',
    '"toolscall"',
    '"tools\\\\call"',
    '"tools/call\\u0000"',
    '"tools/call\\n"',
    '"tools/call\\u200b"',
    '"tools/\\u0441all"',
    '"\uff54ools/call"',
    '"tools\u2044call"',
    '"tools/call?"',
    '""',
    '["tools/call"]',
    '{"0":"tools/call"}',
    "null",
    "1",
    "true",
  ].map((value) => method(value, "refused")),
];

const id = (value: string, fate: Fate): Case =>
  json(`the id ${value}`, fate, '"id":1', `"id":${value}`, fate === "guarded" ? 200 : 400);

const ids: readonly Case[] = [
  ...['"1"', '""', "0", "-1", "1e2", "9007199254740991", '"nevertwice:1"', '"__proto__"', '"\\u0000"'].map((value) =>
    id(value, "guarded"),
  ),
  ...[
    "null",
    "{}",
    "[]",
    "[1]",
    "true",
    "false",
    "1.5",
    "1e400",
    "-1e400",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "1e30",
    "12345678901234567890",
  ].map((value) => id(value, "refused")),
  json("no id", "refused", '"id":1,', "", 400),
];

const named = (name: string, value: string, fate: Fate, status = 400): Case =>
  json(name, fate, '"name":"send"', `"name":${value}`, status);

const tools: readonly Case[] = [
  ...["null", "1", "true", "[]", '["send"]', "{}", '{"0":"send"}'].map((value) =>
    named(`the tool ${value}`, value, "refused"),
  ),
  named("a tool without a name", '""', "refused"),
  named("a blank tool", '"  "', "refused"),
  named("NUL in a tool's name", '"se\\u0000nd"', "refused"),
  named("NUL behind a tool's name", '"send\\u0000"', "refused"),
  named("NUL before a tool's name", '"\\u0000send"', "refused"),
  named("a line break in a tool's name", '"send\\n"', "refused"),
  named("a tab in a tool's name", '"send\\t"', "refused"),
  named("DEL in a tool's name", '"send\\u007f"', "refused"),
  named("a C1 control in a tool's name", '"send\\u0085"', "refused"),
  named("half a surrogate pair in a tool's name", '"send\\ud800"', "refused"),
  named("a tool in another case", '"Send"', "refused"),
  named("a tool in capitals", '"SEND"', "refused"),
  named("a tool in full width", '"\uff53end"', "refused"),
  named("a tool with a long s", '"\u017fend"', "refused"),
  named("a tool with a space behind it", '"send "', "refused"),
  named("a tool with a no-break space", '"send\u00a0"', "refused"),
  named("a tool with a zero-width space", '"se\u200bnd"', "refused"),
  named("a tool with a soft hyphen", '"se\u00adnd"', "refused"),
  named("a tool with a mark for right to left", '"\u202esend"', "refused"),
  named("a tool with a byte order mark", '"\ufeffsend"', "refused"),
  named("a tool that is not composed", '"envoye\u0301"', "refused"),
  named("a read-only tool in another case", '"LOOK"', "refused"),
  named("a tool whose name is too long", `"${"x".repeat(300)}"`, "not run", 200),
  json("a tool without params", "refused", ',"params":', ',"x":', 400),
  ...["null", "[]", '["send"]', '"send"', "1", "true"].map((value): Case => {
    const name = `the params ${value}`;
    return body(
      name,
      "refused",
      JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call" }).replace(/}$/, `,"params":${value}}`),
      {},
      400,
    );
  }),
  ...["[]", '["a"]', '"a"', "1", "true", "false"].map((value): Case => {
    const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":${value}}}`;
    return body(`the arguments ${value}`, "refused", text, {}, 400);
  }),
];

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

const values: readonly Case[] = [
  json("a number beyond 2^53", "guarded", '"n":', '"m":9007199254740993,"n":'),
  json("its neighbour", "guarded", '"n":', '"m":9007199254740992,"n":'),
  json("a number beyond all", "guarded", '"n":', '"m":1e999,"n":'),
  json("a fraction with more digits than a number has", "guarded", '"n":', '"m":0.12345678901234567890123,"n":'),
  json("a number beyond 2^53, as a string", "guarded", '"n":', '"m":"9007199254740993","n":'),
  json("ordinary numbers", "guarded", '"n":', '"m":[0,-1,1.5,0.1,1e10,-2.5e-7,9007199254740991],"n":'),
  json("arguments 40 levels deep", "guarded", '"n":', `"free":${deep(10)},"n":`),
  json("arguments 100 levels deep", "not run", '"n":', `"m":${deep(100)},"n":`, 200),
  json("arguments 1 000 levels deep", "refused", '"n":', `"m":${deep(1_000)},"n":`, 400),
  json("arguments 100 000 levels deep", "refused", '"n":', `"m":${deep(100_000)},"n":`, 400),
  body("objects 100 000 levels deep", "refused", `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`, {}, 400),
  body("brackets that never close", "refused", "[".repeat(200_000), {}, 400),
  json("half a surrogate pair in an argument", "not run", '"n":', '"m":"\\ud800","n":', 200),
];

const ping = (over: object = {}) => ({ jsonrpc: "2.0", id: 9, method: "ping", ...over });

const batch = (
  name: string,
  fate: Fate,
  parts: (text: string) => string,
  status = fate === "refused" ? 400 : 200,
): Case => body(name, fate, parts(call(name)), {}, status);

const batches: readonly Case[] = [
  batch("a batch of one call", "refused", (text) => `[${text}]`),
  batch("a batch of null and a call", "refused", (text) => `[null,${text}]`),
  batch("a batch of a call and null", "refused", (text) => `[${text},null]`),
  batch("a batch of a number and a call", "refused", (text) => `[1,${text}]`),
  batch("a batch of a text and a call", "refused", (text) => `["x",${text}]`),
  batch("a batch in a batch", "refused", (text) => `[[${text}]]`),
  batch("an empty batch beside a call", "refused", (text) => `[[],${text}]`),
  batch("a batch of a ping and a call", "refused", (text) => `[${JSON.stringify(ping())},${text}]`),
  batch("a batch of a call without an id", "refused", (text) => `[${text.replace('"id":1,', "")}]`),
  batch("a batch of a call with a bad id", "refused", (text) => `[${text.replace('"id":1', '"id":{}')}]`),
  batch("a batch of a Method", "refused", (text) => `[${text.replace('"method"', '"Method"')}]`),
  batch("a batch with a name twice", "refused", (text) => `[${text.replace(METHOD, `"method":"ping",${METHOD}`)}]`),
  batch("a batch of an empty object", "refused", (text) => `[{},${text}]`),
  batch(
    "a batch of a cancellation",
    "refused",
    () => '[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]',
  ),
  batch("a batch of pings", "passes", () => JSON.stringify([ping(), ping({ id: 10 })])),
  batch("a list written as an object", "refused", (text) => `{"0":${text},"length":1}`),
];

const messages: readonly Case[] = [
  json("a method and a result", "refused", METHOD, `"result":{},${METHOD}`, 400),
  json("a method and an error", "refused", METHOD, `"error":{"code":1,"message":"x"},${METHOD}`, 400),
  json("an id and nothing else", "refused", `,${METHOD}`, "", 400),
  body(
    "a call as the params of a ping",
    "passes",
    JSON.stringify(ping({ params: JSON.parse(call("inside a ping")) as object })),
  ),
  body(
    "a call as a result",
    "passes",
    JSON.stringify({ jsonrpc: "2.0", id: 9, result: JSON.parse(call("inside a result")) as object }),
  ),
  body("a notification", "passes", JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })),
  json("without jsonrpc", "guarded", '"jsonrpc":"2.0",', ""),
  json("another jsonrpc", "guarded", '"jsonrpc":"2.0"', '"jsonrpc":"1.0"'),
];

// ---- framing

const START = "POST /mcp HTTP/1.1\r\nHost: SELF\r\nContent-Type: application/json\r\n";

const framed = (name: string, fate: Fate, text: (body: string) => string, status?: number): Case => ({
  name,
  fate,
  ...(status !== undefined && { status }),
  ...(CUT.has(name) && { cut: true }),
  ...(name.startsWith("a call behind") && { answers: 2 }),
  bytes: raw(text(call(name))),
});

/** The proxy waits for the rest of these. */
const CUT: ReadonlySet<string> = new Set([
  "a length that is too long",
  "chunks without an end",
  "carriage returns alone",
]);

const length = (text: string) => `Content-Length: ${Buffer.byteLength(text)}\r\n`;
const CHUNKED = "Transfer-Encoding: chunked\r\n";

const framing: readonly Case[] = [
  framed("chunked", "guarded", (text) => `${START}${CHUNKED}\r\n${chunked(text)}`),
  framed(
    "chunks of one byte",
    "guarded",
    (text) => `${START}${CHUNKED}\r\n${[...text].map((one) => `1\r\n${one}\r\n`).join("")}0\r\n\r\n`,
  ),
  framed("chunk extensions", "guarded", (text) => `${START}${CHUNKED}\r\n${chunked(text, ';a="b";c')}`),
  framed(
    "trailers that name another method",
    "guarded",
    (text) =>
      `${START}${CHUNKED}Trailer: X-HTTP-Method-Override\r\n\r\n${chunked(text).replace(/\r\n$/, "X-HTTP-Method-Override: PUT\r\n\r\n")}`,
  ),
  framed(
    "a chunk size in capitals with zeros",
    "guarded",
    (text) => `${START}${CHUNKED}\r\n0000${text.length.toString(16).toUpperCase()}\r\n${text}\r\n0\r\n\r\n`,
  ),
  framed("both lengths", "refused", (text) => `${START}${length(text)}${CHUNKED}\r\n${chunked(text)}`),
  framed(
    "both lengths, the other way round",
    "refused",
    (text) => `${START}${CHUNKED}${length(text)}\r\n${chunked(text)}`,
  ),
  framed(
    "both lengths, a body of no chunks",
    "refused",
    (text) => `${START}${CHUNKED}Content-Length: 4\r\n\r\n0\r\n\r\n${START}${length(text)}\r\n${text}`,
  ),
  framed("two lengths", "refused", (text) => `${START}${length(text)}Content-Length: 4\r\n\r\n${text}`),
  framed("the same length twice", "refused", (text) => `${START}${length(text)}${length(text)}\r\n${text}`),
  framed(
    "a list of lengths",
    "refused",
    (text) => `${START}Content-Length: ${text.length}, ${text.length}\r\n\r\n${text}`,
  ),
  framed("a length with a plus", "refused", (text) => `${START}Content-Length: +${text.length}\r\n\r\n${text}`),
  framed("a negative length", "refused", (text) => `${START}Content-Length: -1\r\n\r\n${text}`),
  framed(
    "a hexadecimal length",
    "refused",
    (text) => `${START}Content-Length: 0x${text.length.toString(16)}\r\n\r\n${text}`,
  ),
  framed("a length beyond all", "refused", (text) => `${START}Content-Length: 99999999999999999999999\r\n\r\n${text}`),
  framed("a length above the limit", "refused", (text) => `${START}Content-Length: 1000000000\r\n\r\n${text}`, 413),
  framed(
    "a length that is too long",
    "refused",
    (text) => `${START}Content-Length: ${text.length + 10}\r\n\r\n${text}`,
  ),
  framed(
    "a length that is too short",
    "refused",
    (text) => `${START}Content-Length: ${text.length - 10}\r\n\r\n${text}`,
  ),
  framed("no length", "refused", (text) => `${START}\r\n${text}`),
  framed(
    "the identity transfer coding",
    "refused",
    (text) => `${START}Transfer-Encoding: identity\r\n${length(text)}\r\n${text}`,
  ),
  framed(
    "an unknown transfer coding",
    "refused",
    (text) => `${START}Transfer-Encoding: xchunked\r\n\r\n${chunked(text)}`,
  ),
  framed("chunked twice", "refused", (text) => `${START}Transfer-Encoding: chunked, chunked\r\n\r\n${chunked(text)}`),
  framed(
    "chunked, then identity",
    "refused",
    (text) => `${START}Transfer-Encoding: chunked, identity\r\n\r\n${chunked(text)}`,
  ),
  framed(
    "two transfer codings in two lines",
    "refused",
    (text) => `${START}${CHUNKED}Transfer-Encoding: identity\r\n\r\n${chunked(text)}`,
  ),
  framed(
    "a vertical tab in the transfer coding",
    "refused",
    (text) => `${START}Transfer-Encoding: \x0bchunked\r\n\r\n${chunked(text)}`,
  ),
  framed(
    "a blank before the colon",
    "refused",
    (text) => `${START}Transfer-Encoding : chunked\r\n\r\n${chunked(text)}`,
  ),
  framed(
    "a folded header",
    "refused",
    (text) => `${START}X-A: b\r\n Transfer-Encoding: chunked\r\n${length(text)}\r\n${text}\r\n`,
  ),
  framed("a chunk size that is none", "refused", (text) => `${START}${CHUNKED}\r\nzz\r\n${text}\r\n0\r\n\r\n`),
  framed("a negative chunk size", "refused", (text) => `${START}${CHUNKED}\r\n-5\r\n${text}\r\n0\r\n\r\n`),
  framed(
    "a chunk size with 0x",
    "refused",
    (text) => `${START}${CHUNKED}\r\n0x${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
  ),
  framed(
    "a chunk size beyond all",
    "refused",
    (text) => `${START}${CHUNKED}\r\nfffffffffffffffff\r\n${text}\r\n0\r\n\r\n`,
  ),
  framed(
    "a chunk that is longer than its size",
    "refused",
    (text) => `${START}${CHUNKED}\r\n5\r\n${text}\r\n0\r\n\r\n`,
  ),
  framed(
    "chunks without an end",
    "refused",
    (text) => `${START}${CHUNKED}\r\n${text.length.toString(16)}\r\n${text}\r\n`,
  ),
  framed("line feeds alone", "refused", (text) => `${START}${length(text)}\r\n`.replaceAll("\r\n", "\n") + text),
  framed("carriage returns alone", "refused", (text) => `${START}${length(text)}\r\n`.replaceAll("\r\n", "\r") + text),
  framed("NUL in a header", "refused", (text) => `${START}X-A: a\0b\r\n${length(text)}\r\n${text}`),
  framed("a header without a colon", "refused", (text) => `${START}X-A\r\n${length(text)}\r\n${text}`),
  framed("a header without a name", "refused", (text) => `${START}: x\r\n${length(text)}\r\n${text}`),
  framed("a header name with a bracket", "refused", (text) => `${START}X[A]: x\r\n${length(text)}\r\n${text}`),
  framed("blank lines before the request", "guarded", (text) => `\r\n\r\n${START}${length(text)}\r\n${text}`),
  framed("HTTP/1.0", "guarded", (text) => `${START.replace("1.1", "1.0")}${length(text)}\r\n${text}`),
  framed("HTTP/0.9", "refused", () => "GET /mcp\r\n"),
  framed("HTTP/1.2", "refused", (text) => `${START.replace("1.1", "1.2")}${length(text)}\r\n${text}`),
  framed("HTTP/3.0", "refused", (text) => `${START.replace("1.1", "3.0")}${length(text)}\r\n${text}`),
  framed("the preface of HTTP/2", "refused", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  framed(
    "two blanks in the request line",
    "guarded",
    (text) => `${START.replace(" /mcp", "  /mcp")}${length(text)}\r\n${text}`,
  ),
  framed(
    "a tab in the request line",
    "refused",
    (text) => `${START.replace(" /mcp", "\t/mcp")}${length(text)}\r\n${text}`,
  ),
  framed("a TLS hello", "refused", () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
  framed("an SSH banner", "refused", () => "SSH-2.0-OpenSSH_9.9\r\n"),
  framed(
    "the PROXY protocol before a request",
    "refused",
    (text) => `PROXY TCP4 1.2.3.4 127.0.0.1 1 2\r\n${START}${length(text)}\r\n${text}`,
  ),
  framed("bytes of no protocol", "refused", () => "\x00\xff\x00\xff".repeat(64)),
  framed(
    "a call to another host behind a stream's GET",
    "refused",
    (text) =>
      `GET /nothing HTTP/1.1\r\nHost: SELF\r\n\r\nPOST http://OTHER/mcp HTTP/1.1\r\nHost: OTHER\r\nContent-Type: application/json\r\n${length(text)}\r\n${text}`,
  ),
  framed(
    "a call behind a body of no length",
    "guarded",
    (text) => `${START}Content-Length: 0\r\n\r\n${START}${length(text)}\r\n${text}`,
    400,
  ),
  framed(
    "a call behind a refused batch",
    "guarded",
    (text) => `${START}Content-Length: 2\r\n\r\n[]${START}${length(text)}\r\n${text}`,
    400,
  ),
  framed("a call behind a ping", "guarded", (text) => {
    const first = JSON.stringify(ping());
    return `${START}${length(first)}\r\n${first}${START}${length(text)}\r\n${text}`;
  }),
];

export const BODY_CASES: readonly Case[] = [
  ...encodings,
  ...characters,
  ...texts,
  ...names,
  ...methods,
  ...ids,
  ...tools,
  ...values,
  ...batches,
  ...messages,
  ...framing,
];
