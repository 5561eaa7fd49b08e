// An MCP server as people write them, with the official SDK 1.x: render runs as a task, send asks the user first. Each effect is a
// line of effects.log in its folder; a task ends as the file "end" there says: { "status": "completed", "text": "film.mp4" }.
// node film-server.mjs stdio <folder>  |  node film-server.mjs http <folder> [any]   (prints its port)
// any: a task may be asked for in every session. Without it each session has its own, as with the SDK's store.
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/index.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { ElicitResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const [how, folder, sessions] = process.argv.slice(2);
const effect = (line) => appendFileSync(join(folder, "effects.log"), `${line}\n`);
const text = (said) => ({ content: [{ type: "text", text: said }] });
const page = { mode: "url", message: "Look here", url: "https://pay.example/1", elicitationId: "1" };
const question = {
  message: "Really?",
  requestedSchema: { type: "object", properties: { sure: { type: "boolean" } } },
};

class AnySession extends InMemoryTaskStore {
  lookup(taskId) {
    return super.lookup(taskId, undefined);
  }
}
const taskStore = sessions === "any" ? new AnySession() : new InMemoryTaskStore();
const taskMessageQueue = new InMemoryTaskMessageQueue();

async function work(film, task, store, ask) {
  if (film === "asks first") {
    const { action } = await ask(task.taskId);
    if (action === "accept") effect(`render ${film}`);
    return store.storeTaskResult(task.taskId, "completed", text(action === "accept" ? "film.mp4" : "not rendered"));
  }
  effect(`render ${film}`);
  const file = join(folder, "end");
  while (!existsSync(file)) await new Promise((later) => setTimeout(later, 20));
  const { status, text: said } = JSON.parse(readFileSync(file, "utf8"));
  rmSync(file);
  if (status === "cancelled") return store.updateTaskStatus(task.taskId, "cancelled", said);
  return store.storeTaskResult(task.taskId, status, text(said));
}

/** `listens`: resolves when the client listens to what the server says by itself. */
function filmServer(listens) {
  const tasks = { requests: { tools: { call: {} } }, cancel: {}, list: {} };
  const options = { capabilities: { tools: {}, tasks }, taskStore, taskMessageQueue };
  const server = new McpServer({ name: "film", version: "1.0.0" }, options);
  server.experimental.tasks.registerToolTask(
    "render",
    { inputSchema: { film: z.string() }, execution: { taskSupport: "optional" } },
    {
      createTask: async ({ film }, extra) => {
        const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl ?? null, pollInterval: 100 });
        const ask = (taskId) =>
          extra.sendRequest({ method: "elicitation/create", params: question }, ElicitResultSchema, {
            relatedTask: { taskId },
          });
        work(film, task, extra.taskStore, ask).catch(() => {});
        return { task };
      },
      getTask: async (_, { taskId, taskStore: store }) => store.getTask(taskId),
      getTaskResult: async (_, { taskId, taskStore: store }) => store.getTaskResult(taskId),
    },
  );
  // `by`: on the call's own stream or on that of the session; by a form, or a page to visit.
  const inputSchema = { to: z.string(), by: z.enum(["call", "session", "page"]).optional() };
  server.registerTool("send", { inputSchema }, async ({ to, by }, extra) => {
    if (by === "session") await listens;
    const request = { method: "elicitation/create", params: by === "page" ? page : question };
    const { action } =
      by === "session"
        ? await server.server.elicitInput(question)
        : await extra.sendRequest(request, ElicitResultSchema);
    if (action !== "accept") return text("not sent");
    effect(`send ${to}`);
    return text(`sent to ${to}`);
  });
  server.registerTool("note", { inputSchema: { text: z.string() } }, async ({ text: said }) => {
    effect(`note ${said}`);
    const file = join(folder, "hold");
    while (existsSync(file)) await new Promise((later) => setTimeout(later, 20));
    return text(`noted ${said}`);
  });
  return server;
}

if (how === "stdio") await filmServer().connect(new StdioServerTransport());
else http();

function http() {
  const known = new Map();
  const listener = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    if (id === undefined && request.method === "POST") {
      let listen;
      const listens = new Promise((heard) => {
        listen = heard;
      });
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void known.set(session, { transport, listen }),
      });
      await filmServer(listens).connect(transport);
      return transport.handleRequest(request, response);
    }
    const session = known.get(id);
    if (session === undefined) return response.writeHead(404).end();
    const handled = session.transport.handleRequest(request, response);
    if (request.method === "GET") setImmediate(session.listen);
    return handled;
  });
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
}
