/** JSON-RPC as MCP speaks it: just enough to find the calls of tools; all else is passed on unread. */
import { parseExact, withMember } from "../../core/exact-json.ts";
import type { ToolHints } from "./hints.ts";

export type RequestId = string | number;

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export interface RpcMessage {
  readonly jsonrpc: "2.0";
  readonly id?: RequestId | null;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: RpcError;
}

export type RpcRequest = RpcMessage & { readonly id: RequestId; readonly method: string };

export interface ToolCall extends RpcRequest {
  readonly method: "tools/call";
  readonly params: { readonly name: string; readonly arguments?: Readonly<Record<string, unknown>> } & Readonly<
    Record<string, unknown>
  >;
}

/** As a server lists it. */
export interface ToolInfo {
  readonly name: string;
  readonly description?: string;
  readonly annotations?: ToolHints;
  readonly inputSchema?: unknown;
}

/** null: not JSON, or not an object. Its numbers keep their digits: what is made of it is written with stringifyExact. */
export function parseMessage(text: string): RpcMessage | null {
  try {
    const value = parseExact(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RpcMessage) : null;
  } catch {
    return null;
  }
}

export function isRequest(message: RpcMessage): message is RpcRequest {
  return typeof message.method === "string" && (typeof message.id === "string" || typeof message.id === "number");
}

export function isToolCall(message: RpcMessage): message is ToolCall {
  return isRequest(message) && message.method === "tools/call" && typeof message.params?.name === "string";
}

export function isResponse(message: RpcMessage): boolean {
  return message.method === undefined && message.id !== undefined && message.id !== null;
}

/** 1 and "1" are two ids. */
export function idText(id: RequestId | null | undefined): string {
  return JSON.stringify(id ?? null);
}

/** The text of a call with what was changed in it (its id, arguments), and every other byte as it came. */
export function changedText(text: string, before: ToolCall, now: ToolCall): string {
  const named = now.id === before.id ? text : withMember(text, [], "id", now.id);
  const [had, has] = [before.params.arguments, now.params.arguments];
  if (has === had || has === undefined) return named;
  if (had === undefined || had === null) return withMember(named, ["params"], "arguments", has);
  const changed = Object.keys(has).filter((name) => has[name] !== had[name]);
  return changed.reduce((made, name) => withMember(made, ["params", "arguments"], name, has[name]), named);
}

/** The request a `notifications/cancelled` is about; undefined: it is another message. */
export function cancelledId(message: RpcMessage | null): string | undefined {
  if (message?.method !== "notifications/cancelled") return undefined;
  return idText(message.params?.requestId as RequestId | undefined);
}

/** The client only stopped waiting (60 s in the official SDK); nobody asked the tool to stop. */
export function onlyGaveUp(message: RpcMessage): boolean {
  return /timed?[ -]?out|-32001/i.test(String(message.params?.reason ?? ""));
}

/** How long after a cancellation an answer is waited for. The official server sends none; then nobody knows. */
export const CANCEL_GRACE_MS = 5_000;

/** For as long an answer is still listened for: a server that does not heed cancellations settles the doubt with it. */
export const LATE_ANSWER_MS = 600_000;

/** Thrown in the place of an answer that nobody waits for any longer. */
export class CancelledUnanswered extends Error {
  /** By this name the ledger knows why: aborted. */
  override readonly name = "AbortError";

  constructor() {
    super("the client cancelled it, and no answer came");
  }
}

/** An error answer, thrown on its way to the guard. The code says what is known about the effect. */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
  readonly code: number;
  readonly data: unknown;
  /** No answer of the server's: said in the place of one that was lost. */
  readonly isLost: boolean;

  constructor(error: RpcError, isLost = false) {
    super(error.message);
    this.isLost = isLost;
    this.code = error.code;
    this.data = error.data;
  }
}

/** What an answer says; an error answer is thrown. */
export function resultOf<R>({ error, result }: RpcMessage, isLost = false): R {
  if (error !== undefined) throw new RpcFailure(error, isLost);
  if (result === undefined) throw new Error("the answer has neither a result nor an error");
  return result as R;
}

const MOST_PAGES = 100;

/** All pages of tools/list. */
export async function allTools(
  ask: (params: object) => Promise<Readonly<Record<string, unknown>> | undefined>,
): Promise<ToolInfo[]> {
  const tools: ToolInfo[] = [];
  let cursor: unknown;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const result = await ask(cursor === undefined ? {} : { cursor });
    tools.push(...((result?.tools as ToolInfo[] | undefined) ?? []));
    cursor = result?.nextCursor;
    if (cursor === undefined) break;
  }
  return tools;
}

/** The client took its request back before it was sent on: nothing was run. */
export class CancelledUnsent extends RpcFailure {
  constructor() {
    super({ code: INVALID_REQUEST, message: "cancelled before it was sent" });
  }
}

export const METHOD_NOT_FOUND = -32_601;
export const INVALID_PARAMS = -32_602;
export const INVALID_REQUEST = -32_600;
export const PARSE_ERROR = -32_700;

/** Refused before the tool was begun; every other error says nothing certain. */
export function isRefusedUnrun(error: unknown): boolean {
  return (
    error instanceof RpcFailure && [METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR].includes(error.code)
  );
}

export const NO_BATCHES: RpcError = {
  code: INVALID_REQUEST,
  message:
    "Not run: a batch with tool calls, cancellations or parts that are no messages cannot be guarded. Send each request by itself.",
};

const PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion";

type Meta = Readonly<Record<string, unknown>>;

/** What a request of the proxy's own says about who asks: the same as the call it serves. A progress token is that call's own. */
export function borrowedMeta({ params }: RpcMessage): { readonly _meta?: Meta } {
  const { progressToken: _, ...meta } = (params?._meta ?? {}) as Meta;
  return Object.keys(meta).length === 0 ? {} : { _meta: meta };
}

/**
 * Since protocol revision 2026-07-28 each request names its revision, and each result says that it is complete; a first
 * result may have been stored for a client of another revision.
 */
export function inRevisionOf<R extends Meta>({ params }: RpcMessage, result: R): Meta {
  if ((params?._meta as Meta | undefined)?.[PROTOCOL_VERSION_KEY] !== undefined) {
    return { resultType: "complete", ...result };
  }
  const { resultType: _, ...plain } = result;
  return plain;
}
