// Servers for `mcp init`. readers: tools that read by their own word, and answer in three ways. fetch: the one tool that the
// reference server fetch has (mcp-server-fetch, which is written in Python), with its arguments.
// node readers-server.mjs readers | fetch
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const [which] = process.argv.slice(2);
const server = new McpServer({ name: which, version: "1.0.0" });
const text = (said) => ({ content: [{ type: "text", text: said }] });
const annotations = { readOnlyHint: true };

if (which === "readers") {
  server.registerTool("list_mails", { annotations }, async () => text('[{"id":1}]'));
  server.registerTool("get_motto", { annotations }, async () => text("one thing at a time"));
  server.registerTool("get_weather", { annotations }, async () => ({ isError: true, ...text("no network") }));
  server.registerTool("get_mail", { annotations, inputSchema: { id: z.string() } }, async ({ id }) => text(id));
  server.registerTool("get_next", {}, async () => text("not called: it does not say that it reads"));
} else {
  const inputSchema = {
    url: z.string(),
    max_length: z.number().default(5_000),
    start_index: z.number().default(0),
    raw: z.boolean().default(false),
  };
  server.registerTool("fetch", { inputSchema }, async ({ url }) => text(url));
}
await server.connect(new StdioServerTransport());
