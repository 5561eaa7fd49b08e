// The least an MCP server can be: answers at once, so that what is measured is the way and not the tool.
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const result =
    method === "tools/list"
      ? { tools: [{ name: "note", inputSchema: { type: "object" } }] }
      : { content: [{ type: "text", text: `noted ${params?.arguments?.id}` }] };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
}
