/** What a tool's key is made of, however the tool was registered, and as it changes. */
import { fromJsonSchema } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import * as z3 from "zod/v3";
import { guardMcpServer } from "../../dist/agents/mcp/server/index.js";
import { type Any, connect, counter, INFO, openLedger, SDKS, type Sdk } from "./lib/mcp-sdks.ts";
import { WAYS } from "./lib/stories.ts";

/** SDK 1.13.0 knows zod 3 alone. */
const zodsOf = ({ sdk }: Sdk): readonly [string, Any][] =>
  sdk === "1.13.0"
    ? [["zod 3", z3]]
    : [
        ["zod 3", z3],
        ["zod 4", z],
        ["zod/mini", mini],
      ];

const FIRST = SDKS.filter(({ major }) => major === 1);

/** Every overload of the older tool(): those that take arguments, and those that take none. */
const overloads = (zod: Any): readonly [string, readonly unknown[], boolean][] => {
  const shape = { title: zod.string() };
  return [
    ["tool(name, cb)", [], false],
    ["tool(name, description, cb)", ["makes an issue"], false],
    ["tool(name, annotations, cb)", [{ title: "Issue", destructiveHint: false }], false],
    ["tool(name, description, annotations, cb)", ["makes an issue", { title: "Issue", openWorldHint: true }], false],
    ["tool(name, shape, cb)", [shape], true],
    [
      "tool(name, shape, cb), a field like a hint",
      [{ title: zod.string(), readOnlyHint: zod.optional(zod.string()) }],
      true,
    ],
    ["tool(name, description, shape, cb)", ["makes an issue", shape], true],
    ["tool(name, shape, annotations, cb)", [shape, { title: "Issue" }], true],
    ["tool(name, description, shape, annotations, cb)", ["makes an issue", shape, { title: "Issue" }], true],
  ];
};
const OVERLOADS = FIRST.flatMap((sdk) =>
  zodsOf(sdk).flatMap(([lib, zod]) =>
    overloads(withOptional(zod)).map(([overload, given, takes]) => ({ ...sdk, lib, overload, given, takes })),
  ),
);

function withOptional(zod: Any): Any {
  return { ...zod, string: zod.string, optional: zod.optional ?? ((one: Any) => one.optional()) };
}

describe.each(OVERLOADS)("SDK $sdk, $lib: $overload", ({ McpServer, major, given, takes }) => {
  it.each(WAYS)("other arguments are another intent, the same ones are a repeat, $way", async ({ guarded }) => {
    const bare = new McpServer(INFO);
    const server = guarded ? guardMcpServer(openLedger(), bare, { scope: null }) : bare;
    const { seen, callback } = counter();
    server.tool("create_issue", ...given, callback);
    const { call } = await connect(server, major);
    const said = [];
    for (const title of ["one", "two", "two"]) said.push(await call("create_issue", { title }));
    const once = takes ? [{ title: "one" }, { title: "two" }] : [undefined];
    const each = takes ? [...once, { title: "two" }] : [undefined, undefined, undefined];
    expect(seen).toEqual(guarded ? once : each);
    if (guarded) expect(said[2]).toMatch(/^Already done/);
    if (guarded && takes) expect(said[1]).toBe('run 2 {"title":"two"}');
  });
});

/** What registerTool takes for a schema. */
const schemas = (sdk: Sdk): readonly (readonly [string, unknown])[] => [
  ...zodsOf(sdk).flatMap(([lib, zod]): [string, unknown][] => {
    const shape = { title: zod.string(), annotations: withOptional(zod).optional(zod.string()) };
    // SDK 2.x takes zod 4 alone in a raw shape; a zod 3 object is no schema that it can list.
    if (sdk.major === 2 && lib === "zod 3") return [];
    const object: [string, unknown] = [`an object of ${lib}`, zod.object(shape)];
    return sdk.sdk === "1.13.0" ? [[`a shape of ${lib}`, shape]] : [[`a shape of ${lib}`, shape], object];
  }),
  ...(sdk.major === 2
    ? ([
        ["JSON Schema", fromJsonSchema({ type: "object", properties: { title: { type: "string" } } } as never)],
      ] as const)
    : []),
  ...(sdk.major === 1 && sdk.sdk !== "1.13.0"
    ? ([
        ["a preprocessed object", z.preprocess((one) => one, z.object({ title: z.string() }))],
        ["a record", z.record(z.string(), z.string())],
      ] as const)
    : []),
];
const SCHEMAS = SDKS.flatMap((sdk) => schemas(sdk).map(([schema, inputSchema]) => ({ ...sdk, schema, inputSchema })));

describe.each(SCHEMAS)("SDK $sdk: registerTool with $schema", ({ McpServer, major, inputSchema }) => {
  it.each(["before", "after"])("each title is an intent of its own, guarded %s", async (when) => {
    const server = new McpServer(INFO);
    const guard = () => guardMcpServer(openLedger(), server, { scope: null });
    if (when === "before") guard();
    const { seen, callback } = counter();
    server.registerTool("create_issue", { inputSchema, annotations: { title: "Issue" } }, callback);
    if (when === "after") guard();
    const { call } = await connect(server, major);
    for (const title of ["one", "two", "two"]) await call("create_issue", { title });
    expect(seen).toEqual([{ title: "one" }, { title: "two" }]);
  });

  it("all arguments free: refused when it is registered, unless a key says what is meant", async () => {
    const free = { free: ["title", "annotations"] };
    const { seen, callback } = counter();
    const server = guardMcpServer(openLedger(), new McpServer(INFO), {
      scope: null,
      tools: { create_issue: free, once: { ...free, key: () => ["once"] } },
    }) as Any;
    const known = !(inputSchema instanceof z.ZodRecord);
    const register = () => server.registerTool("create_issue", { inputSchema }, callback);
    if (known) {
      expect(register).toThrow(/tool "create_issue": all of its arguments \(title.*are free/);
      // The next tool's registration shows that nothing was left behind.
      expect(register).toThrow(/are free/);
    } else register();
    server.registerTool("once", { inputSchema }, callback);
    const { call, result } = await connect(server, major);
    for (const title of ["one", "two"]) await call("once", { title });
    expect(seen).toEqual([{ title: "one" }]);
    // A schema whose fields cannot be read: its calls decide.
    if (known) return;
    const refused = await result("create_issue", { title: "one" });
    expect(refused).toMatchObject({ isError: true });
    expect(refused.content[0].text).toMatch(/all arguments of this call \(title\) are free/);
    expect(seen).toHaveLength(1);
  });
});

describe.each(FIRST)("SDK $sdk: what tool() takes for annotations", ({ McpServer }) => {
  it.each([
    ["a whole schema", z3.object({ title: z3.string() })],
    ["JSON Schema", { type: "object", properties: { title: { type: "string" } } }],
    ["JSON Schema without properties", { type: "object" }],
  ])("%s is refused, and the tool is not there", async (_, given) => {
    const server = guardMcpServer(openLedger(), new McpServer(INFO), { scope: null }) as Any;
    expect(() => server.tool("create_issue", given, counter().callback)).toThrow(
      /for annotations|expected a Zod schema or ToolAnnotations/,
    );
    expect(server._registeredTools).toEqual({});
  });
});

describe.each(SDKS)("SDK $sdk: a tool that changes", ({ sdk, McpServer, major }) => {
  const zod = sdk === "1.13.0" ? z3 : z;
  const shape = { title: zod.string() } as Any;
  const paramsSchema = major === 1 ? shape : z.object(shape);
  const none = major === 1 ? {} : z.object({});
  const setUp = (config: object, options: object = {}) => {
    const server = guardMcpServer(openLedger(), new McpServer(INFO), { scope: null, ...options }) as Any;
    const { seen, callback } = counter();
    return { server, seen, callback, tool: server.registerTool("create_issue", config, callback) };
  };

  it("one without arguments that gets some", async () => {
    const { server, seen, tool } = setUp({});
    const { call } = await connect(server, major);
    expect([await call("create_issue"), await call("create_issue")]).toEqual([
      "run 1 null",
      expect.stringMatching(/^Already/),
    ]);
    tool.update({ paramsSchema });
    for (const title of ["one", "two", "two"]) await call("create_issue", { title });
    expect(seen).toEqual([undefined, { title: "one" }, { title: "two" }]);
  });

  it("one with arguments that loses them", async () => {
    const { server, seen, tool } = setUp({ inputSchema: paramsSchema });
    const { call } = await connect(server, major);
    await call("create_issue", { title: "one" });
    tool.update({ paramsSchema: none });
    for (const title of ["one", "two"]) await call("create_issue", { title });
    expect(seen).toEqual([{ title: "one" }, {}]);
  });

  it("a schema whose fields are all free is refused, and the tool stays as it was", async () => {
    const { server, seen, tool } = setUp({}, { tools: { create_issue: { free: ["title"] } } });
    expect(() => tool.update({ paramsSchema })).toThrow(/are free/);
    const { call } = await connect(server, major);
    await call("create_issue", { title: "one" });
    expect(seen).toEqual([undefined]);
  });

  it("its hints, its callback, enabled or not, removed and registered again", async () => {
    const { server, seen, tool } = setUp({ inputSchema: paramsSchema });
    const { call, result } = await connect(server, major);
    for (let time = 0; time < 2; time += 1) await call("create_issue", { title: "one" });
    expect(seen).toHaveLength(1);
    tool.update({ annotations: { readOnlyHint: true } });
    for (let time = 0; time < 2; time += 1) await call("create_issue", { title: "one" });
    expect(seen).toHaveLength(3);
    tool.update({ annotations: {} });
    expect(await call("create_issue", { title: "one" })).toMatch(/^Already/);
    tool.disable();
    await expect(result("create_issue", { title: "two" }).then(refusedOr)).rejects.toThrow(/disabled/);
    tool.enable();
    const other = counter();
    tool.update({ callback: other.callback });
    for (let time = 0; time < 2; time += 1) await call("create_issue", { title: "two" });
    expect([seen.length, other.seen.length]).toEqual([3, 1]);
    tool.remove();
    await expect(result("create_issue", { title: "two" }).then(refusedOr)).rejects.toThrow(/not found/);
    server.registerTool("create_issue", { inputSchema: paramsSchema }, other.callback);
    expect(await call("create_issue", { title: "two" })).toMatch(/^Already/);
  });

  it("under another name it has the guard of that name, and its old name may be another tool's", async () => {
    const { server, seen, tool } = setUp(
      { inputSchema: paramsSchema },
      { tools: { old_issue: { errors: "not-done" } } },
    );
    const { call } = await connect(server, major);
    await call("create_issue", { title: "one" });
    tool.update({ name: "old_issue" });
    for (let time = 0; time < 2; time += 1) expect(await call("old_issue", { title: "one" })).toContain("run 2");
    const other = counter();
    server.registerTool("create_issue", { inputSchema: paramsSchema }, other.callback);
    expect(await call("create_issue", { title: "one" })).toMatch(/^Already done.*create_issue/s);
    expect(await call("create_issue", { title: "two" })).toContain("run 1");
    expect([seen.length, other.seen.length]).toEqual([2, 1]);
  });
});

/** SDK 1.x answers with an error result where others throw. */
function refusedOr(result: Any): Any {
  if (result.isError) throw new Error(result.content[0].text);
  return result;
}
