/** The service over real HTTP: who is let in, what is refused and with which words, and how it ends. */
import { statSync, writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openMemory, openSqlite, temporaryFolder } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Answer, HEADERS, posted, type Served, served, TOKEN } from "../../test/support/served.ts";

const LEAD = { action: "send", parts: ["lead-7"] };

function start(options: Parameters<typeof served>[1] = {}): Promise<Served & { bench: ReturnType<typeof openMemory> }> {
  const bench = openMemory();
  return served(bench.store, options).then((service) => ({ ...service, bench }));
}

describe("bad input is refused with what to do, and changes nothing", () => {
  const key = `nt1_${"0".repeat(52)}`;
  const CASES: readonly (readonly [string, unknown, RegExp])[] = [
    ["claim", {}, /claim: action is missing \(the name of the action/],
    ["claim", { action: "send" }, /claim: parts is missing \(what makes it this intent/],
    [
      "claim",
      { action: " ", parts: [1] },
      /claim: action takes a text of 1 to 200 characters that is not blank; got " "/,
    ],
    ["claim", { action: 7, parts: [1] }, /claim: action takes a text/],
    ["claim", { action: "a\u0000b", parts: [1] }, /claim: action: .*leave that character out/],
    ["claim", { action: "send", parts: "lead" }, /claim: parts takes a list of 1 to 64; got "lead"/],
    ["claim", { action: "send", parts: [] }, /claim: parts takes a list of 1 to 64; got a list of 0/],
    ["claim", { action: "send", parts: [""] }, /the part is an empty string.*Give it a value/],
    ["claim", { action: "send", parts: [null] }, /Give it a value/],
    ["claim", { ...LEAD, leas: "1s" }, /claim: there is no field "leas"\. The fields are: action, parts/],
    ["claim", { ...LEAD, lease: "soon" }, /claim: lease: "soon" is not a duration\. Write a number/],
    ["claim", { ...LEAD, lease: "1ms" }, /the shortest that heartbeats can keep/],
    ["claim", { ...LEAD, keep: 0 }, /keep is 0, so nothing would be guarded/],
    ["claim", { ...LEAD, wait: "1h" }, /claim: wait is longer than 5m/],
    ["claim", { ...LEAD, version: 0 }, /claim: version takes a whole number from 1/],
    ["claim", { ...LEAD, scope: "" }, /claim: scope takes a text/],
    ["claim", { ...LEAD, doubt: "maybe" }, /claim: doubt takes "hold", "retry"; got "maybe"/],
    ["claim", { ...LEAD, doubt: { probe: 1 } }, /claim: doubt: there is no field "probe"/],
    ["claim", { ...LEAD, retry: { attempts: 0 } }, /claim: retry: attempts takes a whole number from 1/],
    ["claim", { ...LEAD, retry: { tries: 3 } }, /claim: retry: there is no field "tries"/],
    ["claim", { ...LEAD, mark: "never" }, /claim: mark takes "auto", "manual"/],
    ["claim", { ...LEAD, free: "body" }, /claim: free takes a list/],
    ["claim", { ...LEAD, request: "x".repeat(300) }, /claim: request takes a text of 1 to 200/],
    ["claim", [], /claim takes an object; got a list of 0/],
    ["claim", "null", /claim takes an object; got null/],
    [
      "claim",
      '{"action":"send","parts":[12345678901234567890]}',
      /12345678901234567890 cannot be held exactly.*as text/,
    ],
    ["claim", '{"action":"a","action":"b","parts":[1]}', /the body cannot be read: it has two members named "action"/],
    ["claim", '{"action":', /the body cannot be read: it is not JSON\. Send one JSON object/],
    ["claim", `${"[".repeat(300)}${"]".repeat(300)}`, /nested more than/],
    ["settle", { as: "done" }, /settle: token is missing/],
    ["settle", { token: "nta1_x", as: "done" }, /the token names no attempt\. Hand back the token/],
    ["settle", { token: "nta1_x", as: "ok" }, /settle: as takes "done", "not-sent"/],
    ["settle", { token: "nta1_x", as: "not-sent", result: 1 }, /result goes with as: "done"/],
    ["settle", { token: "nta1_x", as: "done", error: { message: "x" } }, /error does not go with as: "done"/],
    ["settle", { token: "nta1_x", as: "refused", retryAfter: "1s" }, /retryAfter goes with as: "not-sent"/],
    ["claim", { action: "run:x", parts: [1] }, /names that begin with "run:" are the ledger's own/],
    ["claim", { action: "nevertwice.line", parts: [1] }, /are the ledger's own/],
    ["enqueue", { action: "job:x", parts: [1], input: 1 }, /are the ledger's own.*Nothing was changed/],
    ["heartbeat", {}, /heartbeat: token is missing/],
    ["sent", { token: 7 }, /sent: token takes a text/],
    ["enqueue", { ...LEAD }, /enqueue: input is missing \(what the worker gets; null where/],
    ["enqueue", { ...LEAD, input: 1, runAt: "tomorrow" }, /enqueue: runAt takes an instant, as ISO 8601 with its zone/],
    ["enqueue", { ...LEAD, input: 1, runAt: "2026-01-15T09:00:00" }, /enqueue: runAt takes an instant/],
    ["enqueue", { ...LEAD, input: 1, runAt: 1, delay: "1s" }, /dueAt and delay say the same thing twice/],
    ["enqueue", { ...LEAD, input: 1, priority: 10 }, /enqueue: priority takes a whole number from 0 to 9/],
    ["enqueue", { ...LEAD, input: "x".repeat(300_000) }, /the input cannot be stored: it is larger than/],
    ["take", { actions: [] }, /take: actions takes a list of 1 to 64/],
    ["take", { actions: "mail" }, /take: actions takes a list/],
    ["take", { actions: ["mail"], limit: 0 }, /take: limit takes a whole number from 1 to 100/],
    ["status", {}, /status: give action and parts, or key; one of them/],
    ["status", { ...LEAD, key }, /status: give action and parts, or key; one of them/],
    ["status", { key: "nt1_abc" }, /status: key takes a whole key/],
    ["resolve", { key, as: "done", by: "ada" }, /resolve: reason is missing/],
    ["resolve", { key, as: "sent", by: "ada", reason: "x" }, /resolve: as takes "done", "not-done", "failed"/],
    ["resolve", { key, as: "done", by: "ada", reason: "x" }, /there is no record with the key/],
  ];

  it("D7: over HTTP, each with 400 and a code", async () => {
    const { post, bench } = await start();
    for (const [name, body, words] of CASES) {
      const { status, body: answer } = await post(name, body);
      const shown = `${name} ${JSON.stringify(body).slice(0, 80)}`;
      expect(answer.error?.message, shown).toMatch(words);
      expect(status, shown).toBe(400);
      expect(answer.error.code, shown).toMatch(/^(INVALID_INPUT|INVALID_KEY|CONFIG)$/);
    }
    expect((await bench.store.list({ limit: 10 })).items).toEqual([]);
  });
});

it("D7 G2: a late success of an input that was corrected since never confirms the corrected one", async () => {
  const { ok } = await start();
  const claim = (n: number) => ok("claim", { ...LEAD, input: n });
  const first = await claim(1);
  await ok("settle", { token: first.token, as: "unknown" });
  await ok("resolve", { key: first.key, as: "not-done", by: "ada", reason: "looked too early" });
  const second = await claim(2);
  expect(await ok("settle", { token: first.token, as: "done", result: "of 1" })).toMatchObject({
    status: "in_flight",
    warning: expect.stringMatching(/before its correction/),
  });
  expect(await ok("heartbeat", { token: second.token })).toEqual({ leaseMs: 60_000 });
  const done = { status: "done", result: "of 2" };
  expect(await ok("settle", { token: second.token, as: "done", result: "of 2" })).toMatchObject(done);
  expect(await claim(2)).toMatchObject({ ...done, replayed: true });
});

describe("the door", () => {
  it("D7: without the token, or with another, nobody comes in; health needs none", async () => {
    const { raw } = await start();
    const headers = (authorization: string) => ({ authorization, "content-type": "application/json" });
    for (const authorization of ["", "Bearer", "Bearer x", `Bearer ${TOKEN}x`, `Basic ${TOKEN}`, TOKEN]) {
      const answer = await raw("/v1/claim", {
        method: "POST",
        headers: headers(authorization),
        body: JSON.stringify(LEAD),
      });
      expect(answer.status).toBe(401);
      expect(answer.body.error).toMatchObject({
        code: "UNAUTHORIZED",
        message: expect.stringContaining("Bearer <token>"),
      });
    }
    expect((await raw("/v1/openapi.json", {})).status).toBe(401);
    expect(await raw("/v1/health", {})).toMatchObject({ status: 200, body: { status: "ok" } });
  });

  it("D7: a host name that is not this service's, and every web page, is turned away, token or not", async () => {
    const { url } = await start({ allowHosts: ["agents.internal"] });
    const ask = (headers: Record<string, string>) => rawStatus(url, { authorization: `Bearer ${TOKEN}`, ...headers });
    for (const host of ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
      expect(await ask({ host }), host).toBe(403);
    for (const host of ["localhost", "LOCALHOST:1", "127.0.0.1:7433", "[::1]:80", "agents.internal"])
      expect(await ask({ host }), host).toBe(200);
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1"])
      expect(await ask({ origin }), origin).toBe(403);
  });

  it("D7: only JSON, only POST, only known paths, no query, and no more than fits", async () => {
    const { raw, url } = await start({ limits: { bytes: 1_000 } });
    const ok = posted(LEAD);
    const form = { ...ok, headers: { ...HEADERS, "content-type": "text/plain" } };
    expect(await raw("/v1/claim", form)).toMatchObject({ status: 415, body: { error: { code: "UNSUPPORTED" } } });
    const packed = { ...ok, headers: { ...HEADERS, "content-encoding": "gzip" } };
    expect((await raw("/v1/claim", packed)).status).toBe(415);
    expect(await raw("/v1/claim", { headers: HEADERS })).toMatchObject({
      status: 405,
      body: { error: { message: "this path takes POST." } },
    });
    expect((await raw("/v1/health", ok)).status).toBe(405);
    expect(await raw("/v1/clam", ok)).toMatchObject({
      status: 404,
      body: { error: { message: expect.stringContaining("/v1/claim") } },
    });
    expect((await raw("/v1/claim?action=send", ok)).status).toBe(400);
    const large = posted({ ...LEAD, input: "x".repeat(2_000) });
    expect(await raw("/v1/claim", large)).toMatchObject({ status: 413, body: { error: { code: "TOO_LARGE" } } });
    // Without a length, it is noticed as it arrives.
    const chunked = await new Promise<number>((done, failed) => {
      const sending = httpRequest(`${url}/v1/claim`, { method: "POST", headers: HEADERS }, (answer) =>
        done(answer.statusCode ?? 0),
      );
      sending.on("error", failed);
      sending.write("x".repeat(700));
      sending.end("x".repeat(700));
    });
    expect(chunked).toBe(413);
  });

  it("D7: a body that does not arrive is given up, and so is the connection", async () => {
    const { url } = await start({ limits: { ms: 50 } });
    const answer = await new Promise<string>((done) => {
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      let got = "";
      socket.on("data", (chunk) => {
        got += String(chunk);
      });
      socket.on("close", () => done(got));
      const head = ["POST /v1/claim HTTP/1.1", "host: localhost", `authorization: Bearer ${TOKEN}`];
      socket.write([...head, "content-type: application/json", "content-length: 100", "", '{"action"'].join("\r\n"));
    });
    expect(answer).toMatch(/^HTTP\/1\.1 408 [\s\S]*connection: close[\s\S]*"TIMEOUT"/i);
  });

  it("D7: more than so many requests at once are turned away for a moment", async () => {
    const { post, url } = await start({ limits: { requests: 2 } });
    const leave = new AbortController();
    const take = { ...posted({ actions: ["mail"], wait: "60s" }), signal: leave.signal };
    const waiting = [1, 2].map(() => fetch(`${url}/v1/take`, take).catch(() => "left"));
    await until(async () => (await post("status", LEAD)).status === 503, "the service is busy");
    const busy = await post("status", LEAD);
    expect(busy.body.error).toMatchObject({ code: "BUSY", message: expect.stringContaining("ask again") });
    expect(busy.headers.get("retry-after")).toBe("1");
    leave.abort();
    expect(await Promise.all(waiting)).toEqual(["left", "left"]);
    await until(async () => (await post("status", LEAD)).status === 200, "there is room again");
  });
});

describe("what it says of itself", () => {
  it("D7: the OpenAPI document describes the fields that are accepted, and no others", async () => {
    const { raw, post } = await start();
    const { body } = await raw("/v1/openapi.json", { headers: HEADERS });
    expect(body.openapi).toBe("3.1.0");
    const paths = Object.keys(body.paths).filter((path) => body.paths[path].post !== undefined);
    expect(paths.toSorted()).toEqual(
      ["claim", "enqueue", "heartbeat", "resolve", "sent", "settle", "status", "take"].map((name) => `/v1/${name}`),
    );
    for (const path of paths) {
      const { schema } = body.paths[path].post.requestBody.content["application/json"];
      expect(schema.additionalProperties).toBe(false);
      const refused = await post(path.replace("/v1/", ""), { nosuch: 1 });
      expect(refused.body.error.message).toContain(`The fields are: ${Object.keys(schema.properties).join(", ")}`);
    }
    for (const ref of JSON.stringify(body).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g))
      expect(body.components.schemas).toHaveProperty(ref[1] as string);
  });

  it("D7: a result that JavaScript cannot hold exactly does not cost the settlement", async () => {
    const { ok, post } = await start();
    const { token } = await ok("claim", LEAD);
    const settled = await post("settle", `{"token":"${token}","as":"done","result":{"id":12345678901234567890}}`);
    expect(settled.body).toMatchObject({
      status: "done",
      resultOmitted: expect.stringContaining("12345678901234567890 cannot be held exactly"),
    });
  });
});

describe("its ends", () => {
  it.each<[unknown, string]>([
    [{ message: "nul \0, half \ud800" }, "nul \ufffd, half \ufffd"],
    [{ message: "" }, "no message was given"],
    [{ name: "E" }, "E"],
    [{ name: "x".repeat(5_000), code: 5, message: "y", stack: "at …" }, "y"],
    ["a text", "a text"],
    [{}, "no message was given"],
    [7, "7"],
  ])("D7: the error %j does not cost the settlement", async (error, message) => {
    const { ok } = await start();
    const { token } = await ok("claim", LEAD);
    const outcome = await ok("settle", { token, as: "refused", error });
    expect(outcome).toMatchObject({ status: "failed", error: { message } });
    const long = await ok("claim", LEAD);
    const cut = await ok("settle", { token: long.token, as: "refused", error: { message: "x".repeat(600_000) } });
    expect(cut).toMatchObject({ status: "failed" });
  });

  it.each<[unknown, boolean, boolean]>([
    ["120", true, false],
    ["Wed, 21 Oct 2099 07:28:00 GMT", true, false],
    ["2m", true, false],
    [null, false, false],
    [-5, false, true],
    ["soon", false, true],
    [{}, false, true],
    [true, false, true],
  ])("D7: retryAfter %j does not cost the settlement", async (retryAfter, isLong, isWarned) => {
    const { ok } = await start();
    const { token } = await ok("claim", { ...LEAD, retry: { attempts: 3, backoff: "1ms" } });
    const outcome = await ok("settle", { token, as: "not-sent", error: { message: "busy" }, retryAfter });
    expect(outcome.status).toBe("failed");
    expect((outcome.retryAt as number) - Date.now() > 60_000).toBe(isLong);
    expect("warning" in outcome).toBe(isWarned);
  });

  it("D7: a service that ended and was started again settles the attempts of before", async () => {
    const bench = openSqlite();
    const first = await served(bench.store);
    const { token, key } = await first.ok("claim", LEAD);
    await first.close();
    await expect(first.ok("settle", { token, as: "done" })).rejects.toThrow();
    const second = await served(bench.store);
    expect(await second.ok("heartbeat", { token })).toEqual({ leaseMs: 60_000 });
    expect(await second.ok("settle", { token, as: "done", result: "m-1" })).toMatchObject({ status: "done", key });
  });

  it("D7: asked to end, it answers what is under way, ends what waits, and leaves leases alone", async () => {
    const { ok, close, bench } = await start();
    const { key } = await ok("claim", LEAD);
    const waiting: Promise<Answer>[] = [
      ok("take", { actions: ["mail"], wait: "5m" }),
      ok("claim", { ...LEAD, wait: "5m" }),
    ];
    await until(async () => (await ok("status", LEAD)).status === "in_flight");
    await close();
    expect(await Promise.all(waiting)).toMatchObject([{ work: [] }, { status: "in_flight", key }]);
    expect(await bench.record(key)).toMatchObject({ state: "sent" });
  });

  it("D7: a client that goes away while it waits for work takes none of it", async () => {
    const { url, ok, bench } = await start();
    const left = new AbortController();
    const waiting = fetch(`${url}/v1/take`, { ...posted({ actions: ["mail"], wait: "5m" }), signal: left.signal });
    const gone = expect(waiting).rejects.toThrow();
    await ok("status", LEAD);
    left.abort();
    await gone;
    const { key } = await ok("enqueue", { action: "mail", parts: ["a"], input: null });
    await until(
      async () => (await ok("take", { actions: ["mail"] })).work.length === 1,
      "the work is there for others",
    );
    expect(await bench.record(key)).toMatchObject({ state: "sent" });
  });

  it("D7: a ledger that does not answer is told as 503, and the same request works afterwards", async () => {
    const bench = openMemory();
    let down = false;
    const flaky = new Proxy(bench.store, {
      get(target, name) {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function") return value;
        if (name !== "read" && name !== "write") return value.bind(target);
        return async (...args: unknown[]) => {
          if (down) throw new Error("connection refused");
          return (value as (...args: unknown[]) => unknown).apply(target, args);
        };
      },
    });
    const { ok, post } = await served(flaky);
    const { token } = await ok("claim", LEAD);
    down = true;
    const refused = await post("settle", { token, as: "done", result: "m-1" });
    expect(refused).toMatchObject({ status: 503, body: { error: { code: "STORE_UNAVAILABLE" } } });
    down = false;
    await until(async () => (await post("settle", { token, as: "done", result: "m-1" })).status === 200);
    expect(await ok("status", LEAD)).toMatchObject({ status: "done", result: "m-1" });
  });

  it("D7: silent holders become visible by the service's own sweeps (G4)", async () => {
    const { ok, bench } = await start({ sweep: "20ms" });
    const { key } = await ok("claim", LEAD);
    bench.clock.advance(61_000);
    await until(async () => (await bench.record(key)).state === "unknown", "the doubt is visible");
  });
});

describe("a Unix socket", () => {
  it("D7: only its owner reaches it, any host name does, and a left-over one is replaced", async () => {
    const socket = join(temporaryFolder(), "nt.sock");
    const bench = openMemory();
    const service = await served(bench.store, { listen: { socket } });
    expect(service.url).toBe(`unix:${socket}`);
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    const answer = await overSocket(socket, "/v1/claim", LEAD);
    expect(answer).toMatchObject({ status: "claimed" });
    await expect(served(bench.store, { listen: { socket } })).rejects.toThrow(/another service listens there/);
    await service.close();
    const file = join(temporaryFolder(), "file");
    writeFileSync(file, "");
    await expect(served(bench.store, { listen: { socket: file } })).rejects.toThrow(/something else at that path/);
  });
});

function rawStatus(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((done, failed) => {
    const sending = httpRequest(`${url}/v1/openapi.json`, { headers }, (answer) => {
      answer.resume();
      done(answer.statusCode ?? 0);
    });
    sending.on("error", failed);
    sending.end();
  });
}

function overSocket(socketPath: string, path: string, body: unknown): Promise<Answer> {
  return new Promise((done, failed) => {
    const headers = { ...HEADERS, host: "whatever" };
    const sending = httpRequest({ socketPath, path, method: "POST", headers }, async (answer: IncomingMessage) => {
      let text = "";
      for await (const chunk of answer) text += String(chunk);
      done(JSON.parse(text));
    });
    sending.on("error", failed);
    sending.end(JSON.stringify(body));
  });
}
