// The same server on SDK 2.x, which speaks protocol revision 2026-07-28 and the ones before.
// node mail-server-2.mjs <provider>  |  node mail-server-2.mjs <provider> http   (prints its port)
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const [provider, how] = process.argv.slice(2);
const inputSchema = z.object({ to: z.string(), body: z.string().optional() });

function mailServer() {
  const server = new McpServer({ name: "mail", version: "2.0.0" });
  server.registerTool("send_mail", { description: "sends a mail", inputSchema }, async (mail) => {
    const answer = await fetch(provider, {
      method: "POST",
      body: JSON.stringify(mail),
      headers: { connection: "close" },
    });
    const { id } = await answer.json();
    return { content: [{ type: "text", text: `sent ${id}` }] };
  });
  return server;
}

if (how === "http") http();
else serveStdio(mailServer);

/** The SDK's handler takes web requests. */
function http() {
  const handler = createMcpHandler(mailServer);
  const listener = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { method, headers } = request;
    const given = new Request(new URL(request.url, "http://127.0.0.1"), {
      method,
      headers,
      ...(body !== "" && { body }),
    });
    const answer = await handler.fetch(given);
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  });
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
}
