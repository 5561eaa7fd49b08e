/** The low-level Server, whose tools/call has one handler for all tools, and what an McpServer does below its own tools. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import * as z3 from "zod/v3";
import { guardMcpServer } from "../../dist/agents/mcp/server/index.js";
import { type Any, connect, INFO, openLedger, SDKS, textOf } from "./lib/mcp-sdks.ts";
import { WAYS } from "./lib/stories.ts";

const TOOLS = [
  { name: "create_issue", inputSchema: { type: "object", properties: { title: { type: "string" } } } },
  { name: "now", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
  { name: "set_label", inputSchema: { type: "object" }, annotations: { idempotentHint: true } },
];
const text = (said: string) => ({ content: [{ type: "text", text: said }] });

describe.each(SDKS)("a Server of SDK $sdk", ({ Server, McpServer, major, methods, sdk }) => {
  const serve = async (
    options: object | null,
    { when = "before", onCall = null as Any, onList = null as Any } = {},
  ) => {
    const nt = openLedger();
    const server = new Server(INFO, { capabilities: { tools: {} } });
    const guard = () => options !== null && guardMcpServer(nt, server, { scope: null, ...options });
    if (when === "before") guard();
    const calls: Any[] = [];
    server.setRequestHandler(methods.list, onList ?? (() => ({ tools: TOOLS })));
    server.setRequestHandler(methods.call, async ({ params }: Any) => {
      calls.push(params);
      return onCall?.(params) ?? text(`run ${calls.length}`);
    });
    if (when === "after") guard();
    return { nt, server, calls, ...(await connect(server, major)) };
  };

  it.each([
    { way: "bare", options: null, when: "before" },
    { way: "guarded before its handlers", options: {}, when: "before" },
    { way: "guarded after its handlers", options: {}, when: "after" },
  ])("a repeat does nothing, another title does, tools pass by their hints: $way", async ({ options, when }) => {
    const { call, calls } = await serve(options, { when });
    const said = [];
    for (const title of ["one", "two", "two"]) said.push(await call("create_issue", { title }));
    expect(calls).toHaveLength(options === null ? 3 : 2);
    if (options !== null) expect(said[2]).toMatch(/^Already done at .*run 2$/s);
    const before = calls.length;
    for (const name of ["now", "set_label"]) for (let time = 0; time < 2; time += 1) await call(name, {});
    expect(calls).toHaveLength(before + 4);
  });

  it("options by name: keys, errors, tools that are left alone", async () => {
    const onCall = ({ name, arguments: { title } }: Any) =>
      name === "create_issue" && title === "bad" ? { ...text("no such label"), isError: true } : null;
    const { call, calls } = await serve(
      { tools: { create_issue: { key: ["title"], free: ["body"], errors: "not-done" }, set_label: {}, now: false } },
      { onCall },
    );
    await call("create_issue", { title: "one", body: "a" });
    expect(await call("create_issue", { title: "one", body: "b" })).toMatch(/Your body differs/);
    for (let time = 0; time < 2; time += 1) expect(await call("create_issue", { title: "bad" })).toBe("no such label");
    for (let time = 0; time < 2; time += 1) await call("set_label", { id: 1 });
    expect(calls.map(({ name }) => name)).toEqual(["create_issue", "create_issue", "create_issue", "set_label"]);
    expect(() =>
      guardMcpServer(openLedger(), new Server(INFO), { scope: null, tools: { x: { keys: ["a"] } as Any } }),
    ).toThrow(/there is no option "keys"/i);
  });

  it("a tool that its list does not name is refused, unless options name it", async () => {
    const { client, call, calls, nt } = await serve({ tools: { hidden: {} } });
    const unknown = client.callTool({ name: "made_up", arguments: {} });
    await expect(unknown).rejects.toThrow(/made_up not found/);
    for (let time = 0; time < 2; time += 1) await call("hidden", { id: 1 });
    expect(calls.map(({ name }) => name)).toEqual(["hidden"]);
    expect((await nt.store.list({ limit: 10 })).items).toHaveLength(1);
  });

  it("the list that the caller itself would get decides, and all its pages", async () => {
    const onList = ({ params }: Any) =>
      params?.cursor === "2"
        ? { tools: TOOLS }
        : { tools: [{ name: "other", inputSchema: { type: "object" } }], nextCursor: "2" };
    const { call, calls } = await serve({}, { onList });
    for (let time = 0; time < 2; time += 1) await call("now", {});
    for (let time = 0; time < 2; time += 1) await call("create_issue", { title: "one" });
    expect(calls).toHaveLength(3);
  });

  it("what a handler throws for wrong arguments was not begun; what else it throws may have happened", async () => {
    const onCall = ({ arguments: { title } }: Any) => {
      if (title === "wrong") throw Object.assign(new Error("title is too long"), { code: -32_602 });
      if (title === "lost") throw new Error("boom");
      return null;
    };
    const { result, calls } = await serve({}, { onCall });
    for (let time = 0; time < 2; time += 1)
      await expect(result("create_issue", { title: "wrong" })).rejects.toThrow(/title is too long/);
    expect(calls).toHaveLength(2);
    await result("create_issue", { title: "lost" }).catch(() => {});
    expect(textOf(await result("create_issue", { title: "lost" }))).toMatch(/^It may have happened/);
    expect(calls).toHaveLength(3);
  });

  it("a handler that is set anew is guarded, and shares what was done", async () => {
    const { server, call, calls } = await serve({});
    await call("create_issue", { title: "one" });
    let again = 0;
    server.setRequestHandler(methods.call, async () => text(`other ${++again}`));
    expect(await call("create_issue", { title: "one" })).toMatch(/^Already done at .*run 1$/s);
    for (let time = 0; time < 2; time += 1) expect(await call("create_issue", { title: "two" })).toMatch(/other 1$/);
    expect([calls.length, again]).toEqual([1, 1]);
  });

  it("an McpServer whose tools/call is its author's own is guarded there", async () => {
    const server = guardMcpServer(openLedger(), new McpServer(INFO, { capabilities: { tools: {} } }), {
      scope: null,
    }) as Any;
    let runs = 0;
    server.server.setRequestHandler(methods.list, () => ({ tools: TOOLS }));
    server.server.setRequestHandler(methods.call, async () => text(`run ${++runs}`));
    const { call } = await connect(server, major);
    for (let time = 0; time < 2; time += 1) expect(await call("create_issue", { title: "one" })).toMatch(/run 1$/);
    for (let time = 0; time < 2; time += 1) await call("now", {});
    expect(runs).toBe(3);
  });

  it.each(WAYS)(
    "an McpServer refuses a tool that is not there as it does without the guard, $way",
    async ({ guarded }) => {
      const server = new McpServer(INFO);
      if (guarded) guardMcpServer(openLedger(), server, { scope: null });
      const zod = sdk === "1.13.0" ? z3 : z;
      const inputSchema = major === 1 ? { title: zod.string() } : z.object({ title: z.string() });
      server.registerTool("create_issue", { inputSchema }, async () => text("run"));
      const { result } = await connect(server, major);
      const said = await result("made_up").then(textOf, ({ message }: Error) => message);
      expect(said).toMatch(/^(MCP error -32602: )*Tool made_up not found$/);
    },
  );

  it("is guarded once", () => {
    const server = guardMcpServer(openLedger(), new Server(INFO), { scope: null });
    expect(() => guardMcpServer(openLedger(), server, { scope: null })).toThrow(/guarded already/);
  });
});

it("the oldest versions that are tested are the oldest that are stated as peers", () => {
  const read = (path: string) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
  const { dependencies } = read("./package.json");
  const { peerDependencies } = read("../../package.json");
  for (const [peer, oldest] of [
    ["@modelcontextprotocol/sdk", "mcp-sdk-oldest"],
    ["@modelcontextprotocol/server", "mcp-server-oldest"],
  ] as const) {
    expect(dependencies[oldest]).toBe(`npm:${peer}@${peerDependencies[peer].slice(1)}`);
    expect(dependencies[peer].split(".")[0]).toBe(peerDependencies[peer].slice(1).split(".")[0]);
  }
});

it("SDK 2.x: a tool that answers with a task is asked for by the server's own tasks/get and tasks/result", async () => {
  const { Server, methods } = SDKS[1] as (typeof SDKS)[number];
  const nt = openLedger();
  const server = guardMcpServer(nt, new Server(INFO, { capabilities: { tools: {}, tasks: {} } }), { scope: null });
  let status = "working";
  let runs = 0;
  const task = () => ({ taskId: "t1", status, ttl: null, createdAt: AT, lastUpdatedAt: AT, pollInterval: 50 });
  server.setRequestHandler(methods.list, () => ({ tools: TOOLS }));
  server.setRequestHandler(methods.call, async () => ({ content: [], task: task(), runs: ++runs }));
  server.setRequestHandler("tasks/get", async () => task());
  server.setRequestHandler("tasks/result", async () => text("issue #1"));
  const { client } = await connect(server, 2);
  const params = { name: "create_issue", arguments: { title: "one" }, task: {} };
  const begin = () => client.request({ method: "tools/call", params });
  const states = async () => (await nt.store.list({ limit: 10 })).items.map(({ record }) => record.state);
  expect(await begin()).toMatchObject({ task: { taskId: "t1", status: "working" } });
  expect(await states()).toEqual(["sent"]);
  status = "completed";
  await expect.poll(states).toEqual(["confirmed"]);
  expect(textOf(await begin())).toMatch(/^Already done at .*issue #1$/s);
  expect(runs).toBe(1);
});

const AT = "2026-01-01T00:00:00Z";
