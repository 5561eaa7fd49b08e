// A task's server and its client in one process: begins a task that never ends ("begin"), or asks for it again ("again").

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { CallToolResultSchema, CreateTaskResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { guardMcpServer } from "../../../dist/agents/mcp/server/index.js";
import { nevertwice } from "../../../dist/index.js";

const [store, how] = process.argv.slice(2);
const nt = nevertwice({ store, sweep: false });
const capabilities = { tools: {}, tasks: { requests: { tools: { call: {} } } } };
const taskStore = new InMemoryTaskStore();
const options = { capabilities, taskStore, taskMessageQueue: new InMemoryTaskMessageQueue() };
const server = guardMcpServer(nt, new McpServer({ name: "film", version: "1.0.0" }, options), {
  scope: null,
  tools: { render: { lease: "500ms", errors: "not-done" } },
});
const createTask = async (_args, { taskStore: tasks }) => {
  process.stdout.write("effect\n");
  return { task: await tasks.createTask({ pollInterval: 50 }) };
};
server.experimental.tasks.registerToolTask("render", { inputSchema: { film: z.string() } }, { createTask });
const client = new Client({ name: "test", version: "1.0.0" }, { capabilities: { tasks: {} } });
const [here, there] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(there), client.connect(here)]);
const params = { name: "render", arguments: { film: "M" }, task: {} };
const begin = async () => (await client.request({ method: "tools/call", params }, CreateTaskResultSchema)).task;
const resultOf = (taskId) => client.request({ method: "tasks/result", params: { taskId } }, CallToolResultSchema);
if (how === "begin") {
  await begin();
  process.stdout.write("begun\n");
  setInterval(() => {}, 1_000);
} else {
  for (;;) {
    const { taskId } = await begin();
    const { content } = await resultOf(taskId);
    process.stdout.write(`${content[0].text}\n`);
    // Until the dead process's lease has lapsed.
    if (!content[0].text.startsWith("In progress")) break;
    await new Promise((later) => setTimeout(later, 100));
  }
  process.exit();
}
