/** The provider's own id in what a tool answered: tools answer in texts and blocks, where an action returns an object. */
import { idIn, providerId } from "../../core/provider-id.ts";

interface Blocks {
  readonly structuredContent?: unknown;
  /** MCP's blocks, or the content of a LangChain message. */
  readonly content?: unknown;
}

/** By the usual names: in the answer itself, in its structured content, or in its only text where that is JSON. */
export function toolResultId(result: unknown): string | undefined {
  const { structuredContent, content } = (result ?? {}) as Blocks;
  const id = idIn(result) ?? idIn(structuredContent) ?? idIn(onlyText(content));
  return id === undefined || providerId(id) === null ? undefined : id;
}

function onlyText(content: unknown): string | undefined {
  const [only, ...more] = Array.isArray(content) ? (content as unknown[]) : [content];
  if (more.length > 0) return undefined;
  const text = typeof only === "string" ? only : (only as { readonly text?: unknown } | null | undefined)?.text;
  // Prose is no id, however short it is.
  return typeof text === "string" && text.trimStart().startsWith("{") ? text : undefined;
}
