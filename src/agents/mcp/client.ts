/** A client of MCP, just enough to look at a server and to call its tools: for the probe. */

import type { ToolResult } from "./result.ts";
import { allTools, idText, isResponse, parseMessage, RpcFailure, type RpcMessage, type ToolInfo } from "./rpc.ts";

export const PROTOCOL_VERSION = "2025-06-18";

export class McpClient {
  readonly #send: (line: string) => void;
  readonly #waiting = new Map<string, { resolve(message: RpcMessage): void; reject(error: Error): void }>();
  #count = 0;
  #gone: Error | null = null;

  constructor(send: (line: string) => void) {
    this.#send = send;
  }

  receive(line: string): void {
    const message = parseMessage(line);
    if (message === null) return;
    if (isResponse(message)) {
      this.#waiting.get(idText(message.id))?.resolve(message);
      this.#waiting.delete(idText(message.id));
    } else if (message.method !== undefined && message.id !== undefined) {
      // The server asks the client for something (roots, sampling): a probe has nothing to offer.
      const error = { code: -32_601, message: "not supported by this client" };
      this.#send(JSON.stringify({ jsonrpc: "2.0", id: message.id, error }));
    }
  }

  gone(error: Error): void {
    this.#gone = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  async connect(version: string): Promise<{ readonly name?: string; readonly version?: string }> {
    const clientInfo = { name: "nevertwice", version };
    const asked = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo };
    const { serverInfo } = await this.request("initialize", asked);
    this.#send(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }));
    return (serverInfo ?? {}) as { name?: string; version?: string };
  }

  listTools(): Promise<ToolInfo[]> {
    return allTools((params) => this.request("tools/list", params));
  }

  async callTool(name: string, args: Readonly<Record<string, unknown>>): Promise<ToolResult> {
    return (await this.request("tools/call", { name, arguments: args })) as ToolResult;
  }

  request(method: string, params: object): Promise<Readonly<Record<string, unknown>>> {
    if (this.#gone !== null) return Promise.reject(this.#gone);
    this.#count += 1;
    const id = this.#count;
    return new Promise((resolve, reject) => {
      this.#waiting.set(idText(id), {
        reject,
        resolve: ({ error, result }) => (error === undefined ? resolve(result ?? {}) : reject(new RpcFailure(error))),
      });
      this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }
}
