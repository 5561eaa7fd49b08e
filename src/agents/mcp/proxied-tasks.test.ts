/** Tasks and questions as no official SDK sends them: the tasks extension of protocol revision 2026-07-28, and what is lost. */
import { expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { ProxyConfig } from "./config.ts";
import { McpGuard } from "./guard.ts";
import { McpRelay } from "./stdio/relay.ts";

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: { readonly content?: readonly { readonly text: string }[]; readonly [field: string]: unknown };
  readonly error?: { readonly code: number };
}

/** A proxy in front of a server that answers as `serve` says; undefined: not at all. */
function proxied(config: ProxyConfig, serve: (message: Message) => object | undefined) {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  const guard = new McpGuard({ nt, config, server: "film", identity: "film" });
  onTestFinished(async () => {
    guard.close();
    await nt.close();
  });
  const calls: Message[] = [];
  const toClient: Message[] = [];
  const relay: McpRelay = new McpRelay({
    guard,
    graceMs: 20,
    toClient: (line, written) => {
      toClient.push(JSON.parse(line));
      written?.(null);
    },
    toServer: (line) => {
      const message = JSON.parse(line) as Message;
      if (message.method === "tools/call") calls.push(message);
      const answer = message.id === undefined ? undefined : serve(message);
      if (answer !== undefined) relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...answer }));
    },
  });
  let id = 0;
  const send = (message: object) => relay.fromClient(JSON.stringify({ jsonrpc: "2.0", ...message }));
  const ask = async (method: string, params: object): Promise<Message> => {
    id += 1;
    const mine = id;
    send({ id: mine, method, params });
    const answer = () => toClient.find((one) => one.id === mine && one.method === undefined);
    await expect.poll(answer, { timeout: 8_000 }).toBeDefined();
    return answer() as Message;
  };
  const call = (task?: object) =>
    ask("tools/call", { name: "render", arguments: { film: "M" }, ...(task && { task }) });
  const records = async () => {
    const { items } = await nt.store.list({ limit: 10 });
    return items.map(({ record }) => record).filter(({ action }) => !action.startsWith("nevertwice."));
  };
  const states = async () => (await records()).map(({ state }) => state);
  return { nt, relay, send, ask, call, calls, records, states, toClient };
}

const text = ({ result }: Message) => result?.content?.map((block) => block.text).join("\n");
const tools = { render: { key: ["film"], wait: 0 } };
const said = (what: string) => ({ content: [{ type: "text", text: what }] });

/** A server with the tasks extension: it decides by itself to answer with a task. */
function extension() {
  let end: object = { status: "working" };
  const serve = ({ method }: Message) => {
    const task = { taskId: "t1", pollIntervalMs: 50, pollInterval: 50 };
    if (method === "tools/call") return { result: { resultType: "task", status: "working", ...task } };
    if (method === "tasks/get") return { result: { ...task, ...end } };
    return method === "tasks/update" || method === "tasks/cancel" ? { result: {} } : { error: { code: -32_601 } };
  };
  const ends = (as: object) => {
    end = as;
  };
  return { serve, ends };
}

it("the tasks extension: done when tasks/get has its result", async () => {
  const { serve, ends } = extension();
  const { call, calls, states } = proxied({ tools }, serve);
  expect((await call()).result).toMatchObject({ resultType: "task", taskId: "t1" });
  expect(await states()).toEqual(["sent"]);
  expect(text(await call())).toMatch(/^In progress/);
  ends({ status: "completed", result: said("film.mp4") });
  await expect.poll(states).toEqual(["confirmed"]);
  expect(text(await call())).toMatch(/^Already done at .*\nfilm\.mp4$/s);
  expect(calls).toHaveLength(1);
});

it("the tasks extension: what was declined by tasks/update did not happen", async () => {
  const { serve, ends } = extension();
  const { call, ask, calls, states } = proxied({ tools }, serve);
  await call();
  await ask("tasks/update", { taskId: "t1", inputResponses: { sure: { action: "decline" } } });
  ends({ status: "completed", result: said("not rendered") });
  expect((await ask("tasks/get", { taskId: "t1" })).result).toMatchObject({ status: "completed" });
  expect(await states()).not.toContain("confirmed");
  ends({ status: "working" });
  expect((await call()).result).toMatchObject({ resultType: "task" });
  expect(calls).toHaveLength(2);
});

it("a task that comes after its call was cancelled: its end settles the doubt, and a repeat gets it meanwhile", async () => {
  let status = "working";
  const { relay, send, call, calls, states, ask } = proxied({ tools }, ({ method }) => {
    if (method === "tasks/get") return { result: { taskId: "t1", status, pollInterval: 50 } };
    return method === "tasks/result" ? { result: said("film.mp4") } : undefined;
  });
  send({ id: 900, method: "tools/call", params: { name: "render", arguments: { film: "M" }, task: {} } });
  await expect.poll(() => calls.length).toBe(1);
  send({ method: "notifications/cancelled", params: { requestId: 900 } });
  await relay.idle();
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: 900, result: { task: { taskId: "t1", pollInterval: 50 } } }));
  expect(await states()).toEqual(["unknown"]);
  await expect.poll(async () => (await call({})).result?.task).toMatchObject({ taskId: "t1", status: "working" });
  status = "completed";
  expect(text(await ask("tasks/result", { taskId: "t1" }))).toBe("film.mp4");
  await expect.poll(states).toEqual(["confirmed"]);
  expect(calls).toHaveLength(1);
});

it("a task that works for longer than the call's timeout is no doubt", async () => {
  let status = "working";
  const config = { tools: { render: { ...tools.render, timeout: "100ms", lease: "300ms" } } } as const;
  const { call, states, ask } = proxied(config, ({ method }) => {
    const task = { taskId: "t1", status, pollInterval: 50 };
    if (method === "tools/call") return { result: { task } };
    return { result: method === "tasks/get" ? task : said("film.mp4") };
  });
  await call({});
  // Several leases later.
  await new Promise((later) => setTimeout(later, 1_000));
  expect(await states()).toEqual(["sent"]);
  status = "completed";
  expect(text(await ask("tasks/result", { taskId: "t1" }))).toBe("film.mp4");
  expect(await states()).toEqual(["confirmed"]);
});

it("without a config: a page that has to be visited first (-32042) is no answer to keep", async () => {
  const { call, calls, states } = proxied({}, ({ method }) => {
    return method === "tools/list" ? { result: { tools: [] } } : { error: { code: -32_042, message: "visit" } };
  });
  expect((await call()).error).toMatchObject({ code: -32_042 });
  expect(await states()).not.toContain("confirmed");
  expect((await call()).error).toMatchObject({ code: -32_042 });
  expect(calls).toHaveLength(2);
});

it("a question that names a task which is not known here is nobody's", async () => {
  const { relay, send, call, calls } = proxied({ tools: { render: { key: ["film"], wait: "5s" } } }, () => undefined);
  const first = call();
  await expect.poll(() => calls.length).toBe(1);
  const _meta = { "io.modelcontextprotocol/related-task": { taskId: "another" } };
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: "q", method: "elicitation/create", params: { _meta } }));
  send({ id: "q", result: { action: "decline" } });
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: calls[0]?.id, result: said("film.mp4") }));
  expect(text(await first)).toBe("film.mp4");
  expect(text(await call())).toMatch(/^Already done/);
});

it("a task that comes late is of its own attempt, and none of the one that followed", async () => {
  const work: Record<string, string> = { t1: "working", t2: "working" };
  const { nt, relay, send, ask, call, calls, records, states } = proxied({ tools }, ({ method, params }) => {
    const taskId = String(params?.taskId);
    if (method === "tasks/get") return { result: { taskId, status: work[taskId], pollInterval: 50 } };
    return method === "tasks/result" ? { result: said(`of ${taskId}`) } : undefined;
  });
  const begin = async (id: number) => {
    const made = calls.length + 1;
    send({ id, method: "tools/call", params: { name: "render", arguments: { film: "M" }, task: {} } });
    await expect.poll(() => calls.length).toBe(made);
    send({ method: "notifications/cancelled", params: { requestId: id } });
    await relay.idle();
  };
  const answer = (id: number, message: object) => relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id, ...message }));
  await begin(900);
  const [doubt] = await records();
  await nt.resolve({ key: doubt?.key as string }, { as: "not-done", by: "test", reason: "so it is" });
  await begin(901);
  answer(901, { result: { task: { taskId: "t2", pollInterval: 50 } } });
  await expect.poll(async () => (await call({})).result?.task).toMatchObject({ taskId: "t2" });
  answer(900, { result: { task: { taskId: "t1", pollInterval: 50 } } });
  expect((await call({})).result?.task).toMatchObject({ taskId: "t2" });
  work.t2 = "completed";
  expect(text(await ask("tasks/result", { taskId: "t2" }))).toBe("of t2");
  await expect.poll(states).toEqual(["confirmed"]);
  expect(calls).toHaveLength(2);
});

it("a task that its server has lost is a doubt that says so", async () => {
  const { call, ask, states } = proxied({ tools }, ({ method }) =>
    method === "tools/call"
      ? { result: { task: { taskId: "t1", status: "working", pollInterval: 50 } } }
      : { error: { code: -32_602, message: "no such task" } },
  );
  await call({});
  await expect.poll(states).toEqual(["unknown"]);
  const task = (await call({})).result?.task as { taskId: string };
  const told = text(await ask("tasks/result", { taskId: task.taskId }));
  expect(told).toMatch(/^It may have happened.*task t1 cannot be found any more/s);
});
