/**
 * What the proxy asks the server for itself, on behalf of one caller: with that caller's session and credentials, and with
 * nothing else of the request they came with.
 */
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { stringifyExact } from "../../../core/exact-json.ts";
import type { ToolResult } from "../result.ts";
import {
  allTools,
  borrowedMeta,
  isResponse,
  METHOD_NOT_FOUND,
  parseMessage,
  RpcFailure,
  type RpcMessage,
  resultOf,
} from "../rpc.ts";
import { HttpFailure } from "./failure.ts";
import { bodyOf, eventsOf, isEventStream, STREAM_ENDED, send, type UpstreamRequest } from "./upstream.ts";

export class HttpAsk {
  readonly #request: Omit<UpstreamRequest, "body">;
  readonly #meta: object;

  constructor({ body: _, ...request }: UpstreamRequest, call: RpcMessage) {
    this.#request = request;
    this.#meta = borrowedMeta(call);
  }

  listTools(): Promise<unknown[]> {
    return allTools(async (params) => {
      const result = await this.request("tools/list", params);
      if (!Array.isArray(result.tools)) throw new Error("the server answered tools/list without a list");
      return result;
    });
  }

  /** Throws where the server does not accept the caller's credential; the tools it shows them, or null: it lists none. */
  async accepted(): Promise<unknown[] | null> {
    try {
      return await this.listTools();
    } catch (error) {
      if (!(error instanceof RpcFailure) || error.code !== METHOD_NOT_FOUND) throw error;
      await this.request("ping", {});
      return null;
    }
  }

  async request(method: string, params: object): Promise<ToolResult> {
    const id = `nevertwice:${randomUUID()}`;
    const asked = { jsonrpc: "2.0", id, method, params: { ...params, ...this.#meta } };
    const headers = { ...this.#request.headers, ...routing(this.#request.headers, method, params) };
    const answer = await send({ ...this.#request, headers, body: Buffer.from(stringifyExact(asked)) });
    if ((answer.statusCode ?? 502) >= 300) throw new HttpFailure(answer, await bodyOf(answer));
    if (!isEventStream(answer)) return answerIn(parseMessage((await bodyOf(answer)).toString("utf8")));
    for await (const event of eventsOf(answer)) {
      const message = parseMessage(event.data);
      if (message !== null && isResponse(message)) return answerIn(message);
    }
    throw new Error(STREAM_ENDED);
  }
}

/** Since protocol revision 2026-07-28 the method and the name also stand in headers, and must agree with the body. */
function routing(headers: IncomingHttpHeaders, method: string, params: object): IncomingHttpHeaders {
  const { name, taskId } = params as { name?: string; taskId?: string };
  return {
    ...(headers["mcp-method"] !== undefined && { "mcp-method": method }),
    ...(headers["mcp-name"] !== undefined && { "mcp-name": name ?? taskId }),
  };
}

function answerIn(message: RpcMessage | null): ToolResult {
  return message === null ? {} : resultOf(message);
}
