/** One held call on streamable HTTP: sent on, its stream passed through, its answer kept back until it is settled. */
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../../../core/errors.ts";
import { stringifyExact } from "../../../core/exact-json.ts";
import { setTimeout } from "../../../engine/real-timers.ts";
import type { AttemptOf } from "../../guard-tool.ts";
import { type Delivery, NO_DELIVERY } from "../delivery.ts";
import { Elicitations } from "../elicitation.ts";
import type { ProxyCall } from "../guard.ts";
import type { Questions } from "../questions.ts";
import type { ToolResult } from "../result.ts";
import {
  CancelledUnanswered,
  CancelledUnsent,
  changedText,
  INVALID_REQUEST,
  idText,
  inRevisionOf,
  isResponse,
  LATE_ANSWER_MS,
  parseMessage,
  RpcFailure,
  type RpcMessage,
  resultOf,
  type ToolCall,
} from "../rpc.ts";
import { type HttpDeliveries, isOver } from "./delivery.ts";
import { HttpFailure } from "./failure.ts";
import type { Account } from "./limits.ts";
import {
  bodyOf,
  eventsOf,
  forwardable,
  isEventStream,
  STREAM_ENDED,
  send,
  type UpstreamRequest,
  writeTo,
} from "./upstream.ts";

/** By caller, session and request id. */
export type PendingAnswers = Map<string, PendingAnswer>;

export interface PendingAnswer {
  /** The answer came on another stream; resolves when the ledger knows. */
  answered(answer: RpcMessage): Promise<Delivery>;
  /** The client has cancelled the call. */
  cancelled(): void;
}

/** null: there is no session to tell it by. A session id that another caller sends names nothing of this one's. */
export function pendingKey(
  principal: string,
  headers: IncomingHttpHeaders,
  id: ToolCall["id"] | null | undefined,
): string | null {
  const session = headers["mcp-session-id"];
  return session === undefined ? null : JSON.stringify([principal, session, id ?? null]);
}

/** One caller's session: its questions and answers belong together. */
export function connectionOf(principal: string, headers: IncomingHttpHeaders): string {
  return JSON.stringify([principal, headers["mcp-session-id"]]);
}

export interface HttpCallOptions {
  readonly message: ToolCall;
  readonly request: UpstreamRequest;
  readonly response: ServerResponse;
  readonly principal: string;
  readonly pending: PendingAnswers;
  readonly deliveries: HttpDeliveries;
  readonly questions: Questions;
  readonly graceMs: number;
  /** What the answer takes while it is held. */
  readonly account: Account;
  /** A client that does not read its answer is cut off after this. */
  readonly readerMs: number;
  /** Takes the answer of a call that was cancelled and given up. */
  late(call: ProxyCall, of: AttemptOf, result: ToolResult): void;
  /** Is given work that outlives the call. */
  lasts(work: Promise<unknown>): void;
}

interface Elsewhere {
  readonly answer: Promise<RpcMessage>;
  cancel(): void;
}

export class HttpCall implements ProxyCall {
  readonly message: ToolCall;
  readonly principal: string;
  readonly client: string;
  readonly asked: Elicitations;
  readonly #options: HttpCallOptions;
  readonly #key: string | null;
  readonly #settled: Promise<Delivery>;
  #settle = (_: Delivery) => {};
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
    const { request, response, deliveries, message } = options;
    this.client = clientOf(request.headers, response);
    this.asked = new Elicitations(message.params.inputResponses);
    this.#key = pendingKey(options.principal, request.headers, message.id);
    deliveries.asks(this.#key, message.params.name);
    this.#settled = new Promise((settled) => {
      this.#settle = settled;
    });
    this.#givenUp = new Promise((_, giveUp) => {
      this.#giveUp = () => giveUp(new CancelledUnanswered());
    });
    this.#givenUp.catch(() => {});
  }

  get #connection(): string {
    return connectionOf(this.principal, this.#options.request.headers);
  }

  isCancelled(): boolean {
    return this.#options.deliveries.isCancelled(this.#key);
  }

  isLeft(): boolean {
    const { response } = this.#options;
    return this.isCancelled() || isOver(response);
  }

  async forward(message: ToolCall, of: AttemptOf | null): Promise<ToolResult> {
    if (this.#sends === 0 && this.#options.deliveries.isStopped(this.#key)) throw new CancelledUnsent();
    const work = this.#send(message);
    try {
      return await Promise.race([work, this.#givenUp]);
    } catch (error) {
      if (error instanceof CancelledUnanswered && of !== null) {
        const late = work.then((result) => this.#options.late(this, of, result));
        this.#options.lasts(late.catch(() => {}));
      }
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
    // A second attempt of one call may not use its id again.
    const own = this.#sends > 1 ? { ...message, id: `nevertwice:${randomUUID()}` } : message;
    const text = own === this.message ? null : changedText(String(request.body), this.message, own);
    const body = text === null ? request.body : Buffer.from(text);
    const elsewhere = this.#elsewhere(own.id);
    const over = this.#options.questions.begins(this.#connection, this.asked);
    try {
      const answer = await send({ ...request, body }, this.#over.signal);
      if ((answer.statusCode ?? 502) >= 300) throw new HttpFailure(answer, await bodyOf(answer, this.#options.account));
      return isEventStream(answer)
        ? await this.#fromStream(answer, own.id, elsewhere)
        : await this.#fromBody(answer, own.id);
    } finally {
      elsewhere.cancel();
      over();
    }
  }

  async #fromBody(answer: IncomingMessage, id: ToolCall["id"]): Promise<ToolResult> {
    const { response, account } = this.#options;
    const text = (await bodyOf(answer, account)).toString("utf8");
    if (!response.headersSent) this.#head = { status: answer.statusCode ?? 200, headers: forwardable(answer.headers) };
    const message = parseMessage(text);
    // Another request's answer is no evidence. An error may have no id: then the server could not read the request.
    const isOwn = message !== null && (message.error !== undefined || idText(message.id) === idText(id));
    return this.#taken(isOwn ? message : null, text);
  }

  #head: { readonly status: number; readonly headers: Record<string, string | string[]> } | null = null;

  async #fromStream(answer: IncomingMessage, id: ToolCall["id"], elsewhere: Elsewhere): Promise<ToolResult> {
    const { response } = this.#options;
    if (!response.headersSent) response.writeHead(answer.statusCode ?? 200, forwardable(answer.headers)).flushHeaders();
    let resumable = false;
    let found: { readonly message: RpcMessage; readonly raw: string } | null = null;
    try {
      for await (const { raw, data, resumable: hasId } of eventsOf(answer, this.#options.account)) {
        resumable ||= hasId;
        const message = parseMessage(data);
        if (message !== null && isResponse(message) && idText(message.id) === idText(id)) {
          found = { message, raw };
          break;
        }
        if (message !== null) this.#options.questions.asks(this.#connection, message, this.asked);
        await writeTo(response, raw);
      }
    } catch (error) {
      if (!resumable) throw error;
    }
    if (found !== null) return this.#taken(found.message, found.raw);
    if (!resumable || pendingKey(this.principal, this.#options.request.headers, id) === null)
      throw new Error(STREAM_ENDED);
    // The client has to notice that its stream is over, to resume it.
    response.end();
    return this.#taken(await elsewhere.answer, "");
  }

  /** The answer may come on the stream a client resumes; it goes to the client there, once the ledger knows. */
  #elsewhere(id: ToolCall["id"]): Elsewhere {
    const { pending, request } = this.#options;
    const key = pendingKey(this.principal, request.headers, id);
    // Without a session, ids of different clients cannot be told apart, and there is no stream to resume.
    if (key === null) return { answer: new Promise(() => {}), cancel: () => {} };
    // On a resumed stream, the answer of one could be taken for the other's.
    if (pending.has(key)) throw new RpcFailure(ID_IN_USE);
    const cancel = () => pending.delete(key);
    const answer = new Promise<RpcMessage>((resolve) => {
      pending.set(key, {
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
    if (message === null) throw new Error("the answer is no JSON-RPC answer to this call");
    this.#came = this.#sends === 1 ? text : null;
    return resultOf(message);
  }

  /** The server's own bytes, where this very call got them. */
  answerAsItCame(delivery = NO_DELIVERY): boolean {
    const { response } = this.#options;
    if (this.#came === null) return false;
    this.#settle(delivery);
    if (!response.headersSent && this.#head !== null) response.writeHead(this.#head.status, this.#head.headers);
    // Otherwise it came on another stream, and goes to the client there.
    if (!response.writableEnded) this.#close(this.#came, delivery);
    return true;
  }

  answer(result: ToolResult, delivery = NO_DELIVERY): void {
    this.#end({ jsonrpc: "2.0", id: this.message.id, result: inRevisionOf(this.message, result) }, delivery);
  }

  /** However it ended. */
  over(): void {
    this.#options.deliveries.left(this.#key);
  }

  fail(error: unknown): void {
    const { code } = error as { code?: unknown };
    const shown = { code: typeof code === "number" ? code : -32_000, message: messageOf(error) };
    this.#end({ jsonrpc: "2.0", id: this.message.id, error: shown }, NO_DELIVERY);
  }

  #end(message: object, delivery: Delivery): void {
    this.#settle(delivery);
    const { response } = this.#options;
    if (response.writableEnded) return void delivery.lost();
    // Whoever cancelled waits for no answer.
    if (this.#cancelled && response.headersSent) return void this.#close("", delivery);
    const text = stringifyExact(message);
    if (response.headersSent) return void this.#close(`event: message\ndata: ${text}\n\n`, delivery);
    response.writeHead(200, { "content-type": "application/json" });
    this.#close(text, delivery);
  }

  #close(text: string, delivery: Delivery): void {
    const { response, readerMs, deliveries } = this.#options;
    deliveries.answers(this.#key, response, delivery);
    response.setTimeout(readerMs, () => response.destroy());
    response.end(text);
  }
}

/** A session, or the connection where there is none. */
function clientOf(headers: IncomingHttpHeaders, { socket }: ServerResponse): string {
  return String(headers["mcp-session-id"] ?? `${socket?.remoteAddress} ${socket?.remotePort}`);
}

export const ID_IN_USE = {
  code: INVALID_REQUEST,
  message: "Not run: a call with the same id is under way in this session. Give each request an id of its own.",
};
