/** What a person gave as the result of a call whose answer was lost, as a client of the tool reads it. */
import { expect, it, onTestFinished } from "vitest";
import { FakeMcpServer } from "../../../test/support/fake-mcp-server.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { guardMcpServer } from "./server/index.ts";

async function repeatAfter(given: { readonly result?: unknown }) {
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  const server = new FakeMcpServer();
  const guarded = guardMcpServer(nt, server as never, { scope: null, tools: { pay: { key: ["n"] } } }) as FakeMcpServer;
  guarded.registerTool("pay", { inputSchema: { n: {} } }, async () => {
    throw new Error("socket hang up");
  });
  const call = () => server.handler("pay")({ n: "7" }, {}) as Promise<{ content: { type: string; text: string }[] }>;
  await call();
  const { items } = await nt.store.list({ action: "pay", limit: 1 });
  await nt.resolve({ key: items[0]?.record.key ?? "" }, { as: "done", by: "kim", reason: "found", ...given });
  const { content, ...rest } = await call();
  return { texts: content.map(({ type, text }) => `${type} ${text}`).slice(1), rest };
}

it.each([
  ["an object", { id: "inv_7" }, { texts: ['text {"id":"inv_7"}'], rest: { structuredContent: { id: "inv_7" } } }],
  ["a text", "inv_7", { texts: ["text inv_7"], rest: {} }],
  ["a list", [1, 2], { texts: ["text [1,2]"], rest: {} }],
  ["nothing", undefined, { texts: ["text (no result)"], rest: {} }],
  ["a result of MCP", { content: [{ type: "text", text: "paid" }] }, { texts: ["text paid"], rest: {} }],
  ["one that is empty", { content: [] }, { texts: [], rest: {} }],
])("%s is an answer that the model can read", async (_, result, answer) => {
  expect(await repeatAfter({ result })).toEqual(answer);
});
