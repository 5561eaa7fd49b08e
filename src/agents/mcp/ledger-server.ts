/** A small MCP server on lines of JSON: tools and nothing else. */
import { messageOf } from "../../core/errors.ts";
import { incomingText, refusalsOf } from "./incoming.ts";
import { isRequest, isToolCall, type RequestId, type RpcMessage } from "./rpc.ts";

export interface ServedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly readOnly: boolean;
  /** What it answers, as text. Throws to refuse. */
  run(args: Readonly<Record<string, unknown>>): Promise<string>;
}

export interface ServedInfo {
  readonly name: string;
  readonly version: string;
  readonly instructions: string;
}

const KNOWN_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/** The answer to one line; null: it wants none. */
export async function serveLine(line: string, tools: readonly ServedTool[], info: ServedInfo): Promise<string | null> {
  const incoming = incomingText(line);
  if (incoming.kind === "refused") {
    const answers = refusalsOf(incoming.answers);
    return JSON.stringify(incoming.answers.isBatch ? answers : answers[0]);
  }
  if (incoming.kind === "batch" || !isRequest(incoming.message)) return null;
  const { message } = incoming;
  const answer = (body: object) => JSON.stringify({ jsonrpc: "2.0", id: message.id as RequestId, ...body });
  switch (message.method) {
    case "initialize":
      return answer({ result: initialized(message, info) });
    case "ping":
      return answer({ result: {} });
    case "tools/list":
      return answer({ result: { tools: tools.map(listed) } });
    case "tools/call":
      return answer(await called(message, tools));
    default:
      return answer({ error: { code: -32_601, message: `there is no method ${message.method}` } });
  }
}

function initialized({ params }: RpcMessage, { name, version, instructions }: ServedInfo) {
  const asked = params?.protocolVersion;
  const protocolVersion = KNOWN_VERSIONS.find((one) => one === asked) ?? KNOWN_VERSIONS[0];
  return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name, version }, instructions };
}

function listed({ name, description, inputSchema, readOnly }: ServedTool) {
  return { name, description, inputSchema, annotations: { readOnlyHint: readOnly, openWorldHint: false } };
}

async function called(message: RpcMessage, tools: readonly ServedTool[]): Promise<object> {
  const tool = isToolCall(message) ? tools.find(({ name }) => name === message.params.name) : undefined;
  if (tool === undefined) return { error: { code: -32_602, message: "there is no such tool" } };
  const args = (message.params?.arguments ?? {}) as Readonly<Record<string, unknown>>;
  try {
    return { result: { content: [{ type: "text", text: await tool.run(args) }] } };
  } catch (error) {
    return { result: { isError: true, content: [{ type: "text", text: messageOf(error) }] } };
  }
}
