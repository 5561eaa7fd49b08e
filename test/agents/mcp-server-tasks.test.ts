/** Tools that run as tasks: one task per intent, done when the task's result says so. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/index.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import {
  CallToolRequestSchema,
  CallToolResultSchema,
  CreateTaskResultSchema,
  ListToolsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardMcpServer } from "../../dist/agents/mcp/server/index.js";
import { folder } from "./lib/mcp.ts";
import { type Any, connect, INFO, openLedger, textOf } from "./lib/mcp-sdks.ts";
import { WAYS } from "./lib/stories.ts";

const SUPPORTS = {
  tools: {},
  tasks: { requests: { tools: { call: {} } }, cancel: {}, list: {} },
};
const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });

/** A tool whose work ends when the test says how. */
async function served(
  guarded: boolean,
  {
    own,
    support = "required",
    low = false,
    mode = "guard",
  }: {
    own?: object;
    support?: string;
    low?: boolean;
    mode?: "guard" | "observe";
  } = {},
) {
  const nt = openLedger();
  const taskStore = new InMemoryTaskStore();
  // close() waits for tasks that work: their store forgets them first.
  onTestFinished(() => taskStore.cleanup());
  const options = { capabilities: SUPPORTS, taskStore, taskMessageQueue: new InMemoryTaskMessageQueue() };
  const work: { task: Any; store: Any; done: (said: string) => Promise<void> }[] = [];
  const createTask = async (_args: Any, { taskStore: store, taskRequestedTtl: ttl }: Any) => {
    const task = await store.createTask({ ttl: ttl ?? null, pollInterval: 50 });
    const done = (said: string) => store.storeTaskResult(task.taskId, "completed", text(said));
    work.push({ task, store, done });
    return { task };
  };
  const bare: Any = low ? new Server(INFO, options) : new McpServer(INFO, options);
  const server = guarded
    ? guardMcpServer(nt, bare, { scope: null, mode, ...(own !== undefined && { tools: { render: own } }) })
    : bare;
  if (low) {
    const listed = { name: "render", inputSchema: { type: "object" }, execution: { taskSupport: support } };
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [listed] }));
    server.setRequestHandler(CallToolRequestSchema, (request: Any, extra: Any) =>
      createTask(request.params.arguments, extra),
    );
  } else {
    const inputSchema = { film: z.string(), quality: z.string().optional() };
    const execution = { taskSupport: support };
    const handler = {
      createTask,
      getTask: async (_: Any, { taskId, taskStore: store }: Any) => store.getTask(taskId),
      getTaskResult: async (_: Any, { taskId, taskStore: store }: Any) => store.getTaskResult(taskId),
    };
    server.experimental.tasks.registerToolTask("render", { inputSchema, execution }, handler);
  }
  const { client, call } = await connect(server, 1, { capabilities: { tasks: {} } });
  const begin = async (film = "Metropolis", more = {}) =>
    (
      await client.request(
        { method: "tools/call", params: { name: "render", arguments: { film, ...more }, task: { ttl: 60_000 } } },
        CreateTaskResultSchema,
      )
    ).task;
  const result = async (taskId: string) =>
    textOf(await client.request({ method: "tasks/result", params: { taskId } }, CallToolResultSchema));
  const states = async () => (await nt.store.list({ limit: 10 })).items.map(({ record }) => record.state);
  return { nt, taskStore, client, call, begin, result, states, work };
}

describe.each([
  { server: "McpServer", low: false },
  { server: "Server", low: true },
])("a tool of a $server that runs as a task", ({ low }) => {
  it.each(WAYS)("a repeat gets the same task while it works, and its result afterwards, $way", async ({ guarded }) => {
    const { begin, result, work, states } = await served(guarded, { low });
    const first = await begin();
    const second = await begin();
    expect(first.status).toBe("working");
    expect(work).toHaveLength(guarded ? 1 : 2);
    if (!guarded) return;
    expect(second.taskId).toBe(first.taskId);
    expect(await states()).toEqual(["sent"]);
    await work[0]?.done("film.mp4");
    expect(await result(first.taskId)).toBe("film.mp4");
    await expect.poll(states).toEqual(["confirmed"]);
    const third = await begin();
    expect(third.status).toBe("completed");
    expect(await result(third.taskId)).toMatch(/^Already done at .*film\.mp4$/s);
    expect(work).toHaveLength(1);
    const other = await begin("Nosferatu");
    expect(other.taskId).not.toBe(first.taskId);
    expect(work).toHaveLength(2);
  });

  it("calls at the same time are one task", async () => {
    const { begin, work } = await served(true, { low });
    const tasks = await Promise.all([begin(), begin(), begin()]);
    expect(new Set(tasks.map(({ taskId }: Any) => taskId)).size).toBe(1);
    expect(work).toHaveLength(1);
  });

  it("cancelled by the client: in doubt, as its work may go on; what it says later settles it", async () => {
    const { client, begin, result, work, states } = await served(true, { low });
    const { taskId } = await begin();
    await client.experimental.tasks.cancelTask(taskId);
    await expect.poll(states).toEqual(["unknown"]);
    const again = await begin();
    expect(again.status).toBe("failed");
    expect(await result(again.taskId)).toMatch(/^It may have happened/);
    // The SDK's store refuses the result of a task that was cancelled.
    await expect(work[0]?.done("film.mp4")).rejects.toThrow(/terminal/);
    await expect.poll(states).toEqual(["confirmed"]);
    const known = await begin();
    expect(await result(known.taskId)).toMatch(/^Already done at .*film\.mp4$/s);
    expect(work).toHaveLength(1);
  });

  it("G2: what it says later of a call that was corrected since does not settle the corrected one", async () => {
    const { nt, client, begin, result, work, states } = await served(true, { low, own: { key: ["film"] } });
    const events: string[] = [];
    nt.on(({ type }) => void events.push(type));
    const cancelled = async (quality: string) => {
      const { taskId } = await begin("Metropolis", { quality });
      await client.experimental.tasks.cancelTask(taskId);
      await expect.poll(states).toEqual(["unknown"]);
    };
    await cancelled("low");
    const [stored] = (await nt.store.list({ limit: 1 })).items;
    const key = stored?.record.key as string;
    await nt.resolve({ key }, { as: "not-done", by: "ana", reason: "looked too early" });
    await cancelled("high");
    await expect(work[0]?.done("low.mp4")).rejects.toThrow(/terminal/);
    await expect.poll(() => events).toContain("duplicate_detected");
    expect(await states()).toEqual(["unknown"]);
    await expect(work[1]?.done("high.mp4")).rejects.toThrow(/terminal/);
    await expect.poll(states).toEqual(["confirmed"]);
    const known = await begin("Metropolis", { quality: "high" });
    expect(await result(known.taskId)).toMatch(/^Already done at .*high\.mp4$/s);
    expect(work).toHaveLength(2);
  });

  it('cancelled by the client, errors: "not-done": it did not happen, and the next call begins another', async () => {
    const { client, begin, work, states } = await served(true, { low, own: { errors: "not-done" } });
    const { taskId } = await begin();
    await client.experimental.tasks.cancelTask(taskId);
    await expect.poll(states).not.toEqual(["sent"]);
    expect((await begin()).status).toBe("working");
    expect(work).toHaveLength(2);
  });

  it("cancelled by its own word: it did not happen", async () => {
    const { begin, work, states } = await served(true, { low });
    const { taskId } = await begin();
    await work[0]?.store.updateTaskStatus(taskId, "cancelled", "no such film");
    await expect.poll(states).not.toEqual(["sent"]);
    expect((await begin()).status).toBe("working");
    expect(work).toHaveLength(2);
  });

  it.each([
    [undefined, 1, /It may have happened/],
    ["not-done", 2, null],
  ])("failed by its own word, errors: %s", async (errors, runs, said) => {
    const { begin, result, work, states } = await served(true, { low, ...(errors && { own: { errors } }) });
    const { taskId } = await begin();
    await work[0]?.store.storeTaskResult(taskId, "failed", text("no such film"));
    expect(await result(taskId)).toBe("no such film");
    await expect.poll(states).not.toEqual(["sent"]);
    const again = await begin();
    expect(work).toHaveLength(runs);
    if (said === null) expect(again.status).toBe("working");
    else expect(await result(again.taskId)).toMatch(said);
  });

  it("a task that its store lost is in doubt", async () => {
    const { taskStore, begin, result, states } = await served(true, { low, own: { errors: "not-done" } });
    const { taskId } = await begin();
    (taskStore as Any).tasks.delete(taskId);
    await expect.poll(states).toEqual(["unknown"]);
    const again = await begin();
    expect(await result(again.taskId)).toMatch(/^It may have happened/);
  });
});

it('mode: "observe": every call is a task of its own, and the ledger knows one intent', async () => {
  const { begin, result, work, states } = await served(true, { mode: "observe" });
  const [first, second] = [await begin(), await begin()];
  expect(second.taskId).not.toBe(first.taskId);
  await work[1]?.done("second.mp4");
  expect(await result(second.taskId)).toBe("second.mp4");
  await work[0]?.done("first.mp4");
  expect(await result(first.taskId)).toBe("first.mp4");
  await expect.poll(states).toEqual(["confirmed"]);
  expect(work).toHaveLength(2);
});

it("a task that the SDK polls for a client that asked for none", async () => {
  const { call, work } = await served(true, { support: "optional" });
  const [first, second] = [call("render", { film: "M" }), call("render", { film: "M" })];
  await expect.poll(() => work.length).toBe(1);
  await work[0]?.done("m.mp4");
  expect(await Promise.all([first, second])).toEqual(["m.mp4", "m.mp4"]);
  expect(await call("render", { film: "M" })).toMatch(/^Already done at .*m\.mp4$/s);
  expect(work).toHaveLength(1);
});

it("a process that dies in its task leaves a doubt, and no other process begins another", async () => {
  const store = `sqlite:${join(folder(), "ledger.db")}`;
  const script = fileURLToPath(new URL("./lib/render-task.mjs", import.meta.url));
  const start = (how: string) => {
    const child = spawn(process.execPath, [script, store, how], { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (more: string) => {
      said += more;
    });
    return { child, said: () => said };
  };
  const first = start("begin");
  await expect.poll(first.said, { timeout: 20_000 }).toBe("effect\nbegun\n");
  first.child.kill("SIGKILL");
  await once(first.child, "close");
  const second = start("again");
  const [code] = await once(second.child, "close");
  expect(code).toBe(0);
  expect(second.said()).not.toContain("effect");
  expect(second.said()).toMatch(/^It may have happened/m);
});
