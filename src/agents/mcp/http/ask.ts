/**
 * What the proxy asks the server for itself, on behalf of one caller: with that caller's session and credentials, and with
 * nothing else of the request they came with.
 */
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { stringifyExact } from "../../../core/exact-json.ts";
import type { ToolResult } from "../result.ts";
import { borrowedMeta, isResponse, METHOD_NOT_FOUND, parseMessage, RpcFailure, type RpcMessage } from "../rpc.ts";
import { HttpFailure } from "./failure.ts";
import { bodyOf, eventsOf, isEventStream, send, type UpstreamRequest } from "./upstream.ts";

const MOST_PAGES = 100;

export class HttpAsk {
  readonly #request: Omit<UpstreamRequest, "body">;
  readonly #meta: object;

  constructor({ body: _, ...request }: UpstreamRequest, call: RpcMessage) {
    this.#request = request;
    this.#meta = borrowedMeta(call);
  }

  async listTools(): Promise<unknown[]> {
    const tools: unknown[] = [];
    let cursor: unknown;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const result = await this.#ask("tools/list", cursor === undefined ? {} : { cursor });
      if (!Array.isArray(result.tools)) throw new Error("the server answered tools/list without a list");
      tools.push(...result.tools);
      cursor = result.nextCursor;
      if (cursor === undefined) break;
    }
    return tools;
  }

  /** Throws where the server does not accept the caller's credential; the tools it shows them, or null: it lists none. */
  async accepted(): Promise<unknown[] | null> {
    try {
      return await this.listTools();
    } catch (error) {
      if (!(error instanceof RpcFailure) || error.code !== METHOD_NOT_FOUND) throw error;
      await this.#ask("ping", {});
      return null;
    }
  }

  async callTool(name: string, args: Readonly<Record<string, unknown>>): Promise<ToolResult> {
    return this.#ask("tools/call", { name, arguments: args });
  }

  async #ask(method: string, params: object): Promise<ToolResult> {
    const id = `nevertwice:${randomUUID()}`;
    const asked = { jsonrpc: "2.0", id, method, params: { ...params, ...this.#meta } };
    const headers = { ...this.#request.headers, ...routing(this.#request.headers, method, params) };
    const answer = await send({ ...this.#request, headers, body: Buffer.from(stringifyExact(asked)) });
    if ((answer.statusCode ?? 502) >= 300) throw new HttpFailure(answer, await bodyOf(answer));
    if (!isEventStream(answer)) return resultOf(parseMessage((await bodyOf(answer)).toString("utf8")));
    for await (const event of eventsOf(answer)) {
      const message = parseMessage(event.data);
      if (message !== null && isResponse(message)) return resultOf(message);
    }
    throw new Error("the stream ended before the answer came");
  }
}

/** Since protocol revision 2026-07-28 the method and the name also stand in headers, and must agree with the body. */
function routing(headers: IncomingHttpHeaders, method: string, params: object): IncomingHttpHeaders {
  const name = (params as { name?: string }).name;
  return {
    ...(headers["mcp-method"] !== undefined && { "mcp-method": method }),
    ...(headers["mcp-name"] !== undefined && { "mcp-name": name }),
  };
}

function resultOf(message: RpcMessage | null): ToolResult {
  if (message?.error !== undefined) throw new RpcFailure(message.error);
  return (message?.result ?? {}) as ToolResult;
}
