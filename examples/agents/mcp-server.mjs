// npm install nevertwice @modelcontextprotocol/sdk zod
// A server of your own: one line guards the tools it registers. The client here gives up too early and calls again.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { nevertwice } from "nevertwice";
import { guardMcpServer } from "nevertwice/agents/mcp";
import { z } from "zod";

const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
const issues = [];

// scope: one client here, as over stdio; over HTTP subjectOf or sessionOf, which nevertwice/agents/mcp has.
// errors: an error of this tool means that nothing was done. Leave it out where one may come after the effect.
const server = guardMcpServer(nt, new McpServer({ name: "tracker", version: "1.0.0" }), {
  scope: null,
  tools: { create_issue: { key: ["title"], free: ["body"], errors: "not-done" } },
});
server.registerTool("create_issue", { inputSchema: { title: z.string(), body: z.string() } }, async ({ title }) => {
  const number = issues.push(title);
  await new Promise((slow) => setTimeout(slow, 300));
  return { content: [{ type: "text", text: `issue #${number}` }] };
});

const client = new Client({ name: "agent", version: "1.0.0" });
const [here, there] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(there), client.connect(here)]);

const issue = { name: "create_issue", arguments: { title: "Printer burns", body: "Since noon." } };
await client.callTool(issue, undefined, { timeout: 100 }).catch(({ message }) => console.log(message)); // → MCP error -32001: Request timed out
const again = await client.callTool(issue);
console.log(again.content.at(-1).text, issues.length); // → issue #1 1
await client.close();
await nt.close();
