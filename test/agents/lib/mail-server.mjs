// An MCP server as people write them, with the official SDK: send_mail has an effect, list_mails looks.
// node mail-server.mjs stdio <provider>  |  node mail-server.mjs http <provider>   (prints its port)
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const [how, provider, fate] = process.argv.slice(2);

function mailServer() {
  const server = new McpServer({ name: "mail", version: "1.0.0" });
  server.registerTool(
    "send_mail",
    { inputSchema: { to: z.string(), body: z.string().optional(), amount: z.number().optional() } },
    async (mail) => {
      if (mail.to === "nobody") return { isError: true, content: [{ type: "text", text: "no such address" }] };
      const answer = await fetch(provider, {
        method: "POST",
        body: JSON.stringify(mail),
        headers: { connection: "close" },
      });
      if (fate === "die") process.kill(process.pid, "SIGKILL");
      const { id } = await answer.json();
      return { content: [{ type: "text", text: `sent ${id}` }] };
    },
  );
  server.registerTool("list_mails", { annotations: { readOnlyHint: true } }, async () => {
    const { mails } = await (await fetch(provider)).json();
    return { content: [{ type: "text", text: JSON.stringify(mails) }] };
  });
  return server;
}

if (how === "stdio") await mailServer().connect(new StdioServerTransport());
else await http();

async function http() {
  const sessions = new Map();
  const listener = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    if (request.url === "/forget") {
      // As after a restart: sessions are gone, what was done is done.
      sessions.clear();
      return response.writeHead(204).end();
    }
    if (id === undefined && request.method === "POST") {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void sessions.set(session, transport),
      });
      await mailServer().connect(transport);
      return transport.handleRequest(request, response);
    }
    const transport = sessions.get(id);
    if (transport === undefined) {
      const error = { jsonrpc: "2.0", id: null, error: { code: -32001, message: "Session not found" } };
      return response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify(error));
    }
    return transport.handleRequest(request, response);
  });
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
}
