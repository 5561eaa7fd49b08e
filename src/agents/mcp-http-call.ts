/** One held call on streamable HTTP: sent on, its stream passed through, its answer kept back until it is settled. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../core/errors.ts";
import type { ProxyCall } from "./mcp-guard.ts";
import {
  borrowedMeta,
  CancelledUnanswered,
  idText,
  inRevisionOf,
  isResponse,
  LATE_ANSWER_MS,
  parseMessage,
  RpcFailure,
  type RpcMessage,
  type ToolCall,
} from "./mcp-message.ts";
import type { ToolResult } from "./mcp-result.ts";
import { bodyOf, eventsOf, forwardable, isEventStream, send, type UpstreamRequest, writeTo } from "./mcp-upstream.ts";

/** By session and request id. */
export type PendingAnswers = Map<string, PendingAnswer>;

export interface PendingAnswer {
  readonly tool: string;
  /** The answer came on another stream; resolves when the ledger knows. */
  answered(answer: RpcMessage): Promise<void>;
  /** The client has cancelled the call. */
  cancelled(): void;
}

/** null: there is no session to tell it by. */
export function pendingKey(headers: IncomingHttpHeaders, id: ToolCall["id"] | null | undefined): string | null {
  const session = headers["mcp-session-id"];
  return session === undefined ? null : `${String(session)} ${idText(id)}`;
}

export interface HttpCallOptions {
  readonly message: ToolCall;
  readonly request: UpstreamRequest;
  readonly response: ServerResponse;
  readonly principal: string;
  readonly pending: PendingAnswers;
  readonly graceMs: number;
  /** Takes the answer of a call that was cancelled and given up. */
  late(key: string, result: ToolResult): void;
}

/** An HTTP status instead of an answer. */
export class HttpFailure extends Error {
  override readonly name = "HttpFailure";
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly #body: Buffer;

  constructor(answer: IncomingMessage, body: Buffer) {
    super(`the MCP server answered HTTP ${answer.statusCode}`);
    this.status = answer.statusCode ?? 502;
    this.headers = answer.headers;
    this.#body = body;
  }

  passOn(response: ServerResponse): void {
    response.writeHead(this.status, forwardable(this.headers)).end(this.#body);
  }
}

interface Elsewhere {
  readonly answer: Promise<RpcMessage>;
  cancel(): void;
}

export class HttpCall implements ProxyCall {
  readonly message: ToolCall;
  readonly principal: string;
  readonly #options: HttpCallOptions;
  readonly #settled: Promise<void>;
  #settle = () => {};
  /** The text that carried the answer: a body, or an event. */
  #came: string | null = null;
  #sends = 0;
  #cancelled = false;
  /** Ends what is still listened to of a cancelled call. */
  readonly #over = new AbortController();
  readonly #givenUp: Promise<never>;
  #giveUp = () => {};

  constructor(options: HttpCallOptions) {
    this.#options = options;
    this.message = options.message;
    this.principal = options.principal;
    this.#settled = new Promise((settled) => {
      this.#settle = settled;
    });
    this.#givenUp = new Promise((_, giveUp) => {
      this.#giveUp = () => giveUp(new CancelledUnanswered());
    });
    this.#givenUp.catch(() => {});
  }

  async forward(message: ToolCall, key: string): Promise<ToolResult> {
    const work = this.#send(message);
    try {
      return await Promise.race([work, this.#givenUp]);
    } catch (error) {
      if (error instanceof CancelledUnanswered)
        work.then(
          (result) => this.#options.late(key, result),
          () => {},
        );
      throw error;
    }
  }

  #cancel(): void {
    this.#cancelled = true;
    setTimeout(this.#giveUp, this.#options.graceMs).unref();
    setTimeout(() => this.#over.abort(), LATE_ANSWER_MS).unref();
  }

  async #send(message: ToolCall): Promise<ToolResult> {
    const { request } = this.#options;
    this.#sends += 1;
    this.#came = null;
    const own = this.#sends > 1 ? { ...message, id: `nevertwice:${idText(message.id)}:${this.#sends}` } : message;
    const body = own === this.message ? request.body : Buffer.from(JSON.stringify(own));
    const elsewhere = this.#elsewhere(own.id);
    try {
      const answer = await send({ ...request, body }, this.#over.signal);
      if ((answer.statusCode ?? 502) >= 300) throw new HttpFailure(answer, await bodyOf(answer));
      return isEventStream(answer) ? await this.#fromStream(answer, own.id, elsewhere) : await this.#fromBody(answer);
    } finally {
      elsewhere.cancel();
    }
  }

  async #fromBody(answer: IncomingMessage): Promise<ToolResult> {
    const { response } = this.#options;
    const text = (await bodyOf(answer)).toString("utf8");
    if (!response.headersSent) this.#head = { status: answer.statusCode ?? 200, headers: forwardable(answer.headers) };
    return this.#taken(parseMessage(text), text);
  }

  #head: { readonly status: number; readonly headers: Record<string, string | string[]> } | null = null;

  async #fromStream(answer: IncomingMessage, id: ToolCall["id"], elsewhere: Elsewhere): Promise<ToolResult> {
    const { response } = this.#options;
    if (!response.headersSent) response.writeHead(answer.statusCode ?? 200, forwardable(answer.headers)).flushHeaders();
    let resumable = false;
    let found: { readonly message: RpcMessage; readonly raw: string } | null = null;
    try {
      for await (const { raw, data, resumable: hasId } of eventsOf(answer)) {
        resumable ||= hasId;
        const message = parseMessage(data);
        if (message !== null && isResponse(message) && idText(message.id) === idText(id)) {
          found = { message, raw };
          break;
        }
        await writeTo(response, raw);
      }
    } catch (error) {
      if (!resumable) throw error;
    }
    if (found !== null) return this.#taken(found.message, found.raw);
    if (!resumable || pendingKey(this.#options.request.headers, id) === null)
      throw new Error("the stream ended before the answer came");
    // The client has to notice that its stream is over, to resume it.
    response.end();
    return this.#taken(await elsewhere.answer, "");
  }

  /** The answer may come on the stream a client resumes; it goes to the client there, once the ledger knows. */
  #elsewhere(id: ToolCall["id"]): Elsewhere {
    const { pending, request } = this.#options;
    const key = pendingKey(request.headers, id);
    // Without a session, ids of different clients cannot be told apart, and there is no stream to resume.
    if (key === null) return { answer: new Promise(() => {}), cancel: () => {} };
    const cancel = () => pending.delete(key);
    const answer = new Promise<RpcMessage>((resolve) => {
      pending.set(key, {
        tool: this.message.params.name,
        answered: (message) => {
          cancel();
          resolve(message);
          return this.#settled;
        },
        cancelled: () => this.#cancel(),
      });
    });
    return { answer, cancel };
  }

  #taken(message: RpcMessage | null, text: string): ToolResult {
    if (message === null) throw new Error("the answer is no JSON-RPC message");
    this.#came = this.#sends === 1 ? text : null;
    if (message.error !== undefined) throw new RpcFailure(message.error);
    return (message.result ?? {}) as ToolResult;
  }

  /** The server's own bytes, where this very call got them. */
  answerAsItCame(): boolean {
    this.#settle();
    const { response } = this.#options;
    if (this.#came === null) return false;
    if (!response.headersSent && this.#head !== null) response.writeHead(this.#head.status, this.#head.headers);
    response.end(this.#came);
    return true;
  }

  answer(result: ToolResult): void {
    this.#end({ jsonrpc: "2.0", id: this.message.id, result: inRevisionOf(this.message, result) });
  }

  fail(error: unknown): void {
    const { code } = error as { code?: unknown };
    const shown = { code: typeof code === "number" ? code : -32_000, message: messageOf(error) };
    this.#end({ jsonrpc: "2.0", id: this.message.id, error: shown });
  }

  #end(message: object): void {
    this.#settle();
    const { response } = this.#options;
    if (response.writableEnded) return;
    // Whoever cancelled waits for no answer.
    if (this.#cancelled && response.headersSent) return void response.end();
    const text = JSON.stringify(message);
    if (response.headersSent) return void response.end(`event: message\ndata: ${text}\n\n`);
    response.writeHead(200, { "content-type": "application/json" }).end(text);
  }

  // ---- what the proxy asks for itself, with this call's session and credentials

  async listTools(): Promise<unknown[]> {
    const tools: unknown[] = [];
    let cursor: unknown;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const result = await this.#ask("tools/list", cursor === undefined ? {} : { cursor });
      tools.push(...((result.tools as unknown[] | undefined) ?? []));
      cursor = result.nextCursor;
      if (cursor === undefined) break;
    }
    return tools;
  }

  async callTool(name: string, args: Readonly<Record<string, unknown>>): Promise<ToolResult> {
    return this.#ask("tools/call", { name, arguments: args });
  }

  async #ask(method: string, params: object): Promise<ToolResult> {
    const { request } = this.#options;
    const id = `nevertwice:${method}:${idText(this.message.id)}`;
    const asked = { jsonrpc: "2.0", id, method, params: { ...params, ...borrowedMeta(this.message) } };
    const headers = { ...request.headers, ...routing(request.headers, method, params) };
    const answer = await send({ ...request, headers, body: Buffer.from(JSON.stringify(asked)) });
    if ((answer.statusCode ?? 502) >= 300) throw new HttpFailure(answer, await bodyOf(answer));
    if (!isEventStream(answer)) return resultOf(parseMessage((await bodyOf(answer)).toString("utf8")));
    for await (const event of eventsOf(answer)) {
      const message = parseMessage(event.data);
      if (message !== null && isResponse(message)) return resultOf(message);
    }
    throw new Error("the stream ended before the answer came");
  }
}

const MOST_PAGES = 100;

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
