/** LangChain's ToolMessages, told by shape: how they are kept, and made again. */
import { namedError } from "../../core/returned-error.ts";
import type { ResultCodec } from "../guard-tool.ts";

export interface MessageFields {
  readonly content: unknown;
  readonly name?: string;
  readonly status?: string;
  readonly artifact?: unknown;
  readonly metadata?: unknown;
  readonly tool_call_id: string;
}

export type MessageMaker = new (fields: never) => object;

/** The class is not imported: it is taken from the first message that LangChain makes. */
let Message: MessageMaker | undefined;

function isToolMessage(value: unknown): value is MessageFields {
  const is = typeof value === "object" && value !== null && "tool_call_id" in value && "content" in value;
  if (is && value.constructor !== Object) Message = value.constructor as MessageMaker;
  return is;
}

/** The fields alone where no message was seen yet in this process. */
export function madeMessage(fields: MessageFields): object {
  return Message === undefined ? fields : new Message(fields as never);
}

/** The message of a model's call, with other fields or with a note before its content. What is no message stays as it is. */
export function remadeMessage(message: unknown, fields: Partial<MessageFields> = {}, note?: string): unknown {
  if (!isToolMessage(message) || (note === undefined && Object.keys(fields).length === 0)) return message;
  const { content, name, status, artifact, metadata, tool_call_id } = message;
  const all = { content, name, status, artifact, metadata, ...fields, tool_call_id };
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  const noted = note === undefined ? content : withNote(content, note);
  return madeMessage({ ...given, content: noted, tool_call_id });
}

export function withNote(content: unknown, note: string): unknown {
  if (Array.isArray(content)) return [{ type: "text", text: note }, ...content];
  return `${note}\n${typeof content === "string" ? content : JSON.stringify(content)}`;
}

// ---- as it is kept ---------------------------------------------------------------------------------------------------

const MESSAGE = "nevertwice:message";

type KeptFields = Omit<MessageFields, "tool_call_id">;

/** Without the id of its call: a repeat has another. */
function kept({ content, artifact, status }: MessageFields): KeptFields {
  return { content, ...(artifact !== undefined && { artifact }), ...(status !== undefined && { status }) };
}

export function isKeptMessage(stored: unknown): stored is { readonly message: KeptFields } {
  return typeof stored === "object" && stored !== null && (stored as { kind?: unknown }).kind === MESSAGE;
}

/** For who reads the record: a message hides what it says. */
function marked<K extends object>(packed: K, result: unknown): K & { readonly isError?: true } {
  return namedError(result) === null ? packed : { ...packed, isError: true };
}

/** A tool's result: anything, or a message of its own. */
export const messageCodec: ResultCodec<unknown> = {
  isError: (result) => (isToolMessage(result) ? result.status === "error" : undefined),
  isKeptError: (stored) => isKeptMessage(stored) && stored.message.status === "error",
  said: (result) => (isToolMessage(result) && typeof result.content === "string" ? result.content : undefined),
  pack: (result) => (isToolMessage(result) ? marked({ kind: MESSAGE, message: kept(result) }, result) : result),
};

const PAIR = "nevertwice:content-and-artifact";

/** Of a tool that returns its content and an artifact: as the message that LangChain makes of them says it. */
export const pairCodec: ResultCodec<unknown> = {
  ...messageCodec,
  says: asMessage,
  pack: (result) => {
    const message = asMessage(result);
    if (message === result || namedError(message) === null) return messageCodec.pack?.(result);
    return { kind: PAIR, isError: true, pair: result };
  },
  unpack: (stored) =>
    (stored as { kind?: unknown } | null)?.kind === PAIR ? (stored as { pair: unknown }).pair : stored,
};

function asMessage(result: unknown): unknown {
  if (!Array.isArray(result) || result.length !== 2) return result;
  const [content, artifact] = result as unknown[];
  return { content, artifact, tool_call_id: "" };
}

// What LangChain made messages of, where they cannot say it: of an Error.
const behind = new WeakMap<object, unknown>();

export function madeOf(message: unknown, result: unknown): void {
  if (typeof message === "object" && message !== null) behind.set(message, result);
}

/** What a middleware sees is a message always. A tool that is not there was not run; LangChain answers with the names of those that are. */
export function codecOfCalls(name: string): ResultCodec<unknown> {
  const said = `Error: ${name} is not a valid tool, try one of [`;
  const isMissing = (result: unknown) =>
    isToolMessage(result) && result.status === "error" && String(result.content).startsWith(said);
  return {
    ...messageCodec,
    tellsFailures: true,
    says: (result) => (isToolMessage(result) ? (behind.get(result) ?? result) : result),
    isError: (result) => isToolMessage(result) && result.status === "error",
    isKeptError: (stored) => (stored as Partial<KeptFields> | null)?.status === "error",
    meaning: (result) => (isMissing(result) ? "not-done" : undefined),
    pack: (result) => (isToolMessage(result) ? marked(kept(result), result) : result),
  };
}
