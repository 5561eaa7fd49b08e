/** MCP's tool results, by shape: what they say, and how a guard speaks in them. */
import { stringifyExact } from "../../core/exact-json.ts";
import { namedError } from "../../core/returned-error.ts";
import type { Answer, ResultCodec } from "../guard-tool.ts";
import { resultSoundsInterrupted } from "../tool/interrupted.ts";
import type { ErrorMeaning, ToolOptions } from "../tool/options.ts";

export interface ToolResult {
  readonly content?: readonly { readonly type: string; readonly [field: string]: unknown }[];
  readonly isError?: boolean | undefined;
  readonly [field: string]: unknown;
}

export const mcpCodec = {
  isError: (result: ToolResult) => result?.isError === true,
  isKeptError: (stored: unknown) => namedError(stored) !== null,
  said: textOf,
  unpack: asToolResult,
} as const satisfies ResultCodec<ToolResult>;

const OWN_FIELDS = ["content", "structuredContent", "toolResult", "isError", "_meta", "task"];

/** What a person gave as the result of a call whose answer was lost may be any JSON: the model reads it as text. */
function asToolResult(stored: unknown): ToolResult {
  const isObject = typeof stored === "object" && stored !== null && !Array.isArray(stored);
  const fields = isObject ? Object.keys(stored) : null;
  if (fields !== null && (fields.length === 0 || fields.some((name) => OWN_FIELDS.includes(name))))
    return stored as ToolResult;
  const text = stored === undefined ? "(no result)" : typeof stored === "string" ? stored : stringifyExact(stored);
  return { content: [{ type: "text", text }], ...(isObject && { structuredContent: stored }) };
}

const MOST_SAID = 500;

/** The text blocks of a result, shortened. */
export function textOf(result: ToolResult | undefined): string | undefined {
  const texts = (result?.content ?? []).filter((block) => block.type === "text").map((block) => String(block.text));
  const text = texts.join(" ").trim();
  if (text === "") return undefined;
  return text.length > MOST_SAID ? `${text.slice(0, MOST_SAID)}…` : text.replace(/\.$/, "");
}

// How the official server SDK reports arguments that fail the tool's schema: before its handler was begun.
const NOT_BEGUN = /^MCP error -3260[012]\b/;

export function mcpErrorMeaning<R extends ToolResult>(
  said: ToolOptions<never, R>["errors"],
): (result: R, error?: unknown) => ErrorMeaning {
  const errors = said ?? "doubt";
  return (result, error) => {
    // An error answer of the protocol. Where nobody said what it means, it is left to the built-in rules.
    if (error !== undefined) return typeof said === "function" ? said(result, error) : (said ?? "answer");
    if (NOT_BEGUN.test(textOf(result) ?? "")) return "not-done";
    if (typeof errors === "function") return errors(result);
    // One that only names an error, of a tool that nobody said anything about.
    if (said === undefined && result?.isError !== true) return "answer";
    return errors === "not-done" && resultSoundsInterrupted(result) ? "doubt" : errors;
  };
}

/** A repeat carries a text block before the first result's own; a refusal is an error result that says why. */
export function mcpResult<R extends ToolResult>(answer: Answer<R>): R | ToolResult {
  if (answer.kind === "result") {
    return answer.note === null ? answer.result : withText(answer.result ?? {}, answer.note);
  }
  return { ...withText(answer.result ?? {}, answer.text), isError: true };
}

function withText<R extends ToolResult>(result: R, text: string): R {
  return { ...result, content: [{ type: "text", text }, ...(result.content ?? [])] };
}
