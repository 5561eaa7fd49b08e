/**
 * The proxy on streamable HTTP: stands in front of a server's URL. What it understands is passed on as it came, what it does
 * not understand is refused. Only the calls of guarded tools are held, and of their answers only the one event that carries
 * the result, until the ledger knows it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import { messageOf } from "../core/errors.ts";
import { DEFAULT_PRINCIPAL, type ProxyConfig } from "./mcp-config.ts";
import { type Admitted, Door } from "./mcp-door.ts";
import { type McpGuard, refusalOfError } from "./mcp-guard.ts";
import { HttpAsk } from "./mcp-http-ask.ts";
import { HttpCall, type PendingAnswers, pendingKey } from "./mcp-http-call.ts";
import { HttpFailure, redirectMessage } from "./mcp-http-failure.ts";
import { headersDisagree, oauthProblem } from "./mcp-http-message.ts";
import { type Incoming, incomingBytes, type Refusals, refusalsOf } from "./mcp-incoming.ts";
import { type Account, BodyRefused, ByteBudget, DEFAULT_HTTP_LIMITS, type HttpLimits, readBody } from "./mcp-limits.ts";
import {
  CANCEL_GRACE_MS,
  cancelledId,
  INVALID_REQUEST,
  idText,
  isResponse,
  onlyGaveUp,
  parseMessage,
  type RequestId,
  type RpcMessage,
} from "./mcp-message.ts";
import { mcpResult } from "./mcp-result.ts";
import {
  bodyOf,
  eventsOf,
  forwardable,
  isEventStream,
  isRedirect,
  send,
  type UpstreamRequest,
  writeTo,
} from "./mcp-upstream.ts";

export interface HttpProxyOptions {
  readonly guard: McpGuard;
  readonly config: ProxyConfig;
  readonly url: URL;
  readonly host: string;
  readonly port: number;
  /** Further host names by which clients may call it. */
  readonly allowHosts?: readonly string[];
  /** Origins of web pages that may call it. */
  readonly allowOrigins?: readonly string[];
  readonly limits?: Partial<HttpLimits>;
  /** How long the answer of a cancelled call is waited for. */
  readonly graceMs?: number;
}

export interface HttpProxy {
  /** Where clients connect to. */
  readonly url: string;
  /** Bytes of requests and answers that are held at the moment. */
  readonly held: number;
  /** Waits for calls under way. */
  close(): Promise<void>;
}

const MOST_CONNECTIONS = 4_096;
const HEAD_MS = 15_000;

export async function httpProxy(options: HttpProxyOptions): Promise<HttpProxy> {
  const front = new Front(options);
  const { bodyMs } = front.limits;
  // These end when the request is there; how long its answer takes is the tool's affair.
  const timeouts = { headersTimeout: HEAD_MS, requestTimeout: HEAD_MS + bodyMs, connectionsCheckingInterval: 5_000 };
  const server = createServer(timeouts, (request, response) => void front.serve(request, response));
  server.maxConnections = MOST_CONNECTIONS;
  await new Promise<void>((listening, failed) => {
    server.once("error", failed);
    server.listen(options.port, options.host, listening);
  });
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  const url = `http://${host}:${port}${options.url.pathname}${options.url.search}`;
  return {
    url,
    get held() {
      return front.held;
    },
    close: () => closed(server, front),
  };
}

async function closed(server: Server, front: Front): Promise<void> {
  server.close();
  await front.idle();
  server.closeAllConnections();
}

/** One request that was let in. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly admitted: Admitted;
  readonly principal: string;
  readonly account: Account;
  readonly upstream: UpstreamRequest;
  /** Goes on after the client has its answer: a call that was cancelled may still be answered. */
  readonly lasting: Promise<unknown>[];
}

class Front {
  readonly limits: HttpLimits;
  readonly #options: HttpProxyOptions;
  readonly #door: Door;
  readonly #requests: ByteBudget;
  readonly #answers: ByteBudget;
  readonly #calls = new Set<Promise<void>>();
  /** Calls whose answer may come on another stream: a client that lost the first one resumes with GET. */
  readonly #pending: PendingAnswers = new Map();

  constructor(options: HttpProxyOptions) {
    this.#options = options;
    this.limits = { ...DEFAULT_HTTP_LIMITS, ...options.limits };
    this.#requests = new ByteBudget(this.limits.requestBytes);
    this.#answers = new ByteBudget(this.limits.answerBytes);
    const { url, host, allowHosts = [], allowOrigins = [] } = options;
    const { bodyBytes } = this.limits;
    this.#door = new Door({ url, host, allowHosts, allowOrigins, principal: this.#principalNames, bodyBytes });
  }

  get held(): number {
    return this.#requests.used + this.#answers.used;
  }

  get #principalNames(): readonly string[] {
    return this.#options.config.principal ?? DEFAULT_PRINCIPAL;
  }

  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all(this.#calls);
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A client that goes away in the middle is its own affair.
    response.on("error", () => {});
    request.on("error", () => {});
    const [asked, held] = [this.#requests.account(), this.#answers.account()];
    const lasting: Promise<unknown>[] = [];
    try {
      const admitted = this.#door.admit(request);
      if (admitted.kind === "refused") return refuse(response, admitted.status, admitted.message, admitted.headers);
      for (const [name, value] of Object.entries(admitted.kind === "admitted" ? admitted.cors : admitted.headers)) {
        response.setHeader(name, value);
      }
      if (admitted.kind === "preflight") return void response.writeHead(204).end();
      const { method = "GET", headers } = request;
      const body = method === "POST" ? await this.#body(request, asked) : null;
      const { url } = this.#options;
      const upstream = { url, path: admitted.path, method, headers, body };
      const principal = this.#principal(request, admitted);
      await this.#exchange({ request, response, admitted, principal, account: held, upstream, lasting });
    } catch (error) {
      if (error instanceof BodyRefused) return refuseBody(response, error);
      refuse(response, 502, `the MCP server behind the proxy could not be reached: ${messageOf(error)}`);
    } finally {
      // An answer is held until the client has read it, or has gone.
      const isRead = response.writableFinished || response.destroyed;
      const read = isRead ? null : new Promise((end) => response.once("close", end).once("finish", end));
      void Promise.allSettled(lasting).then(() => asked.free());
      void Promise.allSettled([...lasting, read]).then(() => held.free());
    }
  }

  #body(request: IncomingMessage, account: Account): Promise<Buffer> {
    const { bodyBytes: bytes, idleMs, bodyMs: totalMs } = this.limits;
    return readBody(request, { bytes, idleMs, totalMs }, account);
  }

  async #exchange(exchange: Exchange): Promise<void> {
    const { admitted, request, response, upstream } = exchange;
    if (upstream.body === null) return this.#pass(exchange, null);
    if (admitted.route !== "mcp") {
      const wrong = oauthProblem(upstream.body, request.headers["content-type"] ?? "");
      return wrong === null ? this.#pass(exchange, null) : refuse(response, 400, wrong);
    }
    const incoming = this.#agreed(incomingBytes(upstream.body), request);
    if (incoming.kind === "refused") return answerRefused(response, incoming.answers);
    if (incoming.kind === "batch") return this.#pass(exchange, null);
    const { message } = incoming;
    if (incoming.kind === "message") {
      if (this.#cancelled(message, exchange) === "passes") return this.#pass(exchange, message);
      return void response.writeHead(202).end();
    }
    const work = this.#call(incoming, exchange).finally(() => this.#calls.delete(work));
    this.#calls.add(work);
    await work;
  }

  /** Since protocol revision 2026-07-28 a request also says in headers what it is; a server may go by those. */
  #agreed(incoming: Incoming, { headers }: IncomingMessage): Incoming {
    if (incoming.kind === "refused") return incoming;
    const message = incoming.kind === "batch" ? null : incoming.message;
    const what = headersDisagree(headers, message);
    if (what === null) return incoming;
    const id = message?.id ?? null;
    const error = { code: INVALID_REQUEST, message: `Not run: ${what}.` };
    return { kind: "refused", answers: { ids: [id], isBatch: false, error } };
  }

  /** A cancellation is passed on like any message; the call it is about hears of it. */
  #cancelled(message: RpcMessage, { request, principal }: Exchange): "kept back" | "passes" {
    if (cancelledId(message) === undefined) return "passes";
    const key = pendingKey(principal, request.headers, message.params?.requestId as RequestId | undefined);
    const call = key === null ? undefined : this.#pending.get(key);
    if (call === undefined) return "passes";
    if (onlyGaveUp(message) && this.#options.guard.finishes(call.tool)) return "kept back";
    call.cancelled();
    return "passes";
  }

  async #call({ message, inexact }: Extract<Incoming, { kind: "call" }>, exchange: Exchange): Promise<void> {
    const { guard, graceMs = CANCEL_GRACE_MS } = this.#options;
    const { response, principal, account, upstream } = exchange;
    const { name } = message.params;
    const call = new HttpCall({
      message,
      response,
      request: upstream,
      principal,
      pending: this.#pending,
      graceMs,
      account,
      readerMs: this.limits.readerMs,
      late: (key, result) => guard.settleLate(name, key, result),
      lasts: (work) => exchange.lasting.push(work),
    });
    const ask = new HttpAsk(upstream, message);
    try {
      const status = await guard.status(message, principal);
      if (status !== null) return call.answer(status);
      if (guard.needsList(name, principal)) guard.learn(await ask.listTools(), true, principal);
      const error = guard.refusal(message, inexact, principal);
      if (error !== null) return answerRefused(response, { ids: [message.id], isBatch: false, error });
      if (!guard.guarded(name, principal)) return await this.#pass(exchange, message);
      const answer = await guard.answer(call, (tool, args) => ask.callTool(tool, args));
      if (answer.kind === "result" && answer.note === null && call.answerAsItCame()) return;
      call.answer(mcpResult(answer));
    } catch (error) {
      const refusal = refusalOfError(error);
      if (refusal !== null) return call.answer(refusal);
      if (error instanceof HttpFailure && error.redirect !== null) return refuse(response, 502, error.redirect);
      // Refused by the server before anything ran: its own answer says so best (a 404 makes clients begin a new session).
      if (error instanceof HttpFailure) return error.passOn(response);
      if (!call.answerAsItCame()) call.fail(error);
    }
  }

  /** Who calls, by the headers that say so. Another query than the configured one may be another account. */
  #principal({ headers }: IncomingMessage, { search }: Admitted): string {
    const said: unknown[][] = this.#principalNames.map((name) => [name, headers[name.toLowerCase()] ?? null]);
    if (search !== this.#options.url.search) said.push(["?", search]);
    return said.every(([, value]) => value === null) ? "" : JSON.stringify(said);
  }

  /** As it came, both ways; answers of held calls that arrive on a stream are settled first. */
  async #pass(exchange: Exchange, asked: RpcMessage | null): Promise<void> {
    const { response, upstream, admitted } = exchange;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const answer = await send(upstream, gone.signal);
    if (isRedirect(answer) && (admitted.route === "mcp" || upstream.method === "POST")) {
      answer.resume();
      return refuse(response, 502, redirectMessage(answer));
    }
    const list = asked?.method === "tools/list" && !isEventStream(answer);
    try {
      const body = list ? await bodyOf(answer, exchange.account) : null;
      response.writeHead(answer.statusCode ?? 502, forwardable(answer.headers));
      if (body !== null) {
        response.setTimeout(this.limits.readerMs, () => response.destroy());
        return void response.end(this.#withAddedTools(body, exchange));
      }
      response.flushHeaders();
      if (isEventStream(answer)) await this.#passEvents(answer, exchange, asked);
      else await pipeline(answer, response);
    } catch {
      answer.destroy();
      response.destroy();
    }
  }

  async #passEvents(answer: IncomingMessage, exchange: Exchange, asked: RpcMessage | null): Promise<void> {
    const { request, response, principal, account } = exchange;
    const own = asked === null ? null : idText(asked.id);
    for await (const event of eventsOf(answer, account)) {
      const message = parseMessage(event.data);
      if (message?.method === "notifications/tools/list_changed") this.#options.guard.forget();
      const isAnswer = message !== null && isResponse(message);
      // The answer to this very request, whatever call has the same id.
      const isOwn = isAnswer && idText(message.id) === own;
      const key = isAnswer && !isOwn ? pendingKey(principal, request.headers, message.id) : null;
      if (key !== null) await this.#pending.get(key)?.answered(message as RpcMessage);
      const isList = isOwn && asked?.method === "tools/list";
      const added = isList ? this.#listWithAdded(message.result, principal) : null;
      const changed = `event: message\ndata: ${JSON.stringify({ ...message, result: added })}\n\n`;
      await writeTo(response, added === null ? event.raw : changed);
    }
    response.end();
  }

  #withAddedTools(answered: Buffer, { principal }: Exchange): Buffer | string {
    const message = parseMessage(answered.toString("utf8"));
    const added = this.#listWithAdded(message?.result, principal);
    return added === null ? answered : JSON.stringify({ ...message, result: added });
  }

  /** The last page of the server's tools with the proxy's own; null: not a list, or nothing to add. */
  #listWithAdded(result: Readonly<Record<string, unknown>> | undefined, principal: string): object | null {
    const { addedTools } = this.#options.guard;
    if (!Array.isArray(result?.tools)) return null;
    this.#options.guard.learn(result.tools, result.nextCursor === undefined, principal);
    if (addedTools.length === 0 || result.nextCursor !== undefined) return null;
    return { ...result, tools: [...result.tools, ...addedTools] };
  }
}

function refuse(
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

function refuseBody(response: ServerResponse, { status, message }: BodyRefused): void {
  refuse(response, status, message, status === 503 ? { "retry-after": "1" } : {});
}

function answerRefused(response: ServerResponse, refusals: Refusals): void {
  const answers = refusalsOf(refusals);
  const body = JSON.stringify(refusals.isBatch ? answers : answers[0]);
  response.writeHead(400, { "content-type": "application/json" }).end(body);
}
