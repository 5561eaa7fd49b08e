/** MCP servers of the OpenAI Agents SDK, called by a runner with a scripted model, bare and guarded. */
import { Agent, hostedMcpTool, MCPServerStdio, MCPServerStreamableHttp, Runner } from "@openai/agents";
import { describe, expect, it, onTestFinished } from "vitest";
import { guardOpenAiMcpServer } from "../../dist/agents/frameworks/openai-agents.js";
import { nevertwice } from "../../dist/index.js";
import { scripted } from "./lib/agents/openai-agents.mjs";
import { startMailProvider } from "./lib/mail-provider.ts";
import { MAIL_SERVER, mailServerOnHttp } from "./lib/mcp.ts";

// biome-ignore lint/suspicious/noExplicitAny: servers of the SDK, called by shape
type Any = any;

const CONNECTIONS: Record<string, (provider: string, more?: object) => Promise<Any>> = {
  stdio: async (provider, more) =>
    new MCPServerStdio({ name: "mail", command: process.execPath, args: [MAIL_SERVER, "stdio", provider], ...more }),
  "streamable HTTP": async (provider, more) =>
    new MCPServerStreamableHttp({ name: "mail", url: await mailServerOnHttp(provider), ...more }),
};

async function setUp(connection: keyof typeof CONNECTIONS, more?: object) {
  const provider = await startMailProvider();
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  const server = await (CONNECTIONS[connection] as (typeof CONNECTIONS)[string])(provider.url, more);
  onTestFinished(async () => {
    await server.close();
    await nt.close();
  });
  return { provider, nt, server };
}

const scope = ({ runContext }: Any) => runContext?.context.thread;
const options = { scope, tools: { send_mail: { key: ["to"], free: ["body"] } } };

async function converse(server: Any, steps: Any[], { tool = "send_mail", thread = "t1" } = {}): Promise<string[]> {
  const model = scripted(steps, tool) as Any;
  const agent = new Agent({ name: "a", instructions: "b", model, mcpServers: [server] });
  await new Runner().run(agent, "mail them", { context: { thread } });
  return model.seen
    .filter(({ type }: Any) => type === "function_call_result")
    .map(({ output }: Any) => JSON.stringify(output));
}

describe.each(Object.keys(CONNECTIONS))("an MCP server of OpenAI Agents on %s", (connection) => {
  it.each([
    { way: "bare", guarded: false },
    { way: "guarded", guarded: true },
  ])("the model repeats itself in other words, in the same conversation and in another, $way", async ({ guarded }) => {
    const { provider, nt, server } = await setUp(connection);
    const used = guarded ? guardOpenAiMcpServer(nt, server, options) : server;
    await used.connect();
    const ada = { to: "ada", body: "Hello", amount: 1 };
    const told = await converse(used, [[ada], [{ ...ada, body: "Good day" }]]);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    if (guarded) {
      expect(told[0]).not.toContain("Already done");
      expect(told[1]).toMatch(/Already done at .*Your body differs.*sent mail_1/s);
      expect((await converse(used, [[{ ...ada, amount: 2 }]]))[0]).toMatch(/Refused, and nothing was done/);
    }
    const other = await converse(used, [[ada]], { thread: "t2" });
    expect(other[0]).toMatch(guarded ? /sent mail_2/ : /sent mail_3/);
  });
});

describe("an MCP server of OpenAI Agents", () => {
  it("a tool that only reads passes, by the server's own word", async () => {
    const { provider, nt, server } = await setUp("stdio");
    const guarded = guardOpenAiMcpServer(nt, server, options);
    await guarded.connect();
    expect((await converse(guarded, [[{}]], { tool: "list_mails" }))[0]).not.toContain("mail_1");
    await converse(guarded, [[{ to: "ada", body: "Hello", amount: 1 }]]);
    expect((await converse(guarded, [[{}]], { tool: "list_mails" }))[0]).toContain("mail_1");
    expect(provider.mails).toHaveLength(1);
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.map(({ record }) => record.action)).toEqual(["mail.send_mail"]);
  });

  it("also where the SDK has the list from before", async () => {
    const { nt, server } = await setUp("stdio", { cacheToolsList: true });
    await server.connect();
    await converse(server, [[{}]], { tool: "list_mails" });
    const guarded = guardOpenAiMcpServer(nt, server, { scope });
    await converse(guarded, [[{}]], { tool: "list_mails" });
    expect((await nt.store.list({ limit: 10 })).items).toEqual([]);
  });

  it("an error that the server answers with is no success: a doubt, or not done where the options say so", async () => {
    const { nt, server } = await setUp("stdio");
    await server.connect();
    const nobody = { to: "nobody", body: "Hello", amount: 1 };
    const told = await converse(guardOpenAiMcpServer(nt, server, options), [[nobody], [nobody]]);
    expect(told[0]).toMatch(/It may have happened/);
    expect(told[1]).toMatch(/It may have happened/);
    const notDone = { scope: null, tools: { send_mail: { action: "other", errors: "not-done" as const } } };
    const again = await converse(guardOpenAiMcpServer(nt, server, notDone), [[nobody], [nobody]]);
    for (const answer of again) expect(answer).toMatch(/no such address/);
    expect(again.join()).not.toMatch(/may have happened|Already done/);
    const unfit = await converse(guardOpenAiMcpServer(nt, server, options), [
      [{ to: 7 } as never],
      [{ to: "eve", amount: 1 }],
    ]);
    expect(unfit[1]).toContain("sent mail_1");
  });

  it("a run without what the scope needs is refused in words, and nothing runs", async () => {
    const { provider, nt, server } = await setUp("stdio");
    const guarded = guardOpenAiMcpServer(nt, server, { scope: () => undefined });
    await guarded.connect();
    const told = await converse(guarded, [[{ to: "ada", amount: 1 }]]);
    expect(told[0]).toMatch(/scope gave undefined for this call\. Nothing was run/);
    expect(told[0]).not.toMatch(/try again/);
    expect(provider.mails).toHaveLength(0);
  });

  it("metadata and other settings of the server stay", async () => {
    const seen: unknown[] = [];
    const toolMetaResolver = ({ toolName }: Any) => {
      seen.push(toolName);
      return { from: "test" };
    };
    const { nt, server } = await setUp("stdio", { toolMetaResolver });
    const guarded = guardOpenAiMcpServer(nt, server, options);
    expect(guarded).toBeInstanceOf(MCPServerStdio);
    expect(guarded.name).toBe("mail");
    await guarded.connect();
    const told = await converse(guarded, [[{ to: "ada", amount: 1 }]]);
    expect(told[0]).toContain("sent mail_1");
    expect(seen).toEqual(["send_mail"]);
  });

  it("what cannot be guarded is refused, and it says what to do", async () => {
    const { nt, server } = await setUp("stdio");
    const guard =
      (one: Any, own: Any = options) =>
      () =>
        guardOpenAiMcpServer(nt, one, own);
    expect(guard(server, {})).toThrow(/scope is not given.*runContext\?\.context\.userId, or scope: null/);
    expect(guard(hostedMcpTool({ serverLabel: "x", serverUrl: "https://example.com/mcp" }))).toThrow(
      /a hosted MCP tool is called by OpenAI, not by this program.*MCPServerStreamableHttp/,
    );
    expect(guard({})).toThrow(/must be an MCP server of the OpenAI Agents SDK/);
    expect(guard({ name: "own", listTools() {}, callTool() {} })).toThrow(/has no callToolResult\(\)/);
    expect(guard(new MCPServerStdio({ command: "node", args: [] }))).toThrow(
      /the server has no name.*part of every key/,
    );
  });
});
