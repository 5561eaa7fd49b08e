// MCP servers with a guarded send_mail: an McpServer, a low-level Server, and a tool that is guarded by itself.
import { z } from "zod";
import { guardMcpServer, guardMcpTool } from "../../../dist/agents/mcp/server/index.js";

const INFO = { name: "mail", version: "1.0.0" };
const options = { key: ["to"], free: ["body"] };

/** `sdk`: the classes of one major version, as in mcp-sdks.ts; `kind`: "high", "low" or "tool". */
export function guardedServer(nt, { sdk, kind, provider, scope }) {
  const send = async (mail) => {
    const answer = await fetch(provider, {
      method: "POST",
      body: JSON.stringify(mail),
      headers: { connection: "close" },
    });
    return { content: [{ type: "text", text: `sent ${(await answer.json()).id}` }] };
  };
  const guarded = (server) => guardMcpServer(nt, server, { scope, tools: { send_mail: options } });
  if (kind === "low") {
    const server = guarded(new sdk.Server(INFO, { capabilities: { tools: {} } }));
    const properties = { to: { type: "string" }, body: { type: "string" } };
    const tools = [{ name: "send_mail", inputSchema: { type: "object", properties } }];
    server.setRequestHandler(sdk.methods.list, () => ({ tools }));
    server.setRequestHandler(sdk.methods.call, ({ params }) => send(params.arguments));
    return server;
  }
  const shape = { to: z.string(), body: z.string() };
  const config = { inputSchema: sdk.major === 1 ? shape : z.object(shape) };
  const bare = new sdk.McpServer(INFO);
  const server = kind === "high" ? guarded(bare) : bare;
  const own = kind === "high" ? send : guardMcpTool(nt, "send_mail", config, send, { scope, ...options });
  server.registerTool("send_mail", config, own);
  return server;
}
