/**
 * The proxy on streamable HTTP: stands in front of a server's URL. What it understands is passed on as it came, what it does
 * not understand is refused. Only the calls of guarded tools are held, and of their answers only the one event that carries
 * the result, until the ledger knows it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import { messageOf } from "../../../core/errors.ts";
import { stringifyExact, withItems } from "../../../core/exact-json.ts";
import type { ProxyConfig } from "../config.ts";
import type { Delivery } from "../delivery.ts";
import { Elicitations } from "../elicitation.ts";
import { type McpGuard, refusalOfError } from "../guard.ts";
import { type Incoming, incomingBytes } from "../incoming.ts";
import { isTaskRequest, type TaskAnswer } from "../proxied-tasks.ts";
import { Questions } from "../questions.ts";
import { mcpResult } from "../result.ts";
import {
  CANCEL_GRACE_MS,
  cancelledId,
  INVALID_REQUEST,
  idText,
  isRequest,
  isResponse,
  onlyGaveUp,
  parseMessage,
  type RequestId,
  RpcFailure,
  type RpcMessage,
} from "../rpc.ts";
import { HttpAsk } from "./ask.ts";
import { Beliefs } from "./beliefs.ts";
import { connectionOf, HttpCall, type PendingAnswers, pendingKey } from "./call.ts";
import { HttpDeliveries } from "./delivery.ts";
import { type Admitted, Door } from "./door.ts";
import { HttpFailure, isLegacy, LEGACY_MESSAGE, redirectMessage } from "./failure.ts";
import { type Account, BodyRefused, ByteBudget, DEFAULT_HTTP_LIMITS, type HttpLimits, readBody } from "./limits.ts";
import { headersDisagree, oauthProblem } from "./message.ts";
import { headerNames, type Who, whoCalls } from "./principal.ts";
import { answerRefused, oneLine, refuse, refuseBody, refuseId, sessionOf } from "./refusal.ts";
import {
  bodyOf,
  eventsOf,
  forwardable,
  isEventStream,
  isRedirect,
  send,
  type UpstreamRequest,
  writeTo,
} from "./upstream.ts";

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
  /** For the person who started it. */
  readonly note?: (text: string) => void;
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
const MOST_OPEN = 10_000;

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
  readonly who: Who;
  readonly account: Account;
  readonly upstream: UpstreamRequest;
  /** Of the tools that were known when it came. */
  readonly since: number;
  /** Under which it is in `#open`. */
  readonly key?: string;
  /** Asks about a task of a guarded call. */
  readonly task?: TaskAnswer;
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
  readonly #deliveries = new HttpDeliveries();
  readonly #questions = new Questions();
  readonly #beliefs = new Beliefs();
  /** Requests other than calls that are under way, as in `#pending`. */
  readonly #open = new Set<string>();
  #isLegacy = false;

  constructor(options: HttpProxyOptions) {
    this.#options = options;
    this.limits = { ...DEFAULT_HTTP_LIMITS, ...options.limits };
    this.#requests = new ByteBudget(this.limits.requestBytes);
    this.#answers = new ByteBudget(this.limits.answerBytes);
    const { url, host, allowHosts = [], allowOrigins = [] } = options;
    const { bodyBytes } = this.limits;
    const principal = headerNames(options.config.principal ?? []);
    this.#door = new Door({ url, host, allowHosts, allowOrigins, principal, bodyBytes });
  }

  get held(): number {
    return this.#requests.used + this.#answers.used;
  }

  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all(this.#calls);
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A client that goes away in the middle is its own affair.
    response.on("error", () => {});
    request.on("error", () => {});
    this.#deliveries.came(request.socket);
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
      // Another query than the configured one may be another account.
      const query = admitted.search === url.search ? "" : admitted.search;
      const who = whoCalls(headers, query, this.#options.config.principal);
      const since = this.#options.guard.epoch;
      await this.#exchange({ request, response, admitted, who, account: held, upstream, since, lasting });
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
    if (upstream.body === null && admitted.route === "mcp" && this.#isLegacy)
      return refuse(response, 502, LEGACY_MESSAGE);
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
      if (isResponse(message)) await this.#hears(message, exchange);
      if (isTaskRequest(message)) return this.#call(message, exchange, (as) => this.#aboutTask(as, message, exchange));
      if ((await this.#cancelled(message, exchange)) === "passes") return this.#passOne(exchange, message);
      return void response.writeHead(202).end();
    }
    const work = this.#call(message, exchange, (as) => this.#callAs(as, incoming, exchange)).finally(() =>
      this.#calls.delete(work),
    );
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
  async #cancelled(message: RpcMessage, exchange: Exchange): Promise<"kept back" | "passes"> {
    if (cancelledId(message) === undefined) return "passes";
    const principal = await this.#believe(exchange, message).catch(() => null);
    // The server itself refuses a cancellation with a credential that it does not accept.
    if (principal === null) return "passes";
    const key = pendingKey(principal, exchange.request.headers, message.params?.requestId as RequestId | undefined);
    const tool = key === null ? undefined : this.#deliveries.cancelled(key);
    if (key === null || tool === undefined) return "passes";
    if (onlyGaveUp(message) && this.#options.guard.finishes(tool)) return "kept back";
    this.#deliveries.stopped(key);
    this.#pending.get(key)?.cancelled();
    return "passes";
  }

  /** Who calls, once the server has accepted the credential; throws its own answer where it does not. */
  async #believe({ who, upstream }: Exchange, message: RpcMessage): Promise<string> {
    const session = sessionOf(upstream.headers);
    if (this.#beliefs.isAccepted(who, session)) return this.#beliefs.principalOf(who, session);
    const since = this.#options.guard.epoch;
    const tools = await new HttpAsk(upstream, message).accepted();
    this.#beliefs.accept(who, session);
    const principal = this.#beliefs.principalOf(who, session);
    if (tools !== null) this.#options.guard.learn(tools, true, principal, since);
    return principal;
  }

  async #call(asked: RpcMessage, exchange: Exchange, answer: (principal: string) => Promise<void>): Promise<void> {
    try {
      await answer(await this.#believe(exchange, asked));
    } catch (error) {
      const { response } = exchange;
      if (error instanceof HttpFailure && error.redirect !== null) return refuse(response, 502, error.redirect);
      // The server's own answer says best why (a 401 makes clients ask for a token, a 404 begin a new session).
      if (error instanceof HttpFailure) return error.passOn(response);
      if (!(error instanceof RpcFailure)) throw error;
      const { code, message, data } = error;
      response.writeHead(200, { "content-type": "application/json" });
      response.end(stringifyExact({ jsonrpc: "2.0", id: asked.id, error: { code, message, data } }));
    }
  }

  async #callAs(
    principal: string,
    { message }: Extract<Incoming, { kind: "call" }>,
    exchange: Exchange,
  ): Promise<void> {
    const { guard, graceMs = CANCEL_GRACE_MS } = this.#options;
    const { response, account, upstream } = exchange;
    const { name } = message.params;
    const key = pendingKey(principal, upstream.headers, message.id);
    if (key !== null && this.#open.has(key)) return refuseId(response, message);
    const call = new HttpCall({
      message,
      response,
      request: upstream,
      principal,
      pending: this.#pending,
      deliveries: this.#deliveries,
      questions: this.#questions,
      graceMs,
      account,
      readerMs: this.limits.readerMs,
      late: (late, of, result) => guard.settleLate(late, of, result),
      lasts: (work) => exchange.lasting.push(work),
    });
    const ask = new HttpAsk(upstream, message);
    try {
      const status = await guard.status(message, principal);
      if (status !== null) return call.answer(status);
      const since = guard.epoch;
      if (guard.needsList(name, principal)) guard.learn(await ask.listTools(), true, principal, since);
      const error = guard.refusal(message, principal);
      if (error !== null) return answerRefused(response, { ids: [message.id], isBatch: false, error });
      if (!guard.guarded(name, principal)) {
        const over = this.#questions.begins(connectionOf(principal, upstream.headers), new Elicitations());
        return await this.#pass(exchange, message).finally(over);
      }
      const answer = await guard.answer(call, (method, params) => ask.request(method, params));
      const { delivery } = answer;
      if (answer.kind === "result" && answer.note === null && call.answerAsItCame(delivery)) return;
      call.answer(mcpResult(answer), delivery);
    } catch (error) {
      const refusal = refusalOfError(error);
      if (refusal !== null) return call.answer(refusal);
      if (error instanceof HttpFailure) throw error;
      if (!call.answerAsItCame()) call.fail(error);
    } finally {
      call.over();
    }
  }

  /** Answered here where the task is the proxy's own; otherwise the ledger hears of the answer before the client. */
  async #aboutTask(principal: string, message: RpcMessage, exchange: Exchange): Promise<void> {
    const { response } = exchange;
    const task = this.#options.guard.about(message, principal);
    if (task === null) return this.#passOne(exchange, message);
    if (typeof task === "function") return this.#passOne({ ...exchange, task }, message);
    const { delivery, ...answer } = await task;
    response.writeHead(200, { "content-type": "application/json" });
    this.#deliveries.answers(null, response, delivery);
    response.end(stringifyExact({ jsonrpc: "2.0", id: message.id, ...answer }));
  }

  /** A request under an id of its own: on a resumed stream its answer could be taken for a call's. */
  async #passOne(exchange: Exchange, message: RpcMessage): Promise<void> {
    const { response, upstream } = exchange;
    const key = isRequest(message) ? pendingKey(this.#principalOf(exchange), upstream.headers, message.id) : null;
    if (key === null) return this.#pass(exchange, message);
    if (this.#pending.has(key)) return refuseId(response, message);
    this.#open.add(key);
    if (this.#open.size > MOST_OPEN) this.#open.delete(this.#open.values().next().value as string);
    await this.#pass({ ...exchange, key }, message);
  }

  #free({ key }: Exchange): void {
    if (key !== undefined) this.#open.delete(key);
  }

  /** As it came, both ways; answers of held calls that arrive on a stream are settled first. */
  async #pass(exchange: Exchange, asked: RpcMessage | null): Promise<void> {
    const { response, upstream, admitted } = exchange;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const answer = await send(upstream, gone.signal);
    if (isRedirect(answer) && (admitted.route === "mcp" || upstream.method === "POST")) {
      answer.resume();
      this.#free(exchange);
      return refuse(response, 502, redirectMessage(answer));
    }
    this.#learnSession(answer, exchange, asked);
    const isRead = asked?.method === "tools/list" || exchange.task !== undefined;
    const list = isRead && !isEventStream(answer) && (answer.statusCode ?? 502) < 300;
    try {
      const body = list ? await bodyOf(answer, exchange.account) : null;
      if (body !== null) await this.#cameOfTask(parseMessage(body.toString("utf8")), exchange);
      response.writeHead(answer.statusCode ?? 502, forwardable(answer.headers));
      if (body !== null) {
        response.setTimeout(this.limits.readerMs, () => response.destroy());
        return void response.end(exchange.task === undefined ? this.#withAddedTools(body, exchange) : body);
      }
      response.flushHeaders();
      if (isEventStream(answer)) await this.#passEvents(answer, exchange, asked);
      else await pipeline(answer, response);
    } catch {
      answer.destroy();
      response.destroy();
    } finally {
      // A stream that broke off before its answer may be resumed: until then the id is taken.
      if (!isEventStream(answer)) this.#free(exchange);
    }
  }

  /** Whose a session is: of whoever it was begun for. */
  #learnSession(
    { statusCode = 502, headers }: IncomingMessage,
    { who, upstream }: Exchange,
    asked: RpcMessage | null,
  ): void {
    if (statusCode >= 300) return;
    const [given, had] = [sessionOf(headers), sessionOf(upstream.headers)];
    if (asked?.method === "initialize" && given !== undefined) this.#beliefs.began(given, who);
    if (upstream.method === "DELETE" && had !== undefined) this.#beliefs.ended(had);
  }

  #principalOf({ who, upstream }: Exchange): string {
    return this.#beliefs.principalOf(who, sessionOf(upstream.headers));
  }

  async #passEvents(answer: IncomingMessage, exchange: Exchange, asked: RpcMessage | null) {
    const { request, response, account } = exchange;
    const own = asked === null ? null : idText(asked.id);
    for await (const event of eventsOf(answer, account)) {
      if (isLegacy(event)) this.#refuseLegacy();
      const message = parseMessage(event.data);
      if (message?.method === "notifications/tools/list_changed") this.#options.guard.forget();
      const isAnswer = message !== null && isResponse(message);
      // The answer to this very request, whatever call has the same id.
      const isOwn = isAnswer && idText(message.id) === own;
      if (isOwn) this.#free(exchange);
      const key = isAnswer && !isOwn ? pendingKey(this.#principalOf(exchange), request.headers, message.id) : null;
      const delivery = key === null ? undefined : await this.#answered(key, message as RpcMessage);
      if (isOwn) await this.#cameOfTask(message, exchange);
      if (message !== null) this.#asks(message, exchange, asked === null);
      const isList = isOwn && asked?.method === "tools/list";
      const added = isList ? this.#listWithAdded(message, event.data, exchange) : null;
      await writeTo(response, added === null ? event.raw : `event: message\ndata: ${oneLine(added)}\n\n`);
      if (delivery !== undefined) this.#deliveries.streamed(key as string, response, delivery);
    }
    response.end();
  }

  async #cameOfTask(answer: RpcMessage | null, { task, response }: Exchange): Promise<void> {
    if (task !== undefined && answer !== null) this.#deliveries.answers(null, response, await task(answer));
  }

  /** A question on a stream that is no guarded call's: a task's, or one of the session. */
  #asks(message: RpcMessage, exchange: Exchange, isOfSession: boolean): void {
    const principal = this.#principalOf(exchange);
    const asker = this.#options.guard.asker(message, principal);
    if (asker === undefined && !isOfSession) return;
    this.#questions.asks(connectionOf(principal, exchange.upstream.headers), message, asker);
  }

  /** From a caller that the server accepts: what another one says about a question is no answer. */
  async #hears(message: RpcMessage, exchange: Exchange): Promise<void> {
    const principal = await this.#believe(exchange, message).catch(() => null);
    if (principal !== null) this.#questions.answers(connectionOf(principal, exchange.upstream.headers), message);
  }

  /** An answer on a stream that is not its call's own: of a call that waits for it, or one that was sent before. */
  #answered(key: string, message: RpcMessage): Promise<Delivery> | Delivery | undefined {
    return this.#pending.get(key)?.answered(message) ?? this.#deliveries.again(key);
  }

  /** Throws, so that the stream is cut before its client learns the address. */
  #refuseLegacy(): never {
    if (!this.#isLegacy) this.#options.note?.(LEGACY_MESSAGE);
    this.#isLegacy = true;
    throw new Error(LEGACY_MESSAGE);
  }

  #withAddedTools(answered: Buffer, exchange: Exchange): Buffer | string {
    const text = answered.toString("utf8");
    return this.#listWithAdded(parseMessage(text), text, exchange) ?? answered;
  }

  /** The last page of the server's tools with the proxy's own; null: not a list, or nothing to add. */
  #listWithAdded(message: RpcMessage | null, text: string, exchange: Exchange): string | null {
    const { addedTools } = this.#options.guard;
    const result = message?.result;
    if (!Array.isArray(result?.tools)) return null;
    // A list is what the server shows to those it accepts.
    this.#beliefs.accept(exchange.who, sessionOf(exchange.upstream.headers));
    const [isLast, since] = [result.nextCursor === undefined, exchange.since];
    this.#options.guard.learn(result.tools, isLast, this.#principalOf(exchange), since);
    if (addedTools.length === 0 || result.nextCursor !== undefined) return null;
    return withItems(text, ["result", "tools"], addedTools);
  }
}
