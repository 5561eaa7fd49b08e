/**
 * Tasks and questions to the user through the proxy, by the official client: a call is done when its task is, and what was declined
 * did not happen. On stdio, over HTTP, and for a client on stdio whose server is on HTTP.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { CallToolResultSchema, CreateTaskResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../dist/index.js";
import { COMMAND, connect, connectHttp, folder, httpProxyOf, proxied, said, started } from "./lib/mcp.ts";

const FILM_SERVER = fileURLToPath(new URL("./lib/film-server.mjs", import.meta.url));
const CONFIRM_SERVER_2 = fileURLToPath(new URL("./lib/confirm-server-2.mjs", import.meta.url));
const TRANSPORTS = ["stdio", "http", "bridge"] as const;
type Over = (typeof TRANSPORTS)[number] | "bare";

/** By their keys, whether their answers arrived or not. */
const INTENT = { tools: { render: { key: ["film"] }, send: { key: ["to"], free: ["by"] }, note: { key: ["text"] } } };
const NOT_DONE = { tools: { render: { key: ["film"], errors: "not-done" } } };
const OFFICIAL = { name: "test", version: "1.0.0" };

/** `answers`: what the user says to each question of the server. */
function clientWith(answers: string[] = []) {
  const client = new Client(OFFICIAL, { capabilities: { elicitation: { form: {}, url: {} }, tasks: {} } });
  client.setRequestHandler(ElicitRequestSchema, async () => {
    const action = answers.shift() ?? "cancel";
    return (action === "accept" ? { action, content: { sure: true } } : { action }) as never;
  });
  return client;
}

async function scene(over: Over, config: object | undefined = undefined, sessions = "any") {
  const place = folder();
  const http = over === "http" || over === "bridge" ? await serverOnHttp(place, sessions) : null;
  const proxy = over === "http" ? await httpProxyOf(http as string, place, config) : null;
  const ledger = nevertwice({ store: `sqlite:${join(place, "ledger.db")}`, sweep: false });
  onTestFinished(() => ledger.close());
  const records = async () => (await ledger.store.list({ limit: 50 })).items.map(({ record }) => record);
  return {
    place,
    proxy,
    restart: () => httpProxyOf(http as string, place, config),
    effects: () => {
      const file = join(place, "effects.log");
      return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];
    },
    ends: (status: string, text: string) => {
      // The server must not read half of it.
      writeFileSync(join(place, "end.new"), JSON.stringify({ status, text }));
      renameSync(join(place, "end.new"), join(place, "end"));
    },
    states: async () => (await records()).filter(({ action }) => !action.startsWith("nevertwice.")).map((r) => r.state),
    enter: async (answers?: string[], url = proxy?.url) => {
      const client = clientWith(answers);
      if (over === "http") return connectHttp(url as string, { client });
      const file = join(place, "tools.json");
      if (config !== undefined) writeFileSync(file, JSON.stringify(config));
      const given = config === undefined ? [] : ["--config", file];
      const argv = {
        bare: [FILM_SERVER, "stdio", place],
        stdio: proxied(place, [FILM_SERVER, "stdio", place], config),
        bridge: [COMMAND, "mcp", "--store", `sqlite:${join(place, "ledger.db")}`, ...given, "--url", http as string],
      }[over];
      return connect(argv, {}, { client });
    },
  };
}

async function serverOnHttp(place: string, sessions: string): Promise<string> {
  const { found } = await started([FILM_SERVER, "http", place, sessions], {}, "stdout", /^(\d+)$/);
  return `http://127.0.0.1:${found}/mcp`;
}

async function begin(client: Client, film = "M") {
  const params = { name: "render", arguments: { film }, task: { ttl: 600_000 } };
  return (await client.request({ method: "tools/call", params }, CreateTaskResultSchema)).task;
}

async function result(client: Client, taskId: string) {
  return said(await client.request({ method: "tasks/result", params: { taskId } }, CallToolResultSchema));
}

const getTask = (client: Client, taskId: string) => client.experimental.tasks.getTask(taskId);

it("bare: a repeat is a second task, and its result says nothing of the first", async () => {
  const { enter, effects } = await scene("bare");
  const { client } = await enter();
  const [first, second] = [await begin(client), await begin(client)];
  expect(second.taskId).not.toBe(first.taskId);
  await expect.poll(effects).toHaveLength(2);
});

describe.each(TRANSPORTS)("a call that is answered with a task, over %s", (over) => {
  it("a repeat gets the same task while it works; it is done when its result is there, and the repeat is told so", async () => {
    const { enter, effects, ends, states } = await scene(over, INTENT);
    const { client } = await enter();
    const first = await begin(client);
    expect([first.status, (await begin(client)).taskId]).toEqual(["working", first.taskId]);
    expect(await states()).toEqual(["sent"]);
    ends("completed", "film.mp4");
    expect(await result(client, first.taskId)).toBe("film.mp4");
    // The ledger knew before the client did.
    expect(await states()).toEqual(["confirmed"]);
    const again = await begin(client);
    expect([again.status, (await getTask(client, again.taskId)).status]).toEqual(["completed", "completed"]);
    expect(await result(client, again.taskId)).toMatch(/^Already done at .*\nfilm\.mp4$/s);
    await expect(client.experimental.tasks.cancelTask(again.taskId)).rejects.toThrow(/cannot be cancelled/);
    expect((await begin(client, "Nosferatu")).taskId).not.toBe(first.taskId);
    expect(effects()).toEqual(["render M", "render Nosferatu"]);
  });

  it("the official client's stream of a repeat ends with the first result", async () => {
    const { enter, effects, ends } = await scene(over, INTENT);
    const { client } = await enter();
    const stream = async () => {
      const all = client.experimental.tasks.callToolStream({ name: "render", arguments: { film: "M" } }, undefined, {
        task: {},
      });
      for await (const one of all) if (one.type === "result") return said(one.result);
      return "none";
    };
    ends("completed", "film.mp4");
    expect(await stream()).toBe("film.mp4");
    expect(await stream()).toMatch(/^Already done at .*\nfilm\.mp4$/s);
    expect(effects()).toHaveLength(1);
  });

  it("a client that never asks for its end: the proxy asks", async () => {
    const { enter, effects, ends, states } = await scene(over, INTENT);
    const { client } = await enter();
    await begin(client);
    ends("completed", "film.mp4");
    await expect.poll(states, { timeout: 20_000 }).toEqual(["confirmed"]);
    expect(await result(client, (await begin(client)).taskId)).toMatch(/^Already done at .*\nfilm\.mp4$/s);
    expect(effects()).toHaveLength(1);
  });

  it.each([
    { errors: "doubt", config: INTENT, effectsOf: 1 },
    { errors: "not-done", config: NOT_DONE, effectsOf: 2 },
  ])("failed: never already done; with errors: $errors there are $effectsOf", async ({ config, effectsOf }) => {
    const { enter, effects, ends, states } = await scene(over, config);
    const { client } = await enter();
    const { taskId } = await begin(client);
    ends("failed", "no such film");
    expect(await result(client, taskId)).toBe("no such film");
    await expect.poll(states).not.toContain("sent");
    expect(await states()).not.toContain("confirmed");
    const again = await begin(client);
    if (effectsOf === 2) expect(again.status).toBe("working");
    else expect(await result(client, again.taskId)).toMatch(/^It may have happened/);
    await expect.poll(effects).toHaveLength(effectsOf);
  });

  it.each([
    { by: "the client", config: INTENT, effectsOf: 1 },
    { by: "the client", config: NOT_DONE, effectsOf: 2 },
    { by: "its own word", config: INTENT, effectsOf: 2 },
  ])("cancelled by $by: $effectsOf", async ({ by, config, effectsOf }) => {
    const { enter, effects, ends, states } = await scene(over, config);
    const { client } = await enter();
    const { taskId } = await begin(client);
    if (by === "the client") await client.experimental.tasks.cancelTask(taskId);
    else ends("cancelled", "no such film");
    await expect.poll(states, { timeout: 20_000 }).not.toContain("sent");
    expect(await states()).not.toContain("confirmed");
    const again = await begin(client);
    if (effectsOf === 2) expect(again.status).toBe("working");
    else expect(await result(client, again.taskId)).toMatch(/^It may have happened/);
    await expect.poll(effects).toHaveLength(effectsOf);
  });

  it("without a config: one task while it works, and a new one once its result has arrived", async () => {
    const { enter, effects, ends } = await scene(over);
    const { client } = await enter();
    const first = await begin(client);
    expect((await begin(client)).taskId).toBe(first.taskId);
    ends("completed", "one.mp4");
    expect(await result(client, first.taskId)).toBe("one.mp4");
    const next = await begin(client);
    expect(next.taskId).not.toBe(first.taskId);
    ends("failed", "two");
    await expect.poll(async () => (await getTask(client, next.taskId)).status).toBe("failed");
    // That it failed is all that a client asks for.
    expect((await begin(client)).taskId).not.toBe(next.taskId);
    await expect.poll(effects).toHaveLength(3);
  });

  it("without a config: a result that nobody asked for is given to the next call", async () => {
    const { enter, effects, ends, states } = await scene(over);
    const { client } = await enter();
    await begin(client);
    ends("completed", "one.mp4");
    await expect.poll(states, { timeout: 20_000 }).toEqual(["confirmed"]);
    const again = await begin(client);
    expect(await result(client, again.taskId)).toMatch(/^Already done at .*\none\.mp4$/s);
    expect((await begin(client)).status).toBe("working");
    await expect.poll(effects).toHaveLength(2);
  });

  it("repeats: a second identical call is a second task, also while the first one works", async () => {
    const { enter, effects } = await scene(over, { tools: { render: { key: ["film"], repeats: 2 } } });
    const { client } = await enter();
    const [first, second] = [await begin(client), await begin(client)];
    expect(second.taskId).not.toBe(first.taskId);
    await expect.poll(effects).toEqual(["render M", "render M"]);
  });

  it("a plain call of the same intent joins the task", async () => {
    const { enter, effects, ends } = await scene(over, INTENT);
    const { client } = await enter();
    await begin(client);
    const plain = client.callTool({ name: "render", arguments: { film: "M" } });
    ends("completed", "film.mp4");
    expect(said(await plain)).toMatch(/film\.mp4$/);
    expect(effects()).toHaveLength(1);
  });

  it.each(["decline", "cancel"])("a task whose question is answered with %s did not happen", async (action) => {
    const { enter, effects, states } = await scene(over, INTENT);
    const { client } = await enter([action, "accept"]);
    const first = await begin(client, "asks first");
    expect(await result(client, first.taskId)).toBe("not rendered");
    await expect.poll(states).not.toContain("sent");
    expect(await states()).not.toContain("confirmed");
    const next = await begin(client, "asks first");
    expect(await result(client, next.taskId)).toBe("film.mp4");
    expect(await result(client, (await begin(client, "asks first")).taskId)).toMatch(/^Already done/);
    expect(effects()).toHaveLength(1);
  });
});

describe("a client that comes back while its task works", () => {
  it.each([undefined, INTENT])("over HTTP, in another session: the same task, %j", async (config) => {
    const { enter, effects, ends } = await scene("http", config);
    const first = await enter();
    const { taskId } = await begin(first.client);
    await first.client.close();
    const { client } = await enter();
    expect((await begin(client)).taskId).toBe(taskId);
    ends("completed", "film.mp4");
    expect(await result(client, taskId)).toBe("film.mp4");
    expect(effects()).toHaveLength(1);
  });

  it("over HTTP, where the server shows a task only to its own session: a task of the proxy's, which ends with it", async () => {
    const { enter, effects, ends } = await scene("http", INTENT, "own");
    const first = await enter();
    const { taskId } = await begin(first.client);
    await first.client.close();
    const { client } = await enter();
    const again = await begin(client);
    expect([again.taskId === taskId, again.status]).toEqual([false, "working"]);
    expect((await getTask(client, again.taskId)).status).toBe("working");
    ends("completed", "film.mp4");
    expect(await result(client, again.taskId)).toMatch(/^Already done at .*\nfilm\.mp4$/s);
    expect(effects()).toHaveLength(1);
  });

  it("over HTTP, to a proxy that was killed and started again: the same task, and what it comes to is known", async () => {
    const { enter, effects, ends, proxy, restart } = await scene("http", {
      tools: { render: { key: ["film"], lease: "1s" } },
    });
    const first = await enter();
    const { taskId } = await begin(first.client);
    proxy?.child.kill("SIGKILL");
    await first.client.close();
    const { client } = await enter([], (await restart()).url);
    expect((await begin(client)).taskId).toBe(taskId);
    ends("completed", "film.mp4");
    expect(await result(client, taskId)).toBe("film.mp4");
    await expect
      .poll(async () => result(client, (await begin(client)).taskId), { timeout: 20_000 })
      .toMatch(/^Already done at .*\nfilm\.mp4$/s);
    expect(effects()).toHaveLength(1);
  });

  it.each([undefined, INTENT])(
    "on stdio, in front of a URL, with a proxy of its own: the same task, %j",
    async (config) => {
      const { enter, effects, ends } = await scene("bridge", config);
      const first = await enter();
      const { taskId } = await begin(first.client);
      await first.client.close();
      const { client } = await enter();
      expect((await begin(client)).taskId).toBe(taskId);
      ends("completed", "film.mp4");
      expect(await result(client, taskId)).toBe("film.mp4");
      expect(effects()).toHaveLength(1);
    },
  );

  it("on stdio, where the server ended with its client: in doubt, and no second task", async () => {
    const { enter, effects, states } = await scene("stdio", INTENT);
    const first = await enter();
    await begin(first.client);
    await first.client.close();
    await expect.poll(states, { timeout: 20_000 }).toEqual(["unknown"]);
    const { client } = await enter();
    expect(await result(client, (await begin(client)).taskId)).toMatch(/^It may have happened/);
    expect(effects()).toHaveLength(1);
  });

  it("the proxy's answer with the task was lost: the same task for whoever calls again", async () => {
    const { enter, effects } = await scene("http", INTENT);
    const first = await enter();
    const stop = new AbortController();
    const params = { name: "render", arguments: { film: "M" }, task: {} };
    const lost = first.client
      .request({ method: "tools/call", params }, CreateTaskResultSchema, { signal: stop.signal })
      .catch((error: Error) => error);
    await expect.poll(effects).toHaveLength(1);
    stop.abort("gone");
    await lost;
    await first.client.close();
    const { client } = await enter();
    expect((await begin(client)).status).toBe("working");
    expect(effects()).toHaveLength(1);
  });

  it("another caller's tasks/get of a task that the proxy made finds nothing", async () => {
    const { enter, ends, proxy } = await scene("http", INTENT);
    const { client } = await enter();
    ends("completed", "film.mp4");
    const { taskId: first } = await begin(client);
    await result(client, first);
    const { taskId } = await begin(client);
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const other = clientWith();
    const requestInit = { headers: { authorization: "Bearer bob" } };
    const transport = new StreamableHTTPClientTransport(new URL(proxy?.url as string), { requestInit });
    await other.connect(transport as Parameters<typeof other.connect>[0]);
    onTestFinished(() => other.close());
    await expect(result(other, taskId)).rejects.toThrow(/not found/);
  });
});

describe.each(TRANSPORTS)("a question to the user, over %s", (over) => {
  const send = (by: string, to = "ada") => ({ name: "send", arguments: { to, by } });

  it.each([
    ["call", INTENT],
    ["session", INTENT],
    ["page", INTENT],
    ["call", undefined],
  ])("by its %s: declined did not happen, accepted is done (%j)", async (by, config) => {
    const { enter, effects, states } = await scene(over, config);
    const { client } = await enter(["decline", "cancel", "accept"]);
    for (const answer of ["not sent", "not sent", "sent to ada"])
      expect(said(await client.callTool(send(by)))).toBe(answer);
    if (config !== undefined)
      expect(said(await client.callTool(send(by)))).toMatch(/^Already done at .*\nsent to ada$/s);
    await expect.poll(states).toEqual(["confirmed"]);
    expect(effects()).toEqual(["send ada"]);
  });

  it('"declined": "answer": its result counts', async () => {
    const { enter } = await scene(over, { tools: { send: { key: ["to"], free: ["by"], declined: "answer" } } });
    const { client } = await enter(["decline"]);
    expect(said(await client.callTool(send("call")))).toBe("not sent");
    expect(said(await client.callTool(send("call")))).toMatch(/^Already done at .*\nnot sent$/s);
  });

  it.each([
    { beside: "guarded", config: INTENT },
    { beside: "that passes", config: { tools: { ...INTENT.tools, send: { readOnly: true } } } },
  ])(
    "of a call $beside beside another: known over HTTP; on stdio a doubt, and never already done",
    async ({ config }) => {
      const { enter, effects, place } = await scene(over, config);
      const { client } = await enter(["decline", "accept"]);
      await client.listTools();
      const hold = join(place, "hold");
      writeFileSync(hold, "");
      const note = async () => said(await client.callTool({ name: "note", arguments: { text: "x" } }));
      const noted = note();
      await expect.poll(effects).toEqual(["note x"]);
      const declined = said(await client.callTool(send("call")));
      rmSync(hold);
      if (over === "stdio") {
        expect([await noted, await note()]).toEqual(Array(2).fill(expect.stringContaining("It may have happened")));
        expect(declined).toContain(config === INTENT ? "It may have happened" : "not sent");
      } else {
        expect([declined, await noted]).toEqual(["not sent", "noted x"]);
        expect(await note()).toMatch(/^Already done at .*\nnoted x$/s);
        expect(said(await client.callTool(send("call")))).toBe("sent to ada");
      }
      expect(effects().filter((one) => one === "note x")).toHaveLength(1);
    },
  );
});

describe("SDK 2.x, a tool that returns what it has to know first", () => {
  const NEW = { pin: "2026-07-28" } as const;

  // Over HTTP its handler keeps no session for the revisions before: there is nobody to ask.
  it.each([
    ["stdio", NEW],
    ["http", NEW],
    ["bridge", NEW],
    ["stdio", "legacy"],
  ] as const)("over %s (%j): declined did not happen, accepted is done", async (over, mode) => {
    const place = folder();
    const url = async () => {
      const { found } = await started([CONFIRM_SERVER_2, "http", place], {}, "stdout", /^(\d+)$/);
      return `http://127.0.0.1:${found}/mcp`;
    };
    const config = { tools: { send: { key: ["to"] } } };
    const { Client: Client2, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const answers = ["decline", "cancel", "accept"];
    const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } };
    const client = new Client2({ name: "test", version: "2.0.0" }, options);
    client.setRequestHandler("elicitation/create", async () => {
      const action = answers.shift() ?? "cancel";
      return (action === "accept" ? { action, content: { sure: true } } : { action }) as never;
    });
    const args =
      over === "stdio"
        ? proxied(place, [CONFIRM_SERVER_2, "stdio", place], config)
        : proxied(place, [], config)
            .slice(0, -2)
            .concat("--url", await url());
    await client.connect(
      over === "http"
        ? new StreamableHTTPClientTransport(new URL((await httpProxyOf(await url(), place, config)).url))
        : new StdioClientTransport({ command: process.execPath, args, stderr: "ignore" }),
    );
    onTestFinished(() => client.close());
    const send = async () => said(await client.callTool({ name: "send", arguments: { to: "ada" } }));
    expect([await send(), await send(), await send()]).toEqual(["not sent", "not sent", "sent to ada"]);
    expect(await send()).toMatch(/^Already done at .*\nsent to ada$/s);
    expect(readFileSync(join(place, "effects.log"), "utf8")).toBe("send ada\n");
  });
});
