import { messageOf } from "./errors.ts";
import type { StoredError } from "./record.ts";
import { redact } from "./redact.ts";
import { storableText } from "./storable-text.ts";

const MESSAGE_LIMIT = 500;
// Names and codes are identifiers; whatever is longer is not one.
const NAME_LIMIT = 100;

/** What the ledger keeps of an error: no stack, no cause, no response body. Never throws, whatever was thrown. */
export function toStoredError(error: unknown): StoredError {
  const name = text(read(error, "name"));
  const code = read(error, "code");
  const stored = {
    name: storable(withoutSecrets(name || "Error"), NAME_LIMIT),
    message: storable(withoutSecrets(text(read(error, "message")) ?? described(error)), MESSAGE_LIMIT),
  };
  return typeof code === "string" || typeof code === "number"
    ? { ...stored, code: storable(withoutSecrets(String(code)), NAME_LIMIT) }
    : stored;
}

/** An Error that reads like the one that was stored. `code` is text, also where it was a number. */
export function fromStoredError(stored: StoredError): Error {
  const error = new Error(stored.message);
  // Not enumerable, like the name of any built-in error.
  Object.defineProperty(error, "name", { value: stored.name, configurable: true, writable: true });
  return stored.code === undefined ? error : Object.assign(error, { code: stored.code });
}

function read(error: unknown, key: string): unknown {
  if (typeof error !== "object" || error === null) return undefined;
  try {
    return (error as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

function described(error: unknown): string {
  try {
    return messageOf(error);
  } catch {
    return "an error that cannot be read";
  }
}

// Enough to see the whole of a secret that reaches into what is kept, and little work for a message of megabytes.
const LOOKED_AT = 4 * MESSAGE_LIMIT;

function withoutSecrets(text: string): string {
  return redact(text.slice(0, LOOKED_AT));
}

/** After the cut, which may leave half a character. */
function storable(value: string, limit: number): string {
  return storableText(value.length > limit ? `${value.slice(0, limit - 1)}…` : value);
}
