// The same server on SDK 2.x, which speaks protocol revision 2026-07-28: node mail-server-2.mjs <provider>
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const [provider] = process.argv.slice(2);
const server = new McpServer({ name: "mail", version: "2.0.0" });
const inputSchema = z.object({ to: z.string(), body: z.string().optional() });
server.registerTool("send_mail", { description: "sends a mail", inputSchema }, async (mail) => {
  const answer = await fetch(provider, {
    method: "POST",
    body: JSON.stringify(mail),
    headers: { connection: "close" },
  });
  const { id } = await answer.json();
  return { content: [{ type: "text", text: `sent ${id}` }] };
});
await server.connect(new StdioServerTransport());
