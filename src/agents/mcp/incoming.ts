/**
 * What a client sent, before anything of it reaches the server: a call to guard, a message that may pass, or something the
 * guard cannot be sure about, which is refused. Servers read messages more leniently than the protocol asks (names in any
 * case, the first of two equal names, a call without an id), so "not a call by our reading" is not enough to let it pass.
 */

import { parseExact } from "../../core/exact-json.ts";
import { type JsonReading, readJson, readJsonBytes } from "../../core/strict-json.ts";
import {
  INVALID_PARAMS,
  INVALID_REQUEST,
  isToolCall,
  NO_BATCHES,
  PARSE_ERROR,
  type RequestId,
  type RpcError,
  type RpcMessage,
  type ToolCall,
} from "./rpc.ts";
import { isName } from "./tool-name.ts";

export type Incoming =
  | { readonly kind: "call"; readonly message: ToolCall }
  | { readonly kind: "message"; readonly message: RpcMessage }
  /** None of them calls a tool. */
  | { readonly kind: "batch"; readonly messages: readonly RpcMessage[] }
  | { readonly kind: "refused"; readonly answers: Refusals };

export interface Refusals {
  /** By id: several for a batch. */
  readonly ids: readonly (RequestId | null)[];
  readonly isBatch: boolean;
  readonly error: RpcError;
}

export const incomingText = (text: string): Incoming => incoming(readJson(text, parseExact));
export const incomingBytes = (bytes: Uint8Array): Incoming => incoming(readJsonBytes(bytes, parseExact));

/** As JSON-RPC answers. */
export function refusalsOf({ ids, error }: Refusals): readonly object[] {
  return ids.map((id) => ({ jsonrpc: "2.0", id, error }));
}

function incoming(reading: JsonReading): Incoming {
  if (!reading.ok) return refused(null, PARSE_ERROR, `Not run: the message cannot be read: ${reading.problem}.`);
  const { value } = reading;
  if (Array.isArray(value)) return batch(value);
  const problem = messageProblem(value);
  const id = idOf(value);
  if (problem !== null) return refused(id, problem.code, `Not run: ${problem.what}.`);
  const message = value as RpcMessage;
  return isToolCall(message) ? { kind: "call", message } : { kind: "message", message };
}

function refused(id: RequestId | null, code: number, message: string): Incoming {
  return { kind: "refused", answers: { ids: [id], isBatch: false, error: { code, message } } };
}

/**
 * A batch (protocol 2025-03-26) passes when every part of it is understood and calls nothing. A cancellation in one could not
 * be kept back from the call it is about.
 */
function batch(parts: readonly unknown[]): Incoming {
  const passes = (part: unknown) =>
    messageProblem(part) === null && !isToolCall(part as RpcMessage) && !isCancellation(part as RpcMessage);
  if (parts.length > 0 && parts.every(passes)) return { kind: "batch", messages: parts as RpcMessage[] };
  const ids = parts.map(idOf).filter((id) => id !== null);
  return { kind: "refused", answers: { ids: ids.length === 0 ? [null] : ids, isBatch: true, error: NO_BATCHES } };
}

function isCancellation({ method }: RpcMessage): boolean {
  return method === "notifications/cancelled";
}

function idOf(value: unknown): RequestId | null {
  const id = isObject(value) ? value.id : null;
  return isId(id) ? id : null;
}

/** Whole numbers beyond 2^53 become equal to their neighbours, and an answer would be taken for another request's. */
function isId(id: unknown): id is RequestId {
  return typeof id === "string" || Number.isSafeInteger(id);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

interface Problem {
  readonly code: number;
  readonly what: string;
}

const problem = (what: string, code = INVALID_REQUEST): Problem => ({ code, what });

const MESSAGE_NAMES = ["jsonrpc", "id", "method", "params", "result", "error"];
const PARAMS_NAMES = ["name", "arguments", "_meta"];

/** null: it is a JSON-RPC message that any server reads in the same way. */
function messageProblem(value: unknown): Problem | null {
  if (!isObject(value)) return problem("a message is a JSON object");
  const lookalike = lookalikeOf(value, MESSAGE_NAMES);
  if (lookalike !== null) return problem(`${lookalike}, and a server may take one for the other`);
  const { id, method, params, result, error } = value;
  if (method === undefined) return responseProblem(value);
  if (typeof method !== "string") return problem("method is not a string");
  if (result !== undefined || error !== undefined) return problem("a message has a method or a result, not both");
  if (id !== undefined && !isId(id)) {
    return problem("id is not a string or a whole number below 2^53");
  }
  if (!/^[\x21-\x7e]+$/.test(method)) return problem("method has characters that no method has");
  if (method !== CALL && lettersOf(method) === lettersOf(CALL)) {
    return problem(`method is ${JSON.stringify(method)}, which a server may take for "${CALL}"`);
  }
  return method === CALL ? callProblem(id, params) : null;
}

const CALL = "tools/call";

function lettersOf(method: string): string {
  return method.toLowerCase().replace(/[^a-z]/g, "");
}

function responseProblem({ id, result, error }: Record<string, unknown>): Problem | null {
  if (result === undefined && error === undefined) return problem("a message has a method, a result or an error");
  if (id === undefined || id === null || isId(id)) return null;
  return problem("id is not a string or a whole number below 2^53");
}

function callProblem(id: unknown, params: unknown): Problem | null {
  if (id === undefined) return problem("a tool call needs an id: its answer could not be told from another's");
  if (!isObject(params)) return problem("params of a tool call is not an object", INVALID_PARAMS);
  const lookalike = lookalikeOf(params, PARAMS_NAMES);
  if (lookalike !== null) return problem(`${lookalike}, and a server may take one for the other`, INVALID_PARAMS);
  if (typeof params.name !== "string") return problem("the tool's name is not a string", INVALID_PARAMS);
  if (!isName(params.name)) return problem("the tool's name has characters that no name has", INVALID_PARAMS);
  const { arguments: args } = params;
  if (args === undefined || args === null || isObject(args)) return null;
  return problem("arguments is not an object", INVALID_PARAMS);
}

/** Some JSON libraries match names in any case, and by Unicode's folding (ſ is an s): "Method" would be method to them. */
function lookalikeOf(object: Record<string, unknown>, names: readonly string[]): string | null {
  for (const name of Object.keys(object)) {
    if (names.includes(name)) continue;
    const same = names.find((one) => one === name.normalize("NFKC").toLowerCase());
    if (same !== undefined) return `${JSON.stringify(name.slice(0, 60))} is not "${same}"`;
  }
  return null;
}
