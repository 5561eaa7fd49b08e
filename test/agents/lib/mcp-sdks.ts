/** The official SDKs that a server may be built with: the newest of 1.x and 2.x, and the oldest that are guarded. */
import { Client as Client2, InMemoryTransport as InMemory2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { CallToolRequestSchema, ElicitRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { McpServer as McpServer2, Server as Server2 } from "@modelcontextprotocol/server";
import { Server as OldestServer } from "mcp-sdk-oldest/server/index.js";
import { McpServer as Oldest } from "mcp-sdk-oldest/server/mcp.js";
import {
  CallToolRequestSchema as OldestCallTool,
  ListToolsRequestSchema as OldestListTools,
} from "mcp-sdk-oldest/types.js";
import { McpServer as Oldest2, Server as OldestServer2 } from "mcp-server-oldest";
import { onTestFinished } from "vitest";
import { type Nevertwice, nevertwice } from "../../../dist/index.js";

// biome-ignore lint/suspicious/noExplicitAny: four versions of the same classes
export type Any = any;

export interface Sdk {
  readonly sdk: string;
  readonly major: 1 | 2;
  readonly McpServer: Any;
  readonly Server: Any;
  /** How a handler of tools/call and tools/list is set: by schema in 1.x, by name in 2.x. */
  readonly methods: { readonly call: Any; readonly list: Any };
}

export const NEWEST: readonly Sdk[] = [
  { sdk: "1.x", major: 1, McpServer, Server, methods: { call: CallToolRequestSchema, list: ListToolsRequestSchema } },
  { sdk: "2.x", major: 2, McpServer: McpServer2, Server: Server2, methods: { call: "tools/call", list: "tools/list" } },
];

export const SDKS: readonly Sdk[] = [
  ...NEWEST,
  {
    sdk: "1.13.0",
    major: 1,
    McpServer: Oldest,
    Server: OldestServer,
    methods: { call: OldestCallTool, list: OldestListTools },
  },
  {
    sdk: "2.0.0",
    major: 2,
    McpServer: Oldest2,
    Server: OldestServer2,
    methods: { call: "tools/call", list: "tools/list" },
  },
];

export const INFO = { name: "test", version: "1.0.0" };

export function openLedger(options: object = {}): Nevertwice {
  const nt = nevertwice({ store: "memory:", sweep: false, ...options } as never);
  onTestFinished(() => nt.close());
  return nt;
}

export interface Connected {
  readonly client: Any;
  /** The texts of an answer, one after the other. */
  call(name: string, args?: object): Promise<string>;
  result(name: string, args?: object): Promise<Any>;
}

/** `elicit`: what the user answers to each question of the server. */
export async function connect(
  server: Any,
  major: 1 | 2,
  { elicit, capabilities = {} }: { elicit?: () => object; capabilities?: object } = {},
): Promise<Connected> {
  const given = { capabilities: { ...(elicit !== undefined && { elicitation: { form: {} } }), ...capabilities } };
  const client: Any = new (major === 1 ? Client : Client2)(INFO, given as never);
  if (elicit !== undefined)
    client.setRequestHandler(major === 1 ? ElicitRequestSchema : "elicitation/create", async () => elicit());
  const [here, there] = (major === 1 ? InMemoryTransport : InMemory2).createLinkedPair();
  await Promise.all([server.connect(there), client.connect(here)]);
  onTestFinished(() => client.close());
  const result = (name: string, args: object = {}) => client.callTool({ name, arguments: args });
  return { client, result, call: async (name, args) => textOf(await result(name, args)) };
}

export function textOf({ content = [] }: { content?: readonly { text?: string }[] }): string {
  return content.map(({ text }) => text).join("\n");
}

/** A tool's callback that counts its runs and says what it was given. */
export function counter() {
  const seen: unknown[] = [];
  const callback = async (...given: Any[]) => {
    const args = given.length > 1 ? given[0] : undefined;
    seen.push(args);
    return { content: [{ type: "text" as const, text: `run ${seen.length} ${JSON.stringify(args ?? null)}` }] };
  };
  return { seen, callback };
}
