/** What a call of an OpenAI tool gets, and what the model is told, whether its factory was guarded or the tool itself. */
import { type Answer, refusalError } from "../guard-tool.ts";
import type { Turn } from "../tool/turns.ts";

/** What `execute` gets beside its input. */
export interface OpenAiCall {
  /** The run's own context object, `context` of `run(agent, input, { context })`; it survives a serialized RunState. */
  // biome-ignore lint/suspicious/noExplicitAny: the program's own object, of a type that only the program knows
  readonly runContext: { readonly context?: any } | undefined;
  readonly details: { readonly toolCall?: { readonly callId?: string } } | undefined;
}

/** With each answer of the model the run counts one request more; a model that counts none tells no turn. */
export function openAiTurn({ runContext, details }: OpenAiCall): Turn | undefined {
  return turnOfRun(runContext, details?.toolCall?.callId);
}

export function turnOfRun(runContext: object | undefined, call: unknown): Turn | undefined {
  const step = (runContext as { readonly usage?: { readonly requests?: unknown } } | undefined)?.usage?.requests;
  if (runContext === undefined || call === undefined || typeof step !== "number" || step < 1) return undefined;
  return { call, turn: runContext, step };
}

/**
 * A refusal is text, not an exception: the SDK's words for one are "please try again". A tool with an output schema has no
 * place for a text: its repeat is the first result alone, and its refusal is thrown, for its errorFunction or the run.
 */
export function toModel(answer: Answer<unknown>, { outputSchema }: { outputSchema?: unknown }, name: string): unknown {
  const structured = outputSchema !== undefined;
  if (answer.kind === "refused") {
    if (!structured) return answer.text;
    throw refusalError(answer, name);
  }
  return answer.note === null || structured ? answer.result : noted(answer.result, answer.note);
}

/** Texts, images and files stay what they are, with the note before them. */
function noted(result: unknown, note: string): unknown {
  const parts = Array.isArray(result) ? result : [result];
  if (parts.length > 0 && parts.every(isContent)) return [{ type: "text", text: note }, ...parts];
  return `${note}\n${typeof result === "string" ? result : JSON.stringify(result)}`;
}

function isContent(part: unknown): boolean {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  return (type === "text" && typeof text === "string") || type === "image" || type === "file";
}
