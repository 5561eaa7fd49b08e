// A server on SDK 2.x whose tool returns what it has to know first (input_required, protocol revision 2026-07-28). Clients of the
// revisions before are asked by the SDK while the call runs. Each effect is a line of effects.log in its folder.
// node confirm-server-2.mjs stdio <folder>  |  node confirm-server-2.mjs http <folder>   (prints its port)
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createMcpHandler, inputRequired, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const [how, folder] = process.argv.slice(2);
const question = {
  message: "Really?",
  requestedSchema: { type: "object", properties: { sure: { type: "boolean" } } },
};

function confirmServer() {
  const server = new McpServer({ name: "confirm", version: "2.0.0" });
  server.registerTool("send", { inputSchema: z.object({ to: z.string() }) }, async ({ to }, { mcpReq }) => {
    const answer = mcpReq.inputResponses?.confirm;
    if (answer === undefined) return inputRequired({ inputRequests: { confirm: inputRequired.elicit(question) } });
    if (answer.action !== "accept") return { content: [{ type: "text", text: "not sent" }] };
    appendFileSync(join(folder, "effects.log"), `send ${to}\n`);
    return { content: [{ type: "text", text: `sent to ${to}` }] };
  });
  return server;
}

if (how === "stdio") serveStdio(confirmServer);
else http();

function http() {
  const handler = createMcpHandler(confirmServer);
  const listener = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { method, headers } = request;
    const given = { method, headers, ...(body !== "" && { body }) };
    const answer = await handler.fetch(new Request(new URL(request.url, "http://127.0.0.1"), given));
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  });
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
}
