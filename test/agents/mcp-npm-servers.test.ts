/** Calls in trouble, in front of servers from npm that we did not write. What reaches the server is counted at its door. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import {
  connect,
  connectHttp,
  EVERYTHING,
  folder,
  freePort,
  httpProxyOf,
  MEMORY,
  proxied,
  said,
  started,
} from "./lib/mcp.ts";
import { WAYS } from "./lib/stories.ts";

const COUNTED = fileURLToPath(new URL("./lib/counted.mjs", import.meta.url));

/** Slow, and by its own word read-only: guarded here, as a config may say. */
const SLOW = "trigger-long-running-operation";
const config = { tools: { [SLOW]: { readOnly: false, wait: "30s" } } };
/** A proxy that died is noticed soon. */
const soon = { tools: { [SLOW]: { readOnly: false, lease: "3s", timeout: "2500ms", wait: "30s" } } };
const operation = (duration: number) => ({ name: SLOW, arguments: { duration, steps: 2 } });

function counted(server: readonly string[], guarded: boolean, given: object = config) {
  const place = folder();
  const log = join(place, "calls.log");
  const command = [COUNTED, log, ...server];
  const messages = () => (existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n") : []);
  const having = (method: string) => messages().filter((line) => JSON.parse(line).method === method).length;
  const calls = () => having("tools/call");
  return { argv: guarded ? proxied(place, command, given) : command, calls, having, messages, place };
}

describe("server-everything on stdio", () => {
  it.each([
    { way: "bare", given: null, calls: 2, cancelled: 1, told: /^Long running operation completed/ },
    { way: "guarded", given: config, calls: 1, cancelled: 1, told: /It may have happened all the same/ },
    {
      way: 'guarded with onTimeout: "finish"',
      given: { ...config, onTimeout: "finish" },
      calls: 1,
      cancelled: 0,
      told: /Long running operation completed/,
    },
  ])("F42: the client gives up and calls again, $way", async ({ given, calls, cancelled, told }) => {
    const server = counted([EVERYTHING], given !== null, given ?? {});
    const { client } = await connect(server.argv);
    await expect(client.callTool(operation(1), undefined, { timeout: 200 })).rejects.toThrow(/timed out/);
    expect(said(await client.callTool(operation(1)))).toMatch(told);
    expect([server.calls(), server.having("notifications/cancelled")]).toEqual([calls, cancelled]);
  });

  it("F42: timeouts and cancellations reach the server unchanged: the same messages with and without the proxy", async () => {
    const arrived = [];
    for (const guarded of [false, true]) {
      const server = counted([EVERYTHING], guarded);
      const { client, close } = await connect(server.argv);
      await client.listTools();
      const stop = new AbortController();
      const call = client.callTool(operation(1), undefined, { signal: stop.signal }).catch((error: Error) => error);
      await expect.poll(server.calls, { timeout: 10_000 }).toBe(1);
      stop.abort("the user pressed stop");
      await call;
      await expect(client.callTool(operation(2), undefined, { timeout: 200 })).rejects.toThrow(/timed out/);
      await client.ping();
      await close();
      arrived.push(server.messages());
    }
    expect(arrived[1]).toEqual(arrived[0]);
    expect(arrived[0]?.filter((line) => line.includes("notifications/cancelled"))).toHaveLength(2);
  });

  it.each(WAYS)("F42: a person cancels, and the model calls again, $way", async ({ guarded }) => {
    const { argv, calls } = counted([EVERYTHING], guarded);
    const { client } = await connect(argv);
    const stop = new AbortController();
    const call = client.callTool(operation(1), undefined, { signal: stop.signal }).catch((error: Error) => error);
    await expect.poll(calls, { timeout: 10_000 }).toBe(1);
    stop.abort("stop");
    await call;
    const again = await client.callTool(operation(1));
    expect(calls()).toBe(guarded ? 1 : 2);
    if (guarded) expect(said(again)).toMatch(/It may have happened all the same/);
  });

  it.each(WAYS)(
    "the client's connection breaks in the middle, and a new one calls again, $way",
    async ({ guarded }) => {
      const { argv, calls } = counted([EVERYTHING], guarded);
      const first = await connect(argv);
      const lost = first.client.callTool(operation(1)).catch((error: Error) => error);
      await expect.poll(calls, { timeout: 10_000 }).toBe(1);
      await first.close();
      await lost;
      const second = await connect(argv);
      await second.client.callTool(operation(1));
      expect(calls()).toBe(guarded ? 1 : 2);
    },
  );

  it.each(WAYS)("what stands between is killed in the middle and started again, $way", async ({ guarded }) => {
    const { argv, calls } = counted([EVERYTHING], guarded, soon);
    const first = await connect(argv);
    const lost = first.client.callTool(operation(1)).catch((error: Error) => error);
    await expect.poll(calls, { timeout: 10_000 }).toBe(1);
    process.kill(first.pid, "SIGKILL");
    await lost;
    const second = await connect(argv);
    const again = await second.client.callTool(operation(1));
    expect(calls()).toBe(guarded ? 1 : 2);
    if (guarded) expect(said(again)).toMatch(/It may have happened all the same/);
  });
});

describe("server-memory on stdio", () => {
  it.each(WAYS)("two calls in one turn, and one more after a reconnect, $way", async ({ guarded }) => {
    const { argv, calls, place } = counted([MEMORY], guarded, { guard: "intent" });
    const env = { MEMORY_FILE_PATH: join(place, "memory.jsonl") };
    const relation = {
      name: "create_entities",
      arguments: { entities: [{ name: "Ada", entityType: "person", observations: [] }] },
    };
    const first = await connect(argv, env);
    await Promise.all([first.client.callTool(relation), first.client.callTool(relation)]);
    await first.close();
    const second = await connect(argv, env);
    await second.client.callTool(relation);
    expect(calls()).toBe(guarded ? 1 : 3);
  });
});

describe("server-everything on streamable HTTP", () => {
  it("the server is started again: its sessions are gone, the call sent again in a new one gets the first answer", async () => {
    const port = await freePort();
    const start = () => started([EVERYTHING, "streamableHttp"], { PORT: port }, "stderr", /(listening)/i);
    const one = await start();
    const proxy = await httpProxyOf(`http://127.0.0.1:${port}/mcp`, folder(), config);
    const first = await connectHttp(proxy.url);
    expect(said(await first.client.callTool(operation(0.1)))).toMatch(/^Long running operation completed/);
    const gone = new Promise((ended) => one.child.once("exit", ended));
    one.child.kill("SIGKILL");
    await gone;
    await start();
    // Another call: the old session is refused by the server itself, and nothing was run.
    await expect(first.client.callTool(operation(0.2))).rejects.toThrow();
    const second = await connectHttp(proxy.url);
    expect(said(await second.client.callTool(operation(0.1)))).toMatch(
      /^Already done at .*Long running operation completed/s,
    );
    expect(said(await second.client.callTool(operation(0.2)))).toMatch(/^Long running operation completed/);
  });
});
