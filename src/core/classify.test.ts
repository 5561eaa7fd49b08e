import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { createTransport } from "nodemailer";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { afterEach, describe, expect, test } from "vitest";
import { classify, type Verdict } from "./classify.ts";
import { NevertwiceError, notSent, rejected } from "./errors.ts";

const NOW = Date.parse("2026-11-20T10:00:00Z");
const HTTP_DATE_IN_90S = "Fri, 20 Nov 2026 10:01:30 GMT";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function thrownBy(work: () => Promise<unknown>): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

async function listen(server: net.Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function closedPort(): Promise<number> {
  const server = net.createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

function httpServer(answer: http.RequestListener): Promise<number> {
  const server = http.createServer((req, res) => req.resume().once("end", () => answer(req, res)));
  cleanups.push(() => server.closeAllConnections());
  return listen(server);
}

const post = (port: number, init: RequestInit = {}) =>
  fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: "hello", ...init });

const shaped = (fields: object, message = "boom"): Error => Object.assign(new Error(message), fields);

const verdictOf = (error: unknown): Verdict => classify(error, NOW);
const kindOf = (error: unknown): string => verdictOf(error).kind;

function expectNotSent(error: unknown, retryAfterMs: number | null = null): void {
  expect(verdictOf(error)).toEqual({ kind: "not-sent", retryAfterMs, cause: error });
}

function expectRefused(error: unknown): void {
  expect(verdictOf(error)).toEqual({ kind: "refused", cause: error });
}

function expectDoubt(error: unknown, why?: string | RegExp): void {
  const verdict = verdictOf(error);
  expect(verdict.kind).toBe("doubt");
  if (why !== undefined && verdict.kind === "doubt") expect(verdict.why).toMatch(new RegExp(why));
}

describe("marks", () => {
  test("O4 notSent: another try, and the user sees the error passed in", () => {
    const cause = new Error("out of stamps");
    expect(verdictOf(notSent(cause))).toEqual({ kind: "not-sent", retryAfterMs: null, cause });
  });

  test.each<[string | number | Date, number | null]>([
    ["30s", 30_000],
    [1_500, 1_500],
    [new Date(NOW + 60_000), 60_000],
    [new Date(NOW - 60_000), 0],
    ["soon", null],
    [-1, null],
    [Number.NaN, null],
    [new Date("never"), null],
  ])("O4 notSent with retryAfter %s waits %s", (retryAfter, expected) => {
    const cause = new Error("x");
    expect(verdictOf(notSent(cause, { retryAfter }))).toEqual({ kind: "not-sent", retryAfterMs: expected, cause });
  });

  test("O4 rejected is the only way to be refused for good", () => {
    const cause = shaped({ status: 503 });
    expect(verdictOf(rejected(cause))).toEqual({ kind: "rejected", cause });
    expect(kindOf(shaped({ status: 422 }))).toBe("refused");
  });

  test("O4 a wrapped mark still counts, and the user sees the wrapper", () => {
    const outer = new Error("could not invite", { cause: notSent(new Error("inner"), { retryAfter: "5s" }) });
    expectNotSent(outer, 5_000);
  });

  test("O5 a mark whose cause is undefined keeps it undefined", () => {
    expect(verdictOf(rejected(undefined))).toEqual({ kind: "rejected", cause: undefined });
  });
});

describe("real sockets", () => {
  test("F22 fetch to a closed port was surely not sent", async () => {
    const port = await closedPort();
    expectNotSent(await thrownBy(() => post(port)));
  });

  test("F22 fetch to localhost on a closed port (every address refused) was surely not sent", async () => {
    const port = await closedPort();
    expectNotSent(await thrownBy(() => fetch(`http://localhost:${port}/`, { method: "POST" })));
  });

  test("F22 http.request to a closed port was surely not sent", async () => {
    const request = http.request({ host: "127.0.0.1", port: await closedPort(), method: "POST" }).end("hello");
    const [error] = (await once(request, "error").catch((thrown) => [thrown])) as [unknown];
    expectNotSent(error);
  });

  test("F22 a name that does not resolve was surely not sent", async () => {
    expectNotSent(await thrownBy(() => fetch("http://nothing.invalid/", { method: "POST" })));
  });

  test("F22 a certificate we do not trust: no request byte leaves, surely not sent", async () => {
    let bytes = 0;
    const server = new SMTPServer({ secure: true, logger: false });
    server.server.on("secureConnection", (socket: net.Socket) =>
      socket.on("data", (chunk) => {
        bytes += chunk.length;
      }),
    );
    const port = await smtpListen(server);
    const error = await thrownBy(() => fetch(`https://127.0.0.1:${port}/`, { method: "POST", body: "hello" }));
    expectNotSent(error);
    expect(bytes).toBe(0);
  });

  test("F21 a reset after the request was read is doubt", async () => {
    const port = await httpServer((req) => req.socket.resetAndDestroy());
    expectDoubt(await thrownBy(() => post(port)), /^connection (reset|closed)$/);
  });

  test("F21 O5 a connection closed before the answer is doubt", async () => {
    const port = await httpServer((req) => req.socket.destroy());
    expectDoubt(await thrownBy(() => post(port)), "connection closed");
  });

  test("F21 O5 http.request: socket hang up is doubt", async () => {
    const port = await httpServer((req) => req.socket.destroy());
    const error = await thrownBy(
      () => new Promise((_, reject) => http.request({ port, method: "POST" }).on("error", reject).end("hello")),
    );
    expect((error as Error).message).toBe("socket hang up");
    expectDoubt(error, "connection reset");
  });

  test("F21 O5 a truncated body is doubt, although the status was 200", async () => {
    const port = await httpServer((req, res) => {
      res.writeHead(200, { "content-length": "1000" }).write('{"id":');
      setTimeout(() => req.socket.destroy(), 20);
    });
    const response = await post(port);
    expectDoubt(await thrownBy(() => response.json()));
  });

  test("F21 O5 an answer that is no JSON is doubt", async () => {
    const port = await httpServer((_req, res) => res.end("<html>"));
    const response = await post(port);
    expectDoubt(await thrownBy(() => response.json()), /nobody classified \(SyntaxError\)/);
  });

  test("F21 an abort and a timeout are doubt", async () => {
    const port = await httpServer(() => {});
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 20);
    expectDoubt(await thrownBy(() => post(port, { signal: controller.signal })), "aborted");
    expectDoubt(await thrownBy(() => post(port, { signal: AbortSignal.timeout(20) })), "timed out");
  });

  test("O4 a thrown fetch Response is read like an error: 429 waits, 404 is refused, 502 is doubt", async () => {
    const port = await httpServer((req, res) =>
      res.writeHead(Number(req.headers["x-status"]), { "Retry-After": "7" }).end(),
    );
    const answer = (status: string) => post(port, { headers: { "x-status": status } });
    expectNotSent(await answer("429"), 7_000);
    expectRefused(await answer("404"));
    expectDoubt(await answer("502"), "HTTP 502");
  });

  test("O5 404 behind a redirect that was followed is doubt: the POST itself had run", async () => {
    const port = await httpServer((req, res) =>
      req.method === "POST" ? res.writeHead(303, { location: "/receipt" }).end() : res.writeHead(404).end(),
    );
    expectDoubt(await post(port), "redirect");
  });
});

describe("network shapes", () => {
  test.each([
    { code: "ECONNREFUSED" },
    { code: "ECONNREFUSED", syscall: "connect" },
    { code: "EHOSTUNREACH", syscall: "connect" },
    { code: "ENETUNREACH", syscall: "connect" },
    { code: "ETIMEDOUT", syscall: "connect" },
    { code: "EAI_FAIL", syscall: "getaddrinfo" },
    { code: "UND_ERR_CONNECT_TIMEOUT", name: "ConnectTimeoutError" },
    { code: "CERT_HAS_EXPIRED" },
    { code: "SELF_SIGNED_CERT_IN_CHAIN" },
    { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" },
    { code: "ERR_TLS_CERT_ALTNAME_INVALID" },
  ])("F22 $code $syscall was surely not sent, also deep in a cause chain", (fields) => {
    expectNotSent(shaped(fields));
    expectNotSent(new TypeError("fetch failed", { cause: new Error("x", { cause: shaped(fields) }) }));
  });

  test.each([
    [{ code: "ECONNRESET", syscall: "read" }, "connection reset"],
    [{ code: "EPIPE", syscall: "write" }, "closed while sending"],
    [{ code: "ETIMEDOUT", syscall: "read" }, "timed out"],
    [{ code: "ETIMEDOUT" }, "timed out"],
    [{ code: "EHOSTUNREACH", syscall: "read" }, "unreachable"],
    [{ code: "ECONNREFUSED", syscall: "recvmsg" }, "refused late"],
    [{ code: "UND_ERR_SOCKET" }, "connection closed"],
    [{ code: "UND_ERR_HEADERS_TIMEOUT" }, "timed out"],
    [{ code: "UND_ERR_BODY_TIMEOUT" }, "timed out"],
    [{ code: "ECONNABORTED", name: "AxiosError" }, "aborted"],
    [{ code: "EPROTO", syscall: "write" }, "nobody classified"],
    [{ code: "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED" }, "nobody classified"],
    [{ name: "TimeoutError" }, "timed out"],
  ])("F21 %o is doubt: %s", (fields, why) => {
    expectDoubt(shaped(fields), why);
  });

  test("F21 a timeout that names a refused connection as its cause is still doubt", () => {
    expectDoubt(shaped({ name: "TimeoutError", cause: shaped({ code: "ECONNREFUSED" }) }), "timed out");
  });

  test("F22 AggregateError: not sent only if every one of them is, and then after the longest wait", () => {
    const refusal = () => shaped({ code: "ECONNREFUSED", syscall: "connect" });
    expectNotSent(new AggregateError([refusal(), refusal()]));
    expectNotSent(new AggregateError([notSent("a", { retryAfter: "2s" }), notSent("b", { retryAfter: "9s" })]), 9_000);
    expectDoubt(new AggregateError([refusal(), shaped({ code: "ECONNRESET" })]), "several");
    expectDoubt(new AggregateError([refusal(), shaped({ status: 404 })]), "several");
    expectDoubt(new AggregateError([]));
    // The first address's code is copied to the whole by Node; it must not speak for the rest.
    expectDoubt(Object.assign(new AggregateError([refusal(), new Error("?")]), { code: "ECONNREFUSED" }));
  });
});

describe("HTTP shapes", () => {
  test.each([400, 401, 402, 403, 404, 405, 410, 412, 413, 422, 428, 451])("O4 HTTP %i is refused", (status) => {
    expectRefused(shaped({ status }));
  });

  test.each([408, 409, 423, 425, 499, 500, 501, 502, 503, 504, 520, 599, 200, 202, 302])(
    "F23 O5 HTTP %i is doubt",
    (status) => {
      expectDoubt(shaped({ status }), `^HTTP ${status}$`);
    },
  );

  test.each([
    ["Octokit, ofetch", { status: 404 }],
    ["got, undici", { statusCode: 404 }],
    ["axios, ky", { response: { status: 404 } }],
    ["got", { response: { statusCode: 404 } }],
    ["AWS SDK v3", { $metadata: { httpStatusCode: 404, attempts: 1 } }],
    ["gaxios", { code: 404 }],
    ["gaxios, digits", { code: "404" }],
    ["Stripe", { type: "StripeCardError", statusCode: 402, code: "card_declined", raw: {} }],
    ["axios", { name: "AxiosError", code: "ERR_BAD_REQUEST", response: { status: 422, headers: {} } }],
  ])("O4 %s: a 4xx is found and refused", (_client, fields) => {
    expectRefused(shaped(fields));
  });

  test.each<[string, object, number | null]>([
    ["no header", { status: 429 }, null],
    ["plain headers", { status: 429, headers: { "retry-after": "30" } }, 30_000],
    ["any case", { response: { status: 429, headers: { "Retry-After": "1.5" } } }, 1_500],
    ["a list", { statusCode: 429, headers: { "retry-after": ["2", "9"] } }, 2_000],
    ["fetch Headers", { status: 429, headers: new Headers({ "Retry-After": HTTP_DATE_IN_90S }) }, 90_000],
    ["a date gone by", { status: 429, headers: { "retry-after": "Fri, 20 Nov 2020 10:00:00 GMT" } }, 0],
    ["milliseconds win", { status: 429, headers: { "retry-after-ms": "250", "retry-after": "1" } }, 250],
    ["a number", { status: 429, headers: { "retry-after": 3 } }, 3_000],
    ["nonsense", { status: 429, headers: { "retry-after": "-5" } }, null],
    ["no sane wait", { status: 429, headers: { "retry-after": "9".repeat(30) } }, null],
    ["a bad date", { status: 429, headers: { "retry-after": "Fri, 99 Nov" } }, null],
    ["AI SDK", { statusCode: 429, responseHeaders: { "retry-after": "4" } }, 4_000],
    ["AWS response", { $metadata: { httpStatusCode: 429 }, $response: { headers: { "retry-after": "5" } } }, 5_000],
    ["AWS member", { $metadata: { httpStatusCode: 429 }, retryAfterSeconds: "6" }, 6_000],
    ["Stripe raw", { statusCode: 429, raw: { headers: { "retry-after": "8" } } }, 8_000],
    ["GitHub secondary limit", { status: 403, response: { headers: { "retry-after": "60" } } }, 60_000],
  ])("O4 429 is surely not sent (%s)", (_case, fields, expected) => {
    expectNotSent(shaped(fields), expected);
  });

  test.each([
    { name: "ThrottlingException", $metadata: { httpStatusCode: 400, attempts: 1 } },
    { name: "TooManyRequestsException", $metadata: { httpStatusCode: 400 } },
    { name: "ProvisionedThroughputExceededException", $metadata: { httpStatusCode: 400 } },
    { name: "Whatever", $metadata: { httpStatusCode: 400 }, $retryable: { throttling: true } },
    { code: "Throttling", statusCode: 400 },
    { name: "ThrottlingException" },
  ])("O4 AWS throttling is surely not sent, also as HTTP 400: $name $code", (fields) => {
    expectNotSent(shaped(fields));
  });

  test.each([
    { name: "SlowDown", $metadata: { httpStatusCode: 503 } },
    { name: "RequestTimeout", $metadata: { httpStatusCode: 400 } },
    { name: "TransactionInProgressException", $metadata: { httpStatusCode: 400 } },
    { name: "IdempotentParameterMismatchException", $metadata: { httpStatusCode: 400 } },
    { type: "StripeIdempotencyError", rawType: "idempotency_error", statusCode: 400 },
    { type: "StripeAPIError", statusCode: 500, headers: { "idempotent-replayed": "true" } },
    { code: "idempotency_key_in_use", statusCode: 409 },
  ])("F23 what speaks of an earlier request is doubt: $name $type $code", (fields) => {
    expectDoubt(shaped(fields), /^HTTP \d{3}/);
  });

  test.each([
    ["AWS SDK v3", { name: "ThrottlingException", $metadata: { httpStatusCode: 400, attempts: 3 } }],
    ["AWS SDK v3", { code: "ECONNREFUSED", syscall: "connect", $metadata: { attempts: 2 } }],
    ["got", { code: "ECONNREFUSED", request: { retryCount: 1 } }],
    ["Octokit", { status: 404, request: { request: { retryCount: 2 } } }],
    ["axios-retry", { code: "ECONNREFUSED", config: { "axios-retry": { retryCount: 1 } } }],
    ["gaxios", { code: 404, config: { retryConfig: { currentRetryAttempt: 1 } } }],
    ["undici RetryAgent", { code: "UND_ERR_REQ_RETRY", statusCode: 404 }],
  ])("O5 %s had retried by itself: its last answer does not speak for the first try", (_client, fields) => {
    expectDoubt(shaped(fields), "tried before");
  });

  test.each([
    ["got", { response: { statusCode: 404 }, request: { redirectUrls: ["http://x/"] } }],
    ["axios", { code: "ECONNREFUSED", request: { _redirectCount: 1 } }],
    ["axios", { response: { status: 404 }, request: { _redirectable: { _redirectCount: 1 } } }],
    ["ky", { response: { status: 404, redirected: true } }],
  ])("O5 %s had followed a redirect: doubt", (_client, fields) => {
    expectDoubt(shaped(fields), "redirect");
  });
});

describe("gRPC", () => {
  const grpc = (code: number, details = "no") => shaped({ code, details, metadata: {} });

  test.each([3, 5, 7, 9, 11, 12, 16])("O4 status %i is refused", (code) => expectRefused(grpc(code)));
  test.each([0, 1, 2, 4, 6, 10, 13, 14, 15])("F21 status %i is doubt", (code) => expectDoubt(grpc(code), "gRPC"));
  test("O4 RESOURCE_EXHAUSTED is surely not sent", () => expectNotSent(grpc(8)));

  test("O5 an answer too large to take in is doubt: the call did run", () => {
    expectDoubt(grpc(8, "Received message larger than max (5000000 vs 4194304)"), "gRPC status 8");
  });

  test("F21 a small numeric code without details is no gRPC status", () => {
    expectDoubt(shaped({ code: 5 }), "nobody classified");
    expectDoubt(new DOMException("gone", "NotFoundError"), "nobody classified");
  });
});

// ---- SMTP, against a real server -----------------------------------------------------------------------------------

async function smtpListen(server: SMTPServer): Promise<number> {
  server.on("error", () => {});
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  cleanups.push(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return (server.server.address() as AddressInfo).port;
}

function smtpServer(options: SMTPServerOptions): Promise<number> {
  return smtpListen(new SMTPServer({ authOptional: true, disabledCommands: ["STARTTLS"], logger: false, ...options }));
}

const mail = { from: "a@example.com", to: "b@example.com", subject: "s", text: "t" };

function mailError(port: number, options: object = {}): Promise<unknown> {
  return thrownBy(() => createTransport({ host: "127.0.0.1", port, ...options }).sendMail(mail));
}

const reply = (responseCode: number) => Object.assign(new Error("no"), { responseCode });

/** A scripted server for what a well-behaved one never does. `after` is called once the message has arrived. */
function rawSmtp(greeting: string, after: (socket: net.Socket) => void): Promise<number> {
  const server = net.createServer((socket) => {
    let seen = "";
    socket.on("error", () => {});
    socket.write(`${greeting}\r\n`);
    socket.on("data", (chunk) => {
      seen += chunk;
      if (/^(EHLO|MAIL|RCPT)/i.test(String(chunk))) socket.write("250 ok\r\n");
      else if (/^DATA/i.test(String(chunk))) socket.write("354 go\r\n");
      else if (seen.endsWith("\r\n.\r\n")) after(socket);
    });
    cleanups.push(() => socket.destroy());
  });
  return listen(server);
}

describe("SMTP", () => {
  test("O4 RCPT refused with 550 is refused", async () => {
    const error = await mailError(await smtpServer({ onRcptTo: (_to, _session, done) => done(reply(550)) }));
    expect(error).toMatchObject({ code: "EENVELOPE", command: "RCPT TO", responseCode: 550 });
    expectRefused(error);
  });

  test("O4 greylisting (RCPT 451) is surely not sent", async () => {
    const error = await mailError(await smtpServer({ onRcptTo: (_to, _session, done) => done(reply(451)) }));
    expectNotSent(error);
  });

  test("O4 MAIL FROM refused with 421 is surely not sent", async () => {
    expectNotSent(await mailError(await smtpServer({ onMailFrom: (_from, _session, done) => done(reply(421)) })));
  });

  test.each([
    [552, "refused"],
    [451, "not-sent"],
  ])("O4 an explicit %i to the message is %s", async (code, kind) => {
    const port = await smtpServer({
      onData: (stream, _session, done) => void stream.resume().once("end", () => done(reply(code))),
    });
    const error = await mailError(port);
    expect(error).toMatchObject({ code: "EMESSAGE", command: "DATA", responseCode: code });
    expect(kindOf(error)).toBe(kind);
  });

  test("O4 a login refused with 535 is refused", async () => {
    const port = await smtpServer({ authOptional: false, onAuth: (_auth, _session, done) => done(reply(535)) });
    const error = await mailError(port, { auth: { user: "u", pass: "p" } });
    expect(error).toMatchObject({ code: "EAUTH" });
    expectRefused(error);
  });

  test("F21 O5 the message was taken and the connection dropped before the 250: doubt", async () => {
    let accepted = 0;
    const server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS"],
      logger: false,
      onData: (stream) =>
        void stream.resume().once("end", () => {
          accepted += 1;
          for (const connection of sockets) connection.destroy();
        }),
    });
    const sockets: net.Socket[] = [];
    server.server.on("connection", (socket: net.Socket) => sockets.push(socket));
    const error = await mailError(await smtpListen(server));
    expect(accepted).toBe(1);
    // The same code and command as a connection that never came to a greeting.
    expect(error).toMatchObject({ code: "ECONNECTION", command: "CONN" });
    expectDoubt(error, "connection closed");
  });

  test("F21 O5 a reset after the message is doubt", async () => {
    const error = await mailError(await rawSmtp("220 hi", (socket) => socket.resetAndDestroy()));
    expectDoubt(error, "connection");
  });

  test("F21 O5 silence after the message is doubt, although the timeout is named like one at connecting", async () => {
    const error = await mailError(await rawSmtp("220 hi", () => {}), { socketTimeout: 100 });
    expect(error).toMatchObject({ code: "ETIMEDOUT", command: "CONN" });
    expectDoubt(error, "timed out");
  });

  test("F21 O5 421 after the message is doubt: it speaks of the connection", async () => {
    expectDoubt(await mailError(await rawSmtp("220 hi", (socket) => socket.end("421 bye\r\n"))), "hung up");
  });

  test("F21 O5 an unfinished 5xx line after the message is doubt, although it has a responseCode", async () => {
    const error = await mailError(await rawSmtp("220 hi", (socket) => socket.end("554 no")));
    expect(error).toMatchObject({ command: "CONN", responseCode: 554 });
    expectDoubt(error, "connection closed");
  });

  test("F22 a closed port was surely not sent", async () => {
    const error = await mailError(await closedPort());
    expect(error).toMatchObject({ code: "ESOCKET", command: "CONN" });
    expectNotSent(error);
  });

  test("F22 a host that does not resolve was surely not sent", async () => {
    const error = await thrownBy(() => createTransport({ host: "nothing.invalid", port: 25 }).sendMail(mail));
    expectNotSent(error);
  });

  test("F22 a certificate we do not trust was surely not sent", async () => {
    const port = await smtpServer({ secure: true });
    expectNotSent(await mailError(port, { secure: true }));
  });

  test("F22 a busy greeting (421) and a late greeting were surely not sent; 554 is refused", async () => {
    expectNotSent(await mailError(await rawSmtp("421 too many connections", () => {})));
    expectRefused(await mailError(await rawSmtp("554 no service", () => {})));
    const silent = await listen(net.createServer((socket) => void cleanups.push(() => socket.destroy())));
    expectNotSent(await mailError(silent, { greetingTimeout: 50 }));
  });

  test("O4 no recipients: refused before a connection is of use", async () => {
    const port = await smtpServer({});
    expectRefused(await thrownBy(() => createTransport({ host: "127.0.0.1", port }).sendMail({ ...mail, to: [] })));
  });

  test("O5 an attachment that could not be fetched while the mail was under way is doubt", () => {
    expectDoubt(shaped({ code: "ESTREAM", originalCode: "ECONNREFUSED", syscall: "connect", command: "API" }), "broke");
  });
});

describe("everything else is doubt", () => {
  test.each<[unknown, string]>([
    [new TypeError("secret@example.com is not a function"), "an error nobody classified (TypeError)"],
    ["secret", "an error nobody classified (string)"],
    [undefined, "an error nobody classified (undefined)"],
    [null, "an error nobody classified (null)"],
    [42, "an error nobody classified (number)"],
    [{ oops: "secret" }, "an error nobody classified (Object)"],
    [shaped({ name: "secret@example.com" }), "an error nobody classified (Error)"],
  ])("O5 %o", (error, why) => {
    expect(verdictOf(error)).toEqual({ kind: "doubt", why });
  });

  test("O5 an error of nevertwice inside is doubt: its cause may be the ledger's connection, not the effect's", () => {
    const inner = new NevertwiceError("STORE_UNAVAILABLE", "down", { cause: shaped({ code: "ECONNREFUSED" }) });
    expectDoubt(inner, "STORE_UNAVAILABLE");
    expectDoubt(new Error("outer", { cause: inner }), "STORE_UNAVAILABLE");
  });

  test("O5 getters that throw and hostile proxies do not crash it", () => {
    const fields = ["code", "status", "name", "cause", "response", "headers", "errors", "constructor"];
    const error = new Error("x");
    for (const field of fields) {
      Object.defineProperty(error, field, {
        get: () => {
          throw new Error("trap");
        },
      });
    }
    expectDoubt(error);
    const trap = () => {
      throw new Error("trap");
    };
    expectDoubt(new Proxy({}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap }));
    expectDoubt(Object.assign(new Error("x"), { status: 500, headers: new Proxy({}, { get: trap, ownKeys: trap }) }));
    expectNotSent(shaped({ status: 429, headers: new Proxy({}, { get: trap, ownKeys: trap }) }));
  });

  test("a name that is a secret is not shown", () => {
    expectDoubt(shaped({ name: "ghp_16C7e42F292c6912E7710c838347Ae178B4a" }), /nobody classified \(Error\)/);
  });

  test("O5 circular, endless and huge chains end in doubt", () => {
    const circle = new Error("a");
    circle.cause = new Error("b", { cause: circle });
    expectDoubt(circle);

    const endless = (): Error => Object.defineProperty(new Error("x"), "cause", { get: endless }) as Error;
    expectDoubt(endless());

    let deep: Error = shaped({ code: "ECONNREFUSED" });
    for (let i = 0; i < 100_000; i += 1) deep = new Error("x", { cause: deep });
    expectDoubt(deep);

    const wide = (depth: number): Error =>
      depth === 0
        ? shaped({ code: "ECONNREFUSED" })
        : new AggregateError(Array.from({ length: 20 }, () => wide(depth - 1)));
    expectDoubt(wide(3), "several");
    expectDoubt(new AggregateError(Array.from({ length: 100_000 }, () => circle)), "several");
  });
});
