/** One held call on streamable HTTP: sent on, its stream passed through, its answer kept back until it is settled. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../core/errors.ts";
import type { ProxyCall } from "./mcp-guard.ts";
import { idText, isResponse, parseMessage, RpcFailure, type RpcMessage, type ToolCall } from "./mcp-message.ts";
import type { ToolResult } from "./mcp-result.ts";
import { bodyOf, eventsOf, forwardable, isEventStream, send, type UpstreamRequest, writeTo } from "./mcp-upstream.ts";

/** By session and request id; called with the answer, it resolves when the ledger knows. */
export type PendingAnswers = Map<string, (answer: RpcMessage) => Promise<void>>;

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

  constructor(options: HttpCallOptions) {
    this.#options = options;
    this.message = options.message;
    this.principal = options.principal;
    this.#settled = new Promise((settled) => {
      this.#settle = settled;
    });
  }

  async forward(message: ToolCall): Promise<ToolResult> {
    const { request } = this.#options;
    this.#sends += 1;
    this.#came = null;
    const own = this.#sends > 1 ? { ...message, id: `nevertwice:${idText(message.id)}:${this.#sends}` } : message;
    const body = own === this.message ? request.body : Buffer.from(JSON.stringify(own));
    const elsewhere = this.#elsewhere(own.id);
    try {
      const answer = await send({ ...request, body });
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
      pending.set(key, (message) => {
        cancel();
        resolve(message);
        return this.#settled;
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
    this.#end({ jsonrpc: "2.0", id: this.message.id, result });
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
    const meta = this.message.params._meta;
    const asked = { jsonrpc: "2.0", id, method, params: { ...params, ...metaOf(meta) } };
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

/** Since protocol revision 2026-07-28 each request says in `_meta` who asks; a progress token is the call's own. */
function metaOf(meta: unknown): object {
  if (typeof meta !== "object" || meta === null) return {};
  const { progressToken, ...rest } = meta as Record<string, unknown>;
  return Object.keys(rest).length === 0 ? {} : { _meta: rest };
}

/** Since the same revision the method and the name also stand in headers, and must agree with the body. */
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
