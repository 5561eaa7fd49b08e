import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { soundsInterrupted } from "./interrupted.ts";
import { verdictOnThrown } from "./thrown.ts";

const plain = (message: string, fields: object = {}) => Object.assign(new Error(message), fields);

/** As the official client makes them. */
const mcp = (code: number, said: string) => plain(`MCP error ${code}: ${said}`, { name: "McpError", code });

// As in the OpenAI and Anthropic clients: `name` stays "Error".
class APIError extends Error {}
class APIConnectionError extends APIError {}
class APIConnectionTimeoutError extends APIConnectionError {}
class APIUserAbortError extends APIError {}

const nested = (depth: number) => {
  let error: Error = new Error("deepest");
  for (let i = 0; i < depth; i += 1) error = new Error("outer", { cause: error });
  return error;
};

const INTERRUPTED: readonly [what: string, error: unknown][] = [
  ["MCP client, timeout", mcp(-32001, "Request timed out")],
  ["MCP client, closed", mcp(-32000, "Connection closed")],
  ["MCP client, by its code", { code: -32001, message: "x" }],
  ["a process that was killed", plain("Command failed: x", { killed: true, signal: null, code: null })],
  ["a process that got a signal", plain("Command failed: x", { killed: false, signal: "SIGKILL", code: null })],
  ["a process under a shell that got a signal", plain("Command failed: x", { code: 137, killed: false })],
  ["OpenAI, timeout", new APIConnectionTimeoutError("x")],
  ["OpenAI, connection", new APIConnectionError("x")],
  ["OpenAI, abort", new APIUserAbortError("x")],
  ["OpenAI, timeout in words", plain("Request timed out.")],
  ["OpenAI, connection in words", plain("Connection error.")],
  ["OpenAI, abort in words", plain("Request was aborted.")],
  ["Stripe, connection", plain("x", { type: "StripeConnectionError" })],
  ["Stripe, api", plain("x", { type: "StripeAPIError" })],
  ["mysql, lost", plain("x", { code: "PROTOCOL_CONNECTION_LOST" })],
  ["mysql, gone", plain("MySQL server has gone away")],
  ["pg, terminated", plain("Connection terminated unexpectedly")],
  ["pg, read timeout", plain("Query read timeout")],
  ["pg, connect timeout", plain("timeout exceeded when trying to connect")],
  ["pg, SQLSTATE 08006", plain("x", { code: "08006" })],
  ["pg, SQLSTATE 57P01", plain("x", { code: "57P01" })],
  ["ioredis, timeout", plain("Command timed out")],
  ["ioredis, closed", plain("Connection is closed.")],
  ["redis, closed", plain("The client is closed")],
  ["mongodb", plain("x", { name: "MongoNetworkTimeoutError" })],
  ["kafkajs", plain("x", { name: "KafkaJSRequestTimeoutError" })],
  ["http2", plain("x", { code: "ERR_HTTP2_STREAM_ERROR" })],
  ...["P1001", "P1002", "P1008", "P1017", "P2024"].map(
    (code) => [`Prisma ${code}`, plain("x", { code })] as [string, Error],
  ),
  ["fetch failed", new TypeError("fetch failed")],
  ["terminated", new TypeError("terminated")],
  ["Failed to fetch", new TypeError("Failed to fetch")],
  ["undici", plain("other side closed")],
  ["ws", plain("WebSocket was closed before the connection was established")],
  ["puppeteer", plain("Protocol error (Page.navigate): Target closed")],
  ["gRPC deadline without details", plain("4 DEADLINE_EXCEEDED: x", { code: 4 })],
  ["gRPC unavailable without details", plain("14 UNAVAILABLE: x", { code: 14 })],
  ["socket hang up", plain("socket hang up")],
  ["write EPIPE", plain("write EPIPE")],
  ["premature close", plain("Premature close")],
  ["an answer cut short", new SyntaxError("Unexpected end of JSON input")],
  ["a status as text", plain("x", { status: "503" })],
  ["502 in words", plain("Request failed with status code 502")],
  ["500 first", plain("500 Internal Server Error")],
  ["503 after HTTP", plain("upstream said HTTP 503")],
  ["service unavailable", plain("Service Unavailable")],
  ["tries of the client's own", plain("Failed after 3 attempts. Last error: x")],
  ["a text that was thrown", "Request timed out"],
  ["a cause", new Error("mail failed", { cause: plain("Query read timeout") })],
  ["a cause that is a text", new Error("mail failed", { cause: "timed out" })],
  ["one of several", new AggregateError([plain("invalid email"), plain("socket hang up")], "x")],
  ["one of several without the class", plain("x", { errors: [plain("Command timed out")] })],
  ["the last error of a retry", plain("x", { lastError: plain("Connection error.") })],
  ["a chain that is not read to its end", nested(100)],
  ["at the end of a long text", plain(`${"x".repeat(50_000)} timed out`)],
  ["content of a result", [{ type: "text", text: "Error: Request timed out" }]],
];

const circular = new Error("no such customer");
circular.cause = circular;

const NOT_INTERRUPTED: readonly [what: string, error: unknown][] = [
  ["invalid email", plain("invalid email")],
  ["no such customer", plain("no such customer")],
  ["amount must be positive", plain("amount must be positive")],
  ["amount over 500", plain("amount must be at most 500")],
  ["ZodError", z.object({ to: z.string() }).safeParse({}).error],
  ["not a function", new TypeError("x is not a function")],
  ["Not found", plain("Not found")],
  ["a code that is a word", plain("declined", { code: "card_declined", type: "StripeCardError" })],
  ["a card that expired", plain("Your card has expired.")],
  ["a skill", plain("no such skill")],
  ["unique violation", plain("duplicate key value violates unique constraint", { code: "23505" })],
  ["Prisma, unique violation", plain("x", { code: "P2002" })],
  ["no file", plain("ENOENT: no such file or directory, open 'a'", { code: "ENOENT", errno: -2 })],
  ["a process that answered 1", plain("Command failed: x", { code: 1, killed: false, signal: null })],
  ["a circular cause", circular],
  ["nothing", undefined],
  ["the words of the OpenAI SDK", "An error occurred while running the tool. Please try again."],
  ["content of a result", [{ type: "text", text: "invalid email" }]],
  ["a refused connection in words", "connect ECONNREFUSED 127.0.0.1:80"],
  ["an unknown host in words", "getaddrinfo ENOTFOUND mail.example"],
];

describe("an error that sounds interrupted", () => {
  it.each(INTERRUPTED)("%s: in doubt", (_what, error) => {
    expect(soundsInterrupted(error)).toBe(true);
    expect(verdictOnThrown(error, { errors: "not-done" })).not.toBe("refused");
  });

  it.each(NOT_INTERRUPTED)("%s: not", (_what, error) => {
    expect(soundsInterrupted(error)).toBe(false);
    expect(verdictOnThrown(error, { errors: "not-done" })).toBe("refused");
  });

  it("a process that Node ended after its timeout", async () => {
    const error = await promisify(execFile)(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], {
      timeout: 50,
    }).catch((thrown: unknown) => thrown);
    expect(verdictOnThrown(error, { errors: "not-done" })).toBe("doubt");
  });

  it("what surely was not sent is left to the built-in rules", () => {
    for (const fields of [{ code: "ECONNREFUSED" }, { code: "ENOTFOUND" }, { status: 429 }, { status: 404 }]) {
      expect(verdictOnThrown(plain("no connection", fields), { errors: "not-done" })).toBeUndefined();
    }
  });

  it("the tool's own classify is asked first", () => {
    const error = plain("Request timed out");
    expect(verdictOnThrown(error, { errors: "not-done", classify: () => "refused" })).toBe("refused");
  });

  it("one that cannot be read is", () => {
    const trap = () => {
      throw new Error("trap");
    };
    expect(soundsInterrupted(new Proxy({}, { get: trap, getPrototypeOf: trap }))).toBe(true);
  });

  it("is told in a moment, whatever the text", () => {
    for (const piece of ["a", "A", "server ", "closed ", "5", "_", "with ", "aA"])
      expect(typeof soundsInterrupted(piece.repeat(200_000))).toBe("boolean");
  });
});
