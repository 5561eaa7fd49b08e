// An agent whose tool is an MCP server of its own, built with SDK 1.x or 2.x, in the same process.

import { Client as Client2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { InMemoryTransport as InMemory2, McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { z } from "zod";
import { guardMcpServer } from "../../../../dist/agents/mcp/server/index.js";
import { deliver, mailOptions } from "./mail-tool.mjs";

const shape = { to: z.string(), body: z.string(), amount: z.number().optional() };

async function connected(world, version) {
  const bare = new (version === 1 ? McpServer : McpServer2)({ name: "mail", version: "1.0.0" });
  const guard = () =>
    world.nt === null
      ? bare
      : guardMcpServer(world.nt, bare, { scope: world.thread, tools: { send_mail: mailOptions(world) } });
  // Guarded before its tools are registered, or after.
  const server = world.late ? bare : guard();
  const inputSchema = version === 1 ? shape : z.object(shape);
  server.registerTool("send_mail", { description: "sends a mail", inputSchema }, async (mail) => ({
    content: [{ type: "text", text: JSON.stringify(await deliver(world, mail)) }],
  }));
  server.registerTool("now", { description: "the time", annotations: { readOnlyHint: true } }, async () => ({
    content: [{ type: "text", text: String(process.hrtime.bigint()) }],
  }));
  if (world.late) guard();
  return connectedTo(server, version);
}

async function connectedTo(server, version) {
  const client = new (version === 1 ? Client : Client2)({ name: "test", version: "1.0.0" });
  const [here, there] = (version === 1 ? InMemoryTransport : InMemory2).createLinkedPair();
  await Promise.all([server.connect(there), client.connect(here)]);
  return client;
}

const textOf = ({ content }) => content.map(({ text }) => text).join("\n");

export const runOn = (version) => async (world, steps) => {
  const client = await connected(world, version);
  const told = [];
  for (const step of steps) {
    // SDK 1.x takes a schema for the result before the options.
    const options = [...(version === 1 ? [undefined] : []), ...(world.signal ? [{ signal: world.signal }] : [])];
    const calls = step.map(({ id, ...mail }) =>
      client.callTool({ name: "send_mail", arguments: mail }, ...options).then(textOf),
    );
    told.push(...(await Promise.all(calls)));
  }
  await client.close();
  return told;
};

export const runBy = (version) => runOn(Number(version));

/** A tool whose callback is replaced when it is there already. */
export async function replaced(world, version) {
  const server = new (version === 1 ? McpServer : McpServer2)({ name: "mail", version: "1.0.0" });
  const callback = async (mail) => ({ content: [{ type: "text", text: JSON.stringify(await deliver(world, mail)) }] });
  const inputSchema = version === 1 ? shape : z.object(shape);
  const registered = server.registerTool("send_mail", { inputSchema }, async () => ({ content: [] }));
  guardMcpServer(world.nt, server, { scope: world.thread, tools: { send_mail: mailOptions(world) } });
  registered.update({ callback });
  const client = await connectedTo(server, version);
  const answers = [];
  for (let time = 0; time < 2; time += 1)
    answers.push(textOf(await client.callTool({ name: "send_mail", arguments: { to: "ada", body: "Hello" } })));
  await client.close();
  return answers;
}

export async function readTwice(world, version) {
  const client = await connected(world, version);
  const answers = [
    await client.callTool({ name: "now", arguments: {} }),
    await client.callTool({ name: "now", arguments: {} }),
  ];
  await client.close();
  return answers.map(textOf);
}
