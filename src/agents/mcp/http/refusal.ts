/** What the HTTP proxy itself answers, and small readings of heads and texts. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { type Refusals, refusalsOf } from "../incoming.ts";
import type { RpcMessage } from "../rpc.ts";
import { ID_IN_USE } from "./call.ts";
import type { BodyRefused } from "./limits.ts";

export function sessionOf(headers: IncomingHttpHeaders): string | undefined {
  const session = headers["mcp-session-id"];
  return typeof session === "string" ? session : undefined;
}

/** White space alone is there to be replaced: a string of JSON has none of these. */
export function oneLine(text: string): string {
  return text.replace(/[\r\n]+/g, " ");
}

export function refuse(
  response: ServerResponse,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent) return void response.destroy();
  const error = { jsonrpc: "2.0", id: null, error: { code: -32_000, message } };
  // What is left of a body that was not read is not waited for.
  const head = { "content-type": "application/json", connection: "close", ...headers };
  response.writeHead(status, head).end(JSON.stringify(error));
}

export function refuseBody(response: ServerResponse, { status, message }: BodyRefused): void {
  refuse(response, status, message, status === 503 ? { "retry-after": "1" } : {});
}

export function refuseId(response: ServerResponse, { id = null }: RpcMessage): void {
  answerRefused(response, { ids: [id], isBatch: false, error: ID_IN_USE });
}

export function answerRefused(response: ServerResponse, refusals: Refusals): void {
  const answers = refusalsOf(refusals);
  const body = JSON.stringify(refusals.isBatch ? answers : answers[0]);
  response.writeHead(400, { "content-type": "application/json" }).end(body);
}
