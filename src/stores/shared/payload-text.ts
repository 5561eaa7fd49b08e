/** A payload as one column of text. JSON text starts with neither mark, so a plain payload reads as plain JSON in any shell. */
import type { Payload } from "../../core/record.ts";

const SEALED = "ntseal";
export const OMITTED = "!";

export function encodePayload(payload: Payload | null): string | null {
  if (payload === null) return null;
  if ("json" in payload) return payload.json;
  return "sealed" in payload ? payload.sealed : OMITTED + payload.omitted;
}

export function decodePayload(text: string | null): Payload | null {
  if (text === null) return null;
  if (text.startsWith(OMITTED)) return { omitted: text.slice(OMITTED.length) };
  return text.startsWith(SEALED) ? { sealed: text } : { json: text };
}
