/** Protocol messages pass through unchanged: the same session with and without the proxy, message by message. */
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  type JSONRPCMessage,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { EVERYTHING, folder, httpProxyOf, MEMORY, proxied, started } from "./lib/mcp.ts";

/** Everything that crosses the client's wire, in both directions. */
function recorded(transport: Transport): { transport: Transport; log: string[] } {
  const log: string[] = [];
  const note = (direction: string, message: JSONRPCMessage) => log.push(`${direction} ${stable(direction, message)}`);
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    note("→", message);
    return send(message, options);
  };
  let deliver: Transport["onmessage"];
  Object.defineProperty(transport, "onmessage", {
    get: () =>
      deliver &&
      ((message: JSONRPCMessage, extra?: never) => {
        note("←", message);
        deliver?.(message, extra);
      }),
    set: (given: Transport["onmessage"]) => {
      deliver = given;
    },
  });
  return { transport, log };
}

/**
 * Times differ between any two runs, and so does the order in which a server asks for something by itself, on a timer:
 * the ids it gives to its own requests say nothing.
 */
function stable(direction: string, message: JSONRPCMessage): string {
  const asked = direction === "←" ? "method" in message && "id" in message : "result" in message;
  return JSON.stringify(asked ? { ...message, id: "<its own>" } : message)
    .replace(/\d{1,2}:\d{2}:\d{2} [AP]M/g, "<time>")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>");
}

async function session(transport: Transport): Promise<string[]> {
  const wire = recorded(transport);
  const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
  const client = new Client({ name: "test", version: "1.0.0" }, { capabilities });
  client.setRequestHandler(CreateMessageRequestSchema, async () => ({
    model: "scripted",
    role: "assistant" as const,
    content: { type: "text" as const, text: "a sample" },
  }));
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "decline" as const }));
  client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///tmp", name: "tmp" }] }));
  await client.connect(wire.transport);
  onTestFinished(() => client.close());
  await client.ping();
  const { tools } = await client.listTools();
  const has = (name: string) => tools.some((tool) => tool.name === name);
  const capable = client.getServerCapabilities() ?? {};
  if (capable.resources) {
    const { resources } = await client.listResources();
    if (resources[0]) await client.readResource({ uri: resources[0].uri });
    await client.listResourceTemplates();
  }
  if (capable.prompts) {
    const { prompts } = await client.listPrompts();
    const plain = prompts.find((prompt) => (prompt.arguments ?? []).length === 0);
    if (plain) await client.getPrompt({ name: plain.name });
  }
  if (capable.logging) await client.setLoggingLevel("error");
  if (has("trigger-long-running-operation")) {
    const progress: number[] = [];
    const long = { name: "trigger-long-running-operation", arguments: { duration: 0.2, steps: 4 } };
    await client.callTool(long, undefined, { onprogress: (one) => progress.push(one.progress) });
    expect(progress.length).toBeGreaterThan(0);
  }
  if (has("trigger-sampling-request")) {
    await client.callTool({ name: "trigger-sampling-request", arguments: { prompt: "hello", maxTokens: 10 } });
  }
  if (has("create_entities")) {
    const entities = [{ name: "Ada", entityType: "person", observations: ["counts"] }];
    await client.callTool({ name: "create_entities", arguments: { entities } });
    await client.callTool({ name: "read_graph", arguments: {} });
  }
  if (has("get-tiny-image")) await client.callTool({ name: "get-tiny-image", arguments: {} });
  await client.callTool({ name: "no-such-tool", arguments: {} }).catch(() => {});
  await client.close();
  return wire.log;
}

function stdio(argv: readonly string[], env: Record<string, string>): Transport {
  const all = { ...(process.env as Record<string, string>), ...env };
  return new StdioClientTransport({ command: process.execPath, args: [...argv], env: all, stderr: "ignore" });
}

describe("protocol messages pass through unchanged", () => {
  it.each([
    { name: "server-everything", server: EVERYTHING, sampling: true },
    { name: "server-memory", server: MEMORY, sampling: false },
  ])("$name on stdio", async ({ server, sampling }) => {
    const env = () => ({ MEMORY_FILE_PATH: join(folder(), "memory.jsonl") });
    const bare = await session(stdio([server], env()));
    const guarded = await session(stdio(proxied(folder(), [server]), env()));
    // What a server sends by itself may overtake an answer: in both directions the same messages, whatever their order.
    expect(guarded.toSorted()).toEqual(bare.toSorted());
    expect(bare.length).toBeGreaterThan(12);
    expect(bare.some((line) => line.includes("sampling/createMessage"))).toBe(sampling);
  });

  it("server-everything on streamable HTTP", async () => {
    const port = 20_000 + Math.floor(Math.random() * 20_000);
    await started([EVERYTHING, "streamableHttp"], { PORT: String(port) }, "stderr", /(listening)/i);
    const url = `http://127.0.0.1:${port}/mcp`;
    const open = (at: string) => new StreamableHTTPClientTransport(new URL(at)) as Transport;
    const bare = await session(open(url));
    const proxy = await httpProxyOf(url, folder());
    const guarded = await session(open(proxy.url));
    expect(guarded.toSorted()).toEqual(bare.toSorted());
    expect(bare.some((line) => line.includes("notifications/progress"))).toBe(true);
  });
});
