// An MCP server with the official SDK whose tools are meant to be called again: a file of values, lamps, a list of tasks. Its state
// and its effects are in a folder, so that they outlive it.
// node state-server.mjs stdio <folder>  |  node state-server.mjs http <folder>   (prints its port)
// A file "hold" in the folder: answers wait until it is gone. A file "die": it is killed after its next effect.
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const [how, folder] = process.argv.slice(2);
const file = (name) => join(folder, name);

async function effect(what, change) {
  const state = existsSync(file("state.json")) ? JSON.parse(readFileSync(file("state.json"), "utf8")) : {};
  const text = change(state);
  writeFileSync(file("state.json"), JSON.stringify(state));
  appendFileSync(file("effects.log"), `${what} → ${text}\n`);
  if (existsSync(file("die"))) {
    rmSync(file("die"));
    process.kill(process.pid, "SIGKILL");
  }
  while (existsSync(file("hold"))) await sleep(10);
  return { content: [{ type: "text", text }] };
}

function stateServer() {
  const server = new McpServer({ name: "state", version: "1.0.0" });
  server.registerTool("write", { inputSchema: { path: z.string(), content: z.string() } }, ({ path, content }) =>
    effect(`write ${path}`, (state) => {
      state[path] = content;
      return `wrote ${content}`;
    }),
  );
  server.registerTool("toggle", { inputSchema: { lamp: z.string() } }, ({ lamp }) =>
    effect(`toggle ${lamp}`, (state) => {
      state[lamp] = state[lamp] === "on" ? "off" : "on";
      return state[lamp];
    }),
  );
  server.registerTool("next_task", {}, () =>
    effect("next_task", (state) => {
      state.task = (state.task ?? 0) + 1;
      return `task ${state.task}`;
    }),
  );
  server.registerTool("fail", {}, async () => {
    const { content } = await effect("fail", () => "failed");
    return { isError: true, content };
  });
  server.registerTool("read", { annotations: { readOnlyHint: true } }, async () => ({
    content: [{ type: "text", text: existsSync(file("state.json")) ? readFileSync(file("state.json"), "utf8") : "{}" }],
  }));
  return server;
}

if (how === "stdio") await stateServer().connect(new StdioServerTransport());
else {
  const sessions = new Map();
  const listener = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    if (id === undefined && request.method === "POST") {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void sessions.set(session, transport),
      });
      await stateServer().connect(transport);
      return transport.handleRequest(request, response);
    }
    const transport = sessions.get(id);
    if (transport !== undefined) return transport.handleRequest(request, response);
    const error = { jsonrpc: "2.0", id: null, error: { code: -32001, message: "Session not found" } };
    return response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify(error));
  });
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
}
