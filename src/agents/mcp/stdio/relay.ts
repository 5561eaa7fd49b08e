/**
 * The guard between one client and one server that exchange single messages (stdio). Only calls of guarded tools are
 * held back; every other message goes through as the very text that came, in both directions and in order. What is not
 * understood does not reach the server: it may read there as a call.
 */
import { randomUUID } from "node:crypto";
import { stringifyExact, withItems } from "../../../core/exact-json.ts";
import { setTimeout } from "../../../engine/real-timers.ts";
import type { AttemptOf } from "../../guard-tool.ts";
import { Elicitations } from "../elicitation.ts";
import type { McpGuard, ProxyCall } from "../guard.ts";
import { refusalOfError } from "../guard.ts";
import { type Incoming, incomingText, refusalsOf } from "../incoming.ts";
import type { TaskAnswer } from "../proxied-tasks.ts";
import { Questions } from "../questions.ts";
import { mcpResult, type ToolResult } from "../result.ts";
import {
  allTools,
  borrowedMeta,
  CANCEL_GRACE_MS,
  CancelledUnanswered,
  CancelledUnsent,
  cancelledId,
  changedText,
  INVALID_REQUEST,
  idText,
  inRevisionOf,
  isRequest,
  isResponse,
  LATE_ANSWER_MS,
  onlyGaveUp,
  parseMessage,
  type RequestId,
  RpcFailure,
  type RpcMessage,
  type RpcRequest,
  resultOf,
  type ToolCall,
} from "../rpc.ts";
import { ClientLife, type Written } from "./client-life.ts";

export interface RelayOptions {
  readonly guard: McpGuard;
  /** `written`: to be called when the line has left, or could not. */
  toClient(line: string, written?: Written): void;
  toServer(line: string): void;
  /** How long the answer of a cancelled call is waited for. */
  readonly graceMs?: number;
}

interface Waiting {
  resolve(answer: Answered): void;
  reject(error: Error): void;
}

interface Answered {
  readonly message: RpcMessage;
  readonly line: string;
  /** Said in the place of an answer that was lost on the way: it is no answer of the server's. */
  readonly isLost: boolean;
}

/** One call of a guarded tool, from the client's message to the answer it gets. */
interface Held {
  readonly call: ProxyCall;
  /** The client waits for no answer any more. */
  cancelled: boolean;
  /** And the server is told: it is not to be begun. */
  stopped: boolean;
  /** How often it was sent. */
  sends: number;
  /** The attempt that it was sent for. */
  of: AttemptOf | null;
  /** Settled when it was sent on, or answered without. */
  readonly sent: Promise<void>;
  leave(): void;
  /** The server's answer as it came, if this very call got one. */
  line: string | null;
}

export class McpRelay {
  readonly #options: RelayOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #held = new Map<string, Held>();
  readonly #calls = new Set<Promise<void>>();
  /** Calls that were cancelled and given up; their answers may come all the same. */
  readonly #late = new Map<string, Held>();
  /** Lists the client asked for, whose answers get the added tools. */
  readonly #lists = new Set<string>();
  /** Requests that were passed on and are not answered yet: a call with the same id would get their answers. */
  readonly #open = new Set<string>();
  /** Of the proxy's own requests: no id of a client's. */
  readonly #ownIds = `nevertwice:${randomUUID()}`;
  readonly #life = new ClientLife();
  readonly #questions = new Questions();
  /** By the id of a request: of calls that pass, when they are over; of requests about tasks, who is told the answer. */
  readonly #ends = new Map<string, () => void>();
  readonly #tasks = new Map<string, TaskAnswer>();
  /** Calls under way, by the id they were sent with. */
  readonly #asking = new Map<string, Elicitations>();
  #listing: Promise<void> | null = null;
  #closed: Error | null = null;
  #count = 0;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  fromClient(line: string): void {
    const incoming = incomingText(line);
    this.#life.heard("message" in incoming ? incoming.message : null);
    if (incoming.kind === "refused") {
      for (const answer of refusalsOf(incoming.answers)) this.#options.toClient(JSON.stringify(answer));
      return;
    }
    const messages = incoming.kind === "batch" ? incoming.messages : [incoming.message];
    const taken = messages.find((message) => this.#isTaken(message));
    if (taken !== undefined) return void this.#refuseId(taken);
    if (incoming.kind === "call") return void this.#hold(incoming, line);
    for (const message of messages) if (isResponse(message)) this.#questions.answers("", message);
    if (incoming.kind === "message" && isRequest(incoming.message) && this.#isOwnTask(incoming.message)) return;
    for (const message of messages) this.#passes(message);
    const cancelled = incoming.kind === "message" ? cancelledId(incoming.message) : undefined;
    if (cancelled !== undefined && this.#held.has(cancelled))
      return void this.#cancel(cancelled, messages[0] as RpcMessage, line);
    this.#options.toServer(oneLine(line));
  }

  /** An answer under this id could be another's: it would settle a call with what it did not do. */
  #isTaken(message: RpcMessage): boolean {
    if (!isRequest(message)) return false;
    const id = idText(message.id);
    return [this.#held, this.#late, this.#waiting, this.#open].some((ids) => ids.has(id));
  }

  /** Without the id: an answer under it belongs to the request that has it. */
  #refuseId({ id }: RpcMessage): void {
    const message = `Not run: the id ${idText(id)} belongs to a request that is under way. Give each request an id of its own.`;
    this.#options.toClient(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: INVALID_REQUEST, message } }));
  }

  #passes(message: RpcMessage): void {
    const cancelled = cancelledId(message);
    if (cancelled !== undefined) this.#over(cancelled);
    if (!isRequest(message)) return;
    const id = idText(message.id);
    if (message.method === "tools/list") this.#lists.add(id);
    this.#open.add(id);
    // A server that leaves requests unanswered must not fill the memory.
    if (this.#open.size > MOST_OPEN) this.#open.delete(this.#open.values().next().value as string);
  }

  /** A request that was passed on. */
  #over(id: string): void {
    this.#open.delete(id);
    this.#ends.get(id)?.();
    this.#ends.delete(id);
    this.#tasks.delete(id);
  }

  #cancel(id: string, message: RpcMessage, line: string): void {
    const held = this.#held.get(id) as Held;
    held.cancelled = true;
    if (onlyGaveUp(message) && this.#options.guard.finishes(held.call.message.params.name)) return;
    held.stopped = true;
    this.#options.toServer(oneLine(line));
    setTimeout(() => this.#giveUp(id, held), this.#options.graceMs ?? CANCEL_GRACE_MS).unref();
  }

  #giveUp(id: string, held: Held): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    this.#late.set(id, held);
    setTimeout(() => this.#late.delete(id), LATE_ANSWER_MS).unref();
    waiting.reject(new CancelledUnanswered());
  }

  /** `during`: the request on whose stream it came, where each has its own. */
  fromServer(line: string, isLost = false, during?: RequestId | null): void {
    const message = parseMessage(line);
    if (message === null) return void this.#options.toClient(line);
    const { guard, toClient } = this.#options;
    if (message.method === "notifications/tools/list_changed") guard.forget();
    if (!isResponse(message)) {
      // A stream that is no guarded call's own asks for somebody else.
      const whose = during == null ? undefined : (this.#asking.get(idText(during)) ?? new Elicitations());
      this.#questions.asks("", message, guard.asker(message) ?? whose);
      return void toClient(line);
    }
    const id = idText(message.id);
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined) {
      this.#waiting.delete(id);
      return void waiting.resolve({ message, line, isLost });
    }
    const task = this.#tasks.get(id);
    this.#over(id);
    this.#settleLate(id, message);
    if (task === undefined) return void toClient(this.#lists.delete(id) ? this.#listed(message, line) : line);
    void task(message).then((delivery) => toClient(line, this.#life.writing(id, delivery)));
  }

  /** A request about a task: true where it is answered here, since the task is the proxy's own. */
  #isOwnTask(message: RpcRequest): boolean {
    const about = this.#options.guard.about(message);
    if (about === null) return false;
    const { id } = message;
    if (typeof about === "function") return !this.#tasks.set(idText(id), about);
    void about.then(({ delivery, ...answer }) => {
      const text = stringifyExact({ jsonrpc: "2.0", id, ...answer });
      this.#options.toClient(text, this.#life.writing(idText(id), delivery));
    });
    return true;
  }

  #settleLate(id: string, message: RpcMessage): void {
    const held = this.#late.get(id);
    if (held === undefined || !this.#late.delete(id) || held.of === null || message.result === undefined) return;
    this.#options.guard.settleLate(held.call, held.of, message.result as ToolResult);
  }

  /** The server is gone: nobody will answer what was sent. */
  serverGone(why: Error): void {
    this.#closed = why;
    for (const waiting of this.#waiting.values()) waiting.reject(why);
    this.#waiting.clear();
  }

  /** The client sends nothing more: what it has got is known now. */
  clientEnds(reads: () => Promise<boolean>): Promise<void> {
    return this.#life.ends(reads);
  }

  /** When every call is settled. */
  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all(this.#calls);
  }

  /** Every request that came is answered. */
  get isQuiet(): boolean {
    return this.#calls.size === 0 && this.#open.size === 0;
  }

  /** When every call that came has been sent on, or answered. */
  async sent(): Promise<void> {
    await Promise.all([...this.#held.values()].map(({ sent }) => sent));
  }

  #hold({ message }: Extract<Incoming, { kind: "call" }>, line: string): void {
    let leave = () => {};
    const sent = new Promise<void>((left) => {
      leave = left;
    });
    const held: Held = {
      call: {
        message,
        asked: new Elicitations(message.params.inputResponses),
        isCancelled: () => held.cancelled,
        isLeft: () => held.cancelled,
        forward: (one, of) => this.#forward(held, oneLine(line), one, of),
      },
      sends: 0,
      cancelled: false,
      stopped: false,
      of: null,
      line: null,
      sent,
      leave,
    };
    const id = idText(message.id);
    this.#held.set(id, held);
    const call = this.#call(message, oneLine(line), held)
      .catch((error: unknown) => this.#answerError(message, error))
      .finally(() => {
        held.leave();
        this.#held.delete(id);
        this.#calls.delete(call);
      });
    this.#calls.add(call);
  }

  async #call(message: ToolCall, line: string, held: Held): Promise<void> {
    const { guard, toServer } = this.#options;
    const { name } = message.params;
    // The ledger may be closed by now, and it would be told that this cannot be checked.
    if (this.#closed !== null) throw serverEnded();
    const status = await guard.status(message);
    if (status !== null) return void this.#answer(message, status);
    if (guard.needsList(name)) await this.#learnTools(message);
    const refused = guard.refusal(message);
    if (refused !== null) throw new RpcFailure(refused);
    if (!guard.guarded(name)) {
      if (held.cancelled) return;
      this.#passes(message);
      this.#ends.set(idText(message.id), this.#questions.begins("", new Elicitations()));
      return toServer(line);
    }
    const answer = await guard.answer(held.call, (method, params) => this.#ask(method, params, message));
    // A client that gave up before does not wait for it: its later messages say nothing about this answer.
    const written = held.cancelled ? undefined : this.#life.writing(idText(message.id), answer.delivery);
    if (held.cancelled) answer.delivery.lost();
    const asItCame = answer.kind === "result" && answer.note === null ? held.line : null;
    if (asItCame !== null) return void this.#options.toClient(asItCame, written);
    // Whoever cancelled waits for no answer.
    if (!held.cancelled) this.#answer(message, mcpResult(answer), written);
  }

  async #forward(held: Held, line: string, sent: ToolCall, of: AttemptOf | null): Promise<ToolResult> {
    const { message, asked } = held.call;
    held.sends += 1;
    held.of = of;
    // The first time the very line that came; a second attempt of one call may not use its id again.
    const first = held.sends === 1;
    if (held.stopped && first) throw new CancelledUnsent();
    const own = first ? sent : { ...sent, id: this.#ownId() };
    const over = this.#questions.begins("", asked as Elicitations);
    this.#asking.set(idText(own.id), asked as Elicitations);
    try {
      const answering = this.#request(own.id, changedText(line, message, own));
      held.leave();
      const answer = await answering;
      held.line = first ? answer.line : null;
      return resultOf(answer.message, answer.isLost);
    } finally {
      this.#asking.delete(idText(own.id));
      over();
    }
  }

  #request(id: RequestId, line: string): Promise<Answered> {
    if (this.#closed !== null) return Promise.reject(serverEnded());
    return new Promise((resolve, reject) => {
      this.#waiting.set(idText(id), { resolve, reject });
      this.#options.toServer(line);
    });
  }

  /** A request of the proxy's own, such as a call that looks whether another happened. */
  async #ask(method: string, given: object, call: ToolCall): Promise<ToolResult> {
    const { message, isLost } = await this.#requestOwn(method, given, call);
    return resultOf(message, isLost);
  }

  #requestOwn(method: string, given: object, call: ToolCall): Promise<Answered> {
    const id = this.#ownId();
    const params = { ...given, ...borrowedMeta(call) };
    return this.#request(id, stringifyExact({ jsonrpc: "2.0", id, method, params }));
  }

  /** Which tools are read-only, asked once by the proxy itself when the client has not. */
  #learnTools(call: ToolCall): Promise<void> {
    this.#listing ??= this.#list(call).finally(() => {
      this.#listing = null;
    });
    return this.#listing;
  }

  async #list(call: ToolCall): Promise<void> {
    const since = this.#options.guard.epoch;
    // A server without a list answers with an error, and has none.
    const tools = await allTools(async (params) => (await this.#requestOwn("tools/list", params, call)).message.result);
    this.#options.guard.learn(tools, true, "", since);
  }

  #listed(message: RpcMessage, line: string): string {
    const { guard } = this.#options;
    guard.learn(message.result?.tools, message.result?.nextCursor === undefined);
    if (message.result?.nextCursor !== undefined) return line;
    return withItems(line, ["result", "tools"], guard.addedTools) ?? line;
  }

  #answer(call: ToolCall, result: ToolResult, written?: Written): void {
    const answer = { jsonrpc: "2.0", id: call.id, result: inRevisionOf(call, result) };
    this.#options.toClient(stringifyExact(answer), written);
  }

  #answerError(call: ToolCall, error: unknown): void {
    const { id } = call;
    const held = this.#held.get(idText(id));
    const refusal = refusalOfError(error);
    if (refusal !== null) return void this.#answer(call, refusal);
    // A cancelled request gets no answer.
    if (error instanceof CancelledUnsent) return;
    if (held !== undefined && held.line !== null) return void this.#options.toClient(held.line);
    const { code = -32_603, message, data } = error as { code?: number; message: string; data?: unknown };
    const shown = { code: typeof code === "number" ? code : -32_603, message, ...(data !== undefined && { data }) };
    this.#options.toClient(stringifyExact({ jsonrpc: "2.0", id, error: shown }));
  }

  #ownId(): string {
    this.#count += 1;
    return `${this.#ownIds}:${this.#count}`;
  }
}

const MOST_OPEN = 10_000;

/**
 * Many a server reads lines that end with other characters too (Node's readline does): between those, a text in a message
 * would be a message of its own. JSON has an escape for each that can stand in a string; a CR is white space in it.
 */
function oneLine(line: string): string {
  return /[\r\u0085\u2028\u2029]/.test(line)
    ? line
        .replace(/\r/g, " ")
        .replace(/[\u0085\u2028\u2029]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : line;
}

/** Told as not run: there is nobody left to run it. */
function serverEnded(): RpcFailure {
  return new RpcFailure({ code: INVALID_REQUEST, message: "Not run: the MCP server has ended. Nothing was sent." });
}
