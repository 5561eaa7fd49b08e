/** What a user declined, and what a result itself calls an error, is not done. */
import { ElicitResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { guardMcpServer, guardMcpTool } from "../../dist/agents/mcp/server/index.js";
import { type Any, connect, INFO, NEWEST, openLedger } from "./lib/mcp-sdks.ts";
import { WAYS } from "./lib/stories.ts";

const QUESTION = { message: "Send it?", requestedSchema: { type: "object" as const, properties: {} } };
const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });

/** The ways by which a tool asks the user. */
const asksOf = (major: 1 | 2): Record<string, (server: Any, extra: Any) => Promise<Any>> => ({
  "server.server.elicitInput": (server) => server.server.elicitInput(QUESTION),
  ...(major === 1
    ? {
        "extra.sendRequest": (_: Any, extra: Any) =>
          extra.sendRequest({ method: "elicitation/create", params: QUESTION }, ElicitResultSchema),
        "server.server.request": (server: Any) =>
          server.server.request({ method: "elicitation/create", params: QUESTION }, ElicitResultSchema),
      }
    : {
        "ctx.mcpReq.elicitInput": (_: Any, ctx: Any) => ctx.mcpReq.elicitInput(QUESTION),
        "ctx.mcpReq.send": (_: Any, ctx: Any) => ctx.mcpReq.send({ method: "elicitation/create", params: QUESTION }),
      }),
});

const CASES = NEWEST.flatMap((sdk) =>
  Object.entries(asksOf(sdk.major)).map(([means, ask]) => ({ ...sdk, means, ask })),
);

interface Story {
  readonly answers: readonly string[];
  readonly tool?: (ask: () => Promise<string>, send: () => void) => Promise<Any>;
  readonly options?: object;
}

/** Asks, and sends if the user accepts. */
const asking = async (ask: () => Promise<string>, send: () => void) => {
  if ((await ask()) !== "accept") return text("not sent");
  send();
  return text("sent");
};

async function told({ McpServer, major, ask }: (typeof CASES)[number], guarded: boolean, story: Story, calls = 2) {
  const { answers, tool = asking, options = {} } = story;
  const nt = openLedger();
  const bare = new McpServer(INFO);
  const server = guarded ? guardMcpServer(nt, bare, { scope: null, tools: { send: options } }) : bare;
  const asked = [...answers];
  let sent = 0;
  const inputSchema = z.object({ to: z.string() });
  server.registerTool("send", { inputSchema }, async (_args: Any, extra: Any) =>
    tool(
      async () => (await ask(server, extra)).action,
      () => {
        sent += 1;
      },
    ),
  );
  const elicit = () => ({ action: asked.shift() ?? "accept", content: {} });
  const { call } = await connect(server, major, { elicit });
  const said = [];
  for (let time = 0; time < calls; time += 1) said.push(await call("send", { to: "ada" }));
  const { items } = await nt.store.list({ limit: 10 });
  return { said, sent, states: items.map(({ record }) => record.state) };
}

describe.each(CASES)("SDK $sdk, a tool that asks by $means", (sdk) => {
  it.each(["decline", "cancel"])("%s: it did not happen, and the next call runs", async (action) => {
    for (const { guarded } of WAYS) {
      const { said, sent } = await told(sdk, guarded, { answers: [action, "accept"] });
      expect(said).toEqual(["not sent", "sent"]);
      expect(sent).toBe(1);
    }
  });

  it("accepted: it is done, and a repeat asks nobody", async () => {
    const { said, sent } = await told(sdk, true, { answers: ["accept", "accept"] });
    expect(said).toEqual(["sent", expect.stringMatching(/^Already done.*sent$/s)]);
    expect(sent).toBe(1);
  });

  it("declined, asked again, accepted: it is done", async () => {
    const tool: Story["tool"] = async (ask, send) => ((await ask()) === "accept" ? text("?") : asking(ask, send));
    const { said, sent } = await told(sdk, true, { answers: ["decline", "accept"], tool });
    expect(said).toEqual(["sent", expect.stringMatching(/^Already done/)]);
    expect(sent).toBe(1);
  });

  it("accepted, sent, and something else declined: nobody knows, and it is not sent again", async () => {
    const tool: Story["tool"] = async (ask, send) => {
      const first = await asking(ask, send);
      return (await ask()) === "accept" ? text("sent, and a copy kept") : first;
    };
    const { said, sent } = await told(sdk, true, { answers: ["accept", "decline"], tool });
    for (const one of said) expect(one).toMatch(/It may have happened/);
    expect(sent).toBe(1);
    const known = await told(sdk, true, { answers: ["accept", "decline"], tool, options: { declined: "answer" } });
    expect(known.said).toEqual(["sent", expect.stringMatching(/^Already done.*sent$/s)]);
  });

  it("a tool that goes on all the same: its option says so", async () => {
    const tool: Story["tool"] = async (ask, send) => {
      const note = (await ask()) === "accept" ? "with a note" : "without a note";
      send();
      return text(`sent ${note}`);
    };
    const unsaid = await told(sdk, true, { answers: ["decline", "decline"], tool });
    expect(unsaid.sent).toBe(2);
    const { said, sent } = await told(sdk, true, { answers: ["decline"], tool, options: { declined: "answer" } });
    expect(said).toEqual(["sent without a note", expect.stringMatching(/^Already done.*without a note$/s)]);
    expect(sent).toBe(1);
  });

  it.each([
    ["thrown", async () => Promise.reject(new Error("Cancelled by the user"))],
    ["returned", async () => ({ ...text("Cancelled by the user"), isError: true })],
  ])("a decline that is reported as an error, %s: not done", async (_, fail) => {
    const tool: Story["tool"] = async (ask, send) => {
      const answer = await ask();
      if (answer !== "accept") return fail();
      send();
      return text("sent");
    };
    const { said, sent, states } = await told(sdk, true, { answers: ["decline", "accept"], tool });
    expect(said).toEqual(["Cancelled by the user", "sent"]);
    expect([sent, states]).toEqual([1, ["confirmed"]]);
  });

  it("a lost answer after a decline is in doubt all the same", async () => {
    const tool: Story["tool"] = async (ask, send) => {
      await ask();
      send();
      throw new Error("socket hang up");
    };
    const { said, sent } = await told(sdk, true, { answers: ["decline", "decline"], tool });
    for (const one of said) expect(one).toMatch(/It may have happened/);
    expect(sent).toBe(1);
  });
});

it.each(NEWEST)(
  "SDK $sdk, guardMcpTool: the means of the call's own context are heard",
  async ({ McpServer, major }) => {
    const nt = openLedger();
    const server = new McpServer(INFO);
    const [, [, ask]] = Object.entries(asksOf(major)) as Any;
    const config = { inputSchema: z.object({ to: z.string() }) };
    const callback = async (_: Any, extra: Any) => text((await ask(server, extra)).action);
    server.registerTool("send", config, guardMcpTool(nt, "send", config, callback, { scope: null }));
    const answers = ["decline", "accept"];
    const { call } = await connect(server, major, {
      elicit: () => ({ action: answers.shift() ?? "cancel", content: {} }),
    });
    const said = [];
    for (let time = 0; time < 3; time += 1) said.push(await call("send", { to: "ada" }));
    expect(said).toEqual(["decline", "accept", expect.stringMatching(/^Already done/)]);
  },
);

describe("SDK 2.x, a tool that returns what it needs to know (input_required)", () => {
  it("declined in the second round: not done; accepted: done", async () => {
    const { inputRequired, McpServer } = (await import("@modelcontextprotocol/server")) as Any;
    const server = guardMcpServer(openLedger(), new McpServer(INFO), { scope: null }) as Any;
    let sent = 0;
    server.registerTool("send", { inputSchema: z.object({ to: z.string() }) }, async (_: Any, ctx: Any) => {
      const answer = ctx.mcpReq.inputResponses?.confirm;
      if (answer === undefined) return inputRequired({ inputRequests: { confirm: inputRequired.elicit(QUESTION) } });
      if (answer.action !== "accept") return text("not sent");
      sent += 1;
      return text("sent");
    });
    const answers = ["decline", "accept"];
    const { call } = await connect(server, 2, { elicit: () => ({ action: answers.shift() ?? "cancel", content: {} }) });
    const said = [];
    for (let time = 0; time < 3; time += 1) said.push(await call("send", { to: "ada" }));
    expect(said).toEqual(["not sent", "sent", expect.stringMatching(/^Already done/)]);
    expect(sent).toBe(1);
  });
});

describe.each(NEWEST)("SDK $sdk, an error in an ordinary result", ({ McpServer, major }) => {
  const SOFT: readonly [string, object][] = [
    ["structured content", { content: [], structuredContent: { error: "no such user" } }],
    ["structured content beside text", { ...text("failed"), structuredContent: { success: false } }],
    ["its only text", text('{"error":"no such user"}')],
    ["its only text, success", text('{ "success": false, "message": "no such user" }')],
  ];
  const serve = async (result: object, own?: object) => {
    const runs = { count: 0 };
    const tools = own === undefined ? {} : { tools: { send: own } };
    const server = guardMcpServer(openLedger(), new McpServer(INFO), { scope: null, ...tools }) as Any;
    server.registerTool("send", { inputSchema: z.object({ to: z.string() }) }, async () => {
      runs.count += 1;
      return result;
    });
    const { call, result: whole } = await connect(server, major);
    return { runs, whole: () => whole("send", { to: "ada" }), call: () => call("send", { to: "ada" }) };
  };

  it.each(SOFT)('%s: errors: "not-done" lets the next call run', async (_, result) => {
    const { runs, whole } = await serve(result, { errors: "not-done" });
    for (let time = 0; time < 2; time += 1) expect(await whole()).toMatchObject(result);
    expect(runs.count).toBe(2);
  });

  it.each(SOFT)('%s: errors: "doubt" holds it', async (_, result) => {
    const { runs, call } = await serve(result, { errors: "doubt" });
    for (let time = 0; time < 2; time += 1) expect(await call()).toMatch(/It may have happened/);
    expect(runs.count).toBe(1);
  });

  it("a function of the result is asked", async () => {
    const errors = vi.fn(() => "not-done" as const);
    const { runs, call } = await serve(SOFT[0]?.[1] as object, { errors });
    for (let time = 0; time < 2; time += 1) await call();
    expect([runs.count, errors.mock.calls.length]).toEqual([2, 2]);
  });

  it.each(SOFT)("%s: where nobody said, it is kept, warned about once, and not called done", async (_, result) => {
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const { runs, call } = await serve(result);
    await call();
    const again = await call();
    expect(again).toMatch(/^It may have happened: send was called for this at .* answered with the error that follows/);
    expect(again).not.toContain("Already done");
    expect(runs.count).toBe(1);
    const said = warn.mock.calls.map(([message]) => String(message)).filter((one) => one.includes("recorded as done"));
    warn.mockRestore();
    expect(said).toHaveLength(1);
  });

  it.each([
    ["data beside an error", text('{"data":{"id":1},"error":"one row was skipped"}')],
    ["an error that is none", text('{"error":null,"id":"mail_1"}')],
    ["two texts", { content: [...text('{"error":"x"}').content, ...text("sent").content] }],
    ["a text that only begins like JSON", text("{error} handled")],
  ])("%s is a result like any other", async (_, result) => {
    const { runs, call } = await serve(result, { errors: "not-done" });
    await call();
    expect(await call()).toMatch(/^Already done/);
    expect(runs.count).toBe(1);
  });
});
