/**
 * The proxy's default through real processes: a session of calls that are meant runs as without the proxy, and a call whose answer
 * was lost has one effect. The official client, and a server whose effects are counted.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { bridged, connect, connectHttp, folder, httpProxyOf, proxied, said, started } from "./lib/mcp.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const STATE_SERVER = here("./lib/state-server.mjs");
const ONE_CALL = here("./lib/one-call.mjs");

const toggle = { name: "toggle", arguments: { lamp: "hall" } };

/** A server's folder: its effects, and what it is told to do. */
function place() {
  const path = folder();
  const file = (name: string) => join(path, name);
  return {
    path,
    effects: () =>
      existsSync(file("effects.log")) ? readFileSync(file("effects.log"), "utf8").trimEnd().split("\n") : [],
    hold: () => writeFileSync(file("hold"), ""),
    release: () => rmSync(file("hold"), { force: true }),
    die: () => writeFileSync(file("die"), ""),
    happened: (times: number) =>
      expect
        .poll(
          () =>
            existsSync(file("effects.log")) ? readFileSync(file("effects.log"), "utf8").split("\n").length - 1 : 0,
          {
            timeout: 20_000,
          },
        )
        .toBe(times),
  };
}

type Place = ReturnType<typeof place>;

const onStdio = ({ path }: Place, config?: object, flags: readonly string[] = []) =>
  proxied(path, [STATE_SERVER, "stdio", path], config, flags);

async function serverOnHttp({ path }: Place) {
  const { child, found } = await started([STATE_SERVER, "http", path], {}, "stdout", /^(\d+)$/);
  return { child, url: `http://127.0.0.1:${found}/mcp` };
}

/** Calls that are meant, each of them. */
async function session(client: Client): Promise<string[]> {
  const answers: string[] = [];
  const call = async (name: string, args: object = {}) =>
    void answers.push(said(await client.callTool({ name, arguments: { ...args } })));
  for (const content of ["v1", "v2", "v1"]) await call("write", { path: "a", content });
  for (let i = 0; i < 3; i += 1) await call("toggle", { lamp: "hall" });
  for (let i = 0; i < 3; i += 1) await call("next_task");
  for (let i = 0; i < 2; i += 1) await call("fail");
  await call("read");
  return answers;
}

describe("calls that are meant", () => {
  it.each(["stdio", "http", "a server on HTTP for a client on stdio"])(
    "write v1, v2, v1; on, off, on; the next task thrice: the same answers and effects as without the proxy, over %s",
    async (over) => {
      const [bare, guarded] = [place(), place()];
      const without = await session((await connect([STATE_SERVER, "stdio", bare.path])).client);
      const { client } =
        over === "stdio"
          ? await connect(onStdio(guarded))
          : over === "http"
            ? await connectHttp((await httpProxyOf((await serverOnHttp(guarded)).url, guarded.path)).url)
            : await connect(bridged(guarded.path, (await serverOnHttp(guarded)).url));
      expect(await session(client)).toEqual(without);
      expect(guarded.effects()).toEqual(bare.effects());
      expect(without.at(-1)).toBe('{"a":"v1","hall":"on","task":3}');
    },
  );

  it("the same call after an orderly end, by a client that is started again", async () => {
    const at = place();
    const first = await connect(onStdio(at));
    expect(said(await first.client.callTool(toggle))).toBe("on");
    await first.close();
    const second = await connect(onStdio(at));
    expect(said(await second.client.callTool(toggle))).toBe("off");
  });

  it("the same call in another session of one caller over HTTP", async () => {
    const at = place();
    const { url } = await httpProxyOf((await serverOnHttp(at)).url, at.path);
    for (const answer of ["on", "off"]) {
      const { client } = await connectHttp(url);
      expect(said(await client.callTool(toggle))).toBe(answer);
      await client.close();
    }
  });
});

/** The client in a process of its own. */
async function oneCall(to: object): Promise<ChildProcess> {
  const child = spawn(process.execPath, [ONE_CALL, JSON.stringify(to), JSON.stringify(toggle)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream }))
    if (line === "connected") break;
  return child;
}

describe("answers that were lost on stdio: one effect", () => {
  it("the client is killed while the call runs", async () => {
    const at = place();
    at.hold();
    const client = await oneCall({ argv: onStdio(at) });
    await at.happened(1);
    client.kill("SIGKILL");
    at.release();
    const next = await connect(onStdio(at));
    await expect
      .poll(async () => said(await next.client.callTool(toggle)), { timeout: 20_000 })
      .toMatch(/^Already done at .*\non$/s);
    expect(at.effects()).toHaveLength(1);
    expect(said(await next.client.callTool(toggle))).toBe("off");
  });

  it("the client is stopped, the answer is written, the client is killed before it reads", async () => {
    const at = place();
    at.hold();
    const client = await oneCall({ argv: onStdio(at) });
    await at.happened(1);
    client.kill("SIGSTOP");
    at.release();
    // Until the ledger knows the answer, which is then written at once.
    const { nevertwice } = await import("../../src/index.ts");
    const nt = nevertwice({ store: `sqlite:${join(at.path, "ledger.db")}`, sweep: false });
    onTestFinished(() => nt.close());
    const states = async () => (await nt.store.list({ limit: 10 })).items.map(({ record }) => record.state);
    await expect.poll(states, { timeout: 20_000 }).toContain("confirmed");
    client.kill("SIGKILL");
    const next = await connect(onStdio(at));
    expect(said(await next.client.callTool(toggle))).toMatch(/^Already done at .*\non$/s);
    expect(at.effects()).toHaveLength(1);
  });

  it("the client times out and says so; a repeat hears that nobody knows", async () => {
    const at = place();
    const { client } = await connect(onStdio(at));
    await client.listTools();
    at.hold();
    const call = client.callTool(toggle, undefined, { timeout: 2_000 }).catch((error: Error) => error);
    await at.happened(1);
    expect(await call).toBeInstanceOf(Error);
    expect(said(await client.callTool(toggle))).toMatch(/It may have happened all the same/);
    expect(at.effects()).toHaveLength(1);
    at.release();
  });

  it("the client times out, and the call is to finish: the repeat gets its answer, and the next one is a new call", async () => {
    const at = place();
    const { client } = await connect(onStdio(at, undefined, ["--on-timeout", "finish"]));
    await client.listTools();
    at.hold();
    const call = client.callTool(toggle, undefined, { timeout: 2_000 }).catch((error: Error) => error);
    await at.happened(1);
    expect(await call).toBeInstanceOf(Error);
    at.release();
    expect(said(await client.callTool(toggle))).toMatch(/^Already done at .*\non$/s);
    expect(at.effects()).toHaveLength(1);
    expect(said(await client.callTool(toggle))).toBe("off");
  });

  it("the client gives up without a word and calls again: the second call joins the first", async () => {
    const at = place();
    const { send, answer } = rawClient(onStdio(at));
    at.hold();
    send({ id: 1, method: "tools/call", params: toggle });
    await at.happened(1);
    send({ id: 2, method: "tools/call", params: toggle });
    send({ id: 3, method: "ping" });
    await answer(3);
    at.release();
    expect(said((await answer(2)).result)).toMatch(/^Already done at .*\non$/s);
    expect(at.effects()).toHaveLength(1);
    send({ id: 4, method: "tools/call", params: toggle });
    expect(said((await answer(4)).result)).toBe("off");
  });

  it("the proxy is killed while the call runs, and started again", async () => {
    const at = place();
    // Without a config its lease is a minute: a repeat hears until then that it is in progress.
    const config = { tools: { toggle: { guard: "undelivered", lease: "2s", timeout: "1500ms", wait: "20s" } } };
    at.hold();
    const first = await connect(onStdio(at, config));
    const lost = first.client.callTool(toggle).catch((error: Error) => error);
    await at.happened(1);
    process.kill(first.pid, "SIGKILL");
    expect(await lost).toBeInstanceOf(Error);
    at.release();
    const next = await connect(onStdio(at, config));
    expect(said(await next.client.callTool(toggle))).toMatch(/It may have happened all the same/);
    expect(at.effects()).toHaveLength(1);
  });

  it("the proxy is killed after the answer, before the client gave a sign: the answer is given again", async () => {
    const at = place();
    const first = await connect(onStdio(at));
    expect(said(await first.client.callTool(toggle))).toBe("on");
    process.kill(first.pid, "SIGKILL");
    const next = await connect(onStdio(at));
    expect(said(await next.client.callTool(toggle))).toMatch(/^Already done at .*\non$/s);
    expect(said(await next.client.callTool(toggle))).toBe("off");
  });

  it("the server is killed after its effect: held for the window, then the next call is made", async () => {
    const at = place();
    at.die();
    const flags = ["--window", "12s"];
    const first = await connect(onStdio(at, undefined, flags));
    await first.client.callTool(toggle).catch((error: Error) => error);
    await at.happened(1);
    const next = await connect(onStdio(at, undefined, flags));
    expect(said(await next.client.callTool(toggle))).toMatch(/It may have happened all the same/);
    expect(at.effects()).toHaveLength(1);
    await expect
      .poll(async () => said(await next.client.callTool(toggle)), { timeout: 30_000, interval: 500 })
      .toBe("off");
  });
});

/** Lines, as no SDK sends them. */
function rawClient(argv: readonly string[]) {
  const child = spawn(process.execPath, argv, { stdio: ["pipe", "pipe", "ignore"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const got = new Map<number, { result: unknown }>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.id !== undefined) got.set(message.id, message);
  });
  const send = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
  send({ id: 0, method: "initialize", params });
  send({ method: "notifications/initialized" });
  const answer = async (id: number) => {
    await expect.poll(() => got.has(id), { timeout: 20_000 }).toBe(true);
    return got.get(id) as { result: unknown };
  };
  return { send, answer };
}

describe("answers that were lost over HTTP: one effect", () => {
  it("the client is killed while the call runs, and a new session calls again", async () => {
    const at = place();
    const { url } = await httpProxyOf((await serverOnHttp(at)).url, at.path);
    at.hold();
    const client = await oneCall({ url });
    await at.happened(1);
    client.kill("SIGKILL");
    await new Promise((gone) => client.once("exit", gone));
    at.release();
    const next = await connectHttp(url);
    expect(said(await next.client.callTool(toggle))).toMatch(/^Already done at .*\non$/s);
    expect(at.effects()).toHaveLength(1);
    expect(said(await next.client.callTool(toggle))).toBe("off");
  });

  it("its connection is closed before the response was finished", async () => {
    const at = place();
    const server = await serverOnHttp(at);
    const { url } = await httpProxyOf(server.url, at.path);
    const { transport } = await connectHttp(url);
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": transport.sessionId,
    };
    at.hold();
    const sent = httpRequest(url, { method: "POST", headers });
    sent.on("error", () => {});
    sent.end(JSON.stringify({ jsonrpc: "2.0", id: 77, method: "tools/call", params: toggle }));
    await at.happened(1);
    sent.destroy();
    at.release();
    const next = await connectHttp(url);
    expect(said(await next.client.callTool(toggle))).toMatch(/^Already done at .*\non$/s);
    expect(at.effects()).toHaveLength(1);
  });

  it.each(["http", "stdio"])("the server is killed after its effect, for a client on %s", async (over) => {
    const at = place();
    const server = await serverOnHttp(at);
    const { client } =
      over === "http"
        ? await connectHttp((await httpProxyOf(server.url, at.path)).url)
        : await connect(bridged(at.path, server.url));
    at.die();
    const first = await client.callTool(toggle).catch((error: Error) => error);
    await at.happened(1);
    expect(first instanceof Error || said(first)).toSatisfy(
      (what) => what === true || /It may have happened all the same/.test(String(what)),
    );
    expect(said(await client.callTool(toggle))).toMatch(/It may have happened all the same/);
    expect(at.effects()).toHaveLength(1);
  });
});
