/**
 * The proxy on streamable HTTP: stands in front of a server's URL. Everything is passed on as it came; only the calls of
 * guarded tools are held, and of their answers only the one event that carries the result, until the ledger knows it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf } from "../core/errors.ts";
import { DEFAULT_PRINCIPAL, type ProxyConfig } from "./mcp-config.ts";
import { type McpGuard, refusalOfError } from "./mcp-guard.ts";
import { HttpCall, HttpFailure, type PendingAnswers, pendingKey } from "./mcp-http-call.ts";
import {
  batchedCalls,
  CANCEL_GRACE_MS,
  cancelledId,
  isResponse,
  isToolCall,
  NO_BATCHES,
  onlyGaveUp,
  parseMessage,
  type RequestId,
  type RpcMessage,
  type ToolCall,
} from "./mcp-message.ts";
import { mcpResult } from "./mcp-result.ts";
import { bodyOf, eventsOf, forwardable, isEventStream, send, writeTo } from "./mcp-upstream.ts";

const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "localhost", "::1"]);

export interface HttpProxyOptions {
  readonly guard: McpGuard;
  readonly config: ProxyConfig;
  readonly url: URL;
  readonly host: string;
  readonly port: number;
  /** How long the answer of a cancelled call is waited for. */
  readonly graceMs?: number;
}

export interface HttpProxy {
  /** Where clients connect to. */
  readonly url: string;
  /** Waits for calls under way. */
  close(): Promise<void>;
}

export async function httpProxy(options: HttpProxyOptions): Promise<HttpProxy> {
  const front = new Front(options);
  const server = createServer((request, response) => void front.serve(request, response));
  // A tool may take longer than any default; the server behind has timeouts of its own.
  server.requestTimeout = 0;
  await new Promise<void>((listening, failed) => {
    server.once("error", failed);
    server.listen(options.port, options.host, listening);
  });
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  const url = new URL(`${options.url.pathname}${options.url.search}`, `http://${host}:${port}`);
  return { url: url.href, close: () => closed(server, front) };
}

async function closed(server: Server, front: Front): Promise<void> {
  server.close();
  await front.idle();
  server.closeAllConnections();
}

class Front {
  readonly #options: HttpProxyOptions;
  readonly #calls = new Set<Promise<void>>();
  /** Calls whose answer may come on another stream: a client that lost the first one resumes with GET. */
  readonly #pending: PendingAnswers = new Map();

  constructor(options: HttpProxyOptions) {
    this.#options = options;
  }

  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all(this.#calls);
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A client that goes away in the middle is its own affair.
    response.on("error", () => {});
    if (!this.#isMeant(request)) return refuse(response, 403, "this proxy does not serve that host name");
    try {
      const body = request.method === "POST" ? await bodyOf(request) : null;
      const call = body === null ? null : this.#toolCall(request, response, body.toString("utf8"));
      if (call === "answered") return;
      if (call === null) return await this.#pass(request, response, body);
      const work = this.#call(call, request, response, body as Buffer).finally(() => this.#calls.delete(work));
      this.#calls.add(work);
      await work;
    } catch (error) {
      refuse(response, 502, `the MCP server behind the proxy could not be reached: ${messageOf(error)}`);
    }
  }

  /** A page in a browser may reach a loopback address under a name of its own (DNS rebinding): only ours are served there. */
  #isMeant({ headers }: IncomingMessage): boolean {
    if (!LOOPBACK.has(this.#options.host)) return true;
    const name = (headers.host ?? "").replace(/:\d+$/, "").replace(/^\[|\]$/g, "");
    return LOOPBACK.has(name);
  }

  #toolCall(request: IncomingMessage, response: ServerResponse, text: string): ToolCall | "answered" | null {
    if (this.#target(request).pathname !== this.#options.url.pathname) return null;
    const batched = batchedCalls(text);
    if (batched.length > 0) {
      const errors = batched.map((id) => ({ jsonrpc: "2.0", id, error: NO_BATCHES }));
      response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify(errors));
      return "answered";
    }
    const message = parseMessage(text);
    if (message !== null && this.#cancelled(message, request) === "kept back") {
      response.writeHead(202).end();
      return "answered";
    }
    return message !== null && isToolCall(message) ? message : null;
  }

  /** A cancellation is passed on like any message; the call it is about hears of it. */
  #cancelled(message: RpcMessage, { headers }: IncomingMessage): "kept back" | "passes" {
    if (cancelledId(message) === undefined) return "passes";
    const key = pendingKey(headers, message.params?.requestId as RequestId | undefined);
    const call = key === null ? undefined : this.#pending.get(key);
    if (call === undefined) return "passes";
    if (onlyGaveUp(message) && this.#options.guard.finishes(call.tool)) return "kept back";
    call.cancelled();
    return "passes";
  }

  #target(request: IncomingMessage): URL {
    return new URL(request.url ?? "/", this.#options.url);
  }

  async #call(message: ToolCall, request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> {
    const { guard, graceMs = CANCEL_GRACE_MS } = this.#options;
    const { name } = message.params;
    const call = new HttpCall({
      message,
      response,
      request: { url: this.#target(request), method: "POST", headers: request.headers, body },
      principal: this.#principal(request),
      pending: this.#pending,
      graceMs,
      late: (key, result) => guard.settleLate(name, key, result),
    });
    try {
      const status = await guard.status(message);
      if (status !== null) return call.answer(status);
      if (guard.needsList(name)) guard.learn(await call.listTools());
      if (!guard.guarded(name)) return await this.#pass(request, response, body);
      const answer = await guard.answer(call, (tool, args) => call.callTool(tool, args));
      if (answer.kind === "result" && answer.note === null && call.answerAsItCame()) return;
      call.answer(mcpResult(answer));
    } catch (error) {
      const refusal = refusalOfError(error);
      if (refusal !== null) return call.answer(refusal);
      // Refused by the server before anything ran: its own answer says so best (a 404 makes clients begin a new session).
      if (error instanceof HttpFailure) return error.passOn(response);
      if (!call.answerAsItCame()) call.fail(error);
    }
  }

  #principal({ headers }: IncomingMessage): string {
    const names = this.#options.config.principal ?? DEFAULT_PRINCIPAL;
    const said = names.map((name) => [name, headers[name.toLowerCase()] ?? null]);
    return said.every(([, value]) => value === null) ? "" : JSON.stringify(said);
  }

  /** As it came, both ways; answers of held calls that arrive on a stream are settled first. */
  async #pass(request: IncomingMessage, response: ServerResponse, body: Buffer | null): Promise<void> {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const target = { url: this.#target(request), method: request.method ?? "GET", headers: request.headers, body };
    const answer = await send(target, gone.signal);
    response.writeHead(answer.statusCode ?? 502, forwardable(answer.headers));
    response.flushHeaders();
    try {
      if (isEventStream(answer)) await this.#passEvents(answer, response, request);
      else response.end(this.#withAddedTools(body, await bodyOf(answer)));
    } catch {
      response.destroy();
    }
  }

  async #passEvents(answer: IncomingMessage, response: ServerResponse, { headers }: IncomingMessage): Promise<void> {
    for await (const event of eventsOf(answer)) {
      const message = parseMessage(event.data);
      if (message?.method === "notifications/tools/list_changed") this.#options.guard.forget();
      const key = message !== null && isResponse(message) ? pendingKey(headers, message.id) : null;
      if (key !== null) await this.#pending.get(key)?.answered(message as RpcMessage);
      const added = message === null ? null : this.#listWithAdded(message.result);
      const changed = `event: message\ndata: ${JSON.stringify({ ...message, result: added })}\n\n`;
      await writeTo(response, added === null ? event.raw : changed);
    }
    response.end();
  }

  #withAddedTools(asked: Buffer | null, answered: Buffer): Buffer | string {
    if (asked === null || parseMessage(asked.toString("utf8"))?.method !== "tools/list") return answered;
    const message = parseMessage(answered.toString("utf8"));
    const added = this.#listWithAdded(message?.result);
    return added === null ? answered : JSON.stringify({ ...message, result: added });
  }

  /** The last page of the server's tools with the proxy's own; null: not a list, or nothing to add. */
  #listWithAdded(result: Readonly<Record<string, unknown>> | undefined): object | null {
    const { addedTools } = this.#options.guard;
    if (!Array.isArray(result?.tools)) return null;
    this.#options.guard.learn(result.tools, result.nextCursor === undefined);
    if (addedTools.length === 0 || result.nextCursor !== undefined) return null;
    return { ...result, tools: [...result.tools, ...addedTools] };
  }
}

function refuse(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) return void response.destroy();
  const error = { jsonrpc: "2.0", id: null, error: { code: -32_000, message } };
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(error));
}
