/**
 * The provider's own id of an effect (a message id, a charge id): kept beside the result, so that a bounce, a log line or
 * a webhook leads back to the intent.
 */

import { exactDigits, parseExact } from "./exact-json.ts";
import { isTooDeep } from "./foreign-json.ts";
import type { DigestKey } from "./key/fingerprint.ts";
import { digestText } from "./key/key.ts";
import { unstorableIn } from "./storable-text.ts";

export const LONGEST_ID = 255;
export const ID_FIELDS = [
  "id",
  "messageId",
  "message_id",
  "MessageId",
  "MessageID",
  "sid",
  "ts",
  "chargeId",
  "charge_id",
] as const;

/**
 * The id in a result by its usual names: in the result itself, then in its `data`. A text is the id, or JSON that has it.
 * Undefined: there is none.
 */
export function idIn(result: unknown): string | undefined {
  if (typeof result === "string") return looksLikeJson(result) ? idInJson(result) : result;
  return fieldOf(result) ?? fieldOf(memberOf(result, "data"));
}

// A longer text is no answer of a provider that is worth parsing for its id.
export const LONGEST_JSON = 65_536;

function looksLikeJson(text: string): boolean {
  return /^\s*[[{]/.test(text);
}

function idInJson(text: string): string | undefined {
  if (text.length > LONGEST_JSON || isTooDeep(text)) return undefined;
  try {
    const value = parseExact(text);
    return fieldOf(value) ?? fieldOf(memberOf(value, "data"));
  } catch {
    return undefined;
  }
}

function fieldOf(value: unknown): string | undefined {
  for (const field of ID_FIELDS) {
    const id = memberOf(value, field);
    if ((typeof id === "string" && id !== "") || Number.isSafeInteger(id)) return String(id);
    const digits = exactDigits(id);
    if (digits !== null) return digits;
  }
  return undefined;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/**
 * The form an id is kept and looked up in, or null where it is none: a text of 1 to 255 characters without blanks or
 * control characters. Angle brackets around it are dropped: a Message-ID is logged with them and without.
 */
export function providerId(id: string): string | null {
  const trimmed = id.trim();
  const bare = /^<[^<>]+>$/.test(trimmed) ? trimmed.slice(1, -1) : trimmed;
  const fits = bare.length > 0 && bare.length <= LONGEST_ID && !/[\s\p{Cc}]/u.test(bare);
  return fits && unstorableIn(bare) === null ? bare : null;
}

/** With `encrypt` the ledger holds a keyed digest: who reads the store learns no id and cannot test a guess. */
export function keptProviderId(id: string, digestKeys: readonly DigestKey[] | undefined): string {
  const [key] = digestKeys ?? [];
  return key === undefined ? id : digestOf(id, key);
}

/** Every form a record may hold it in: under each encryption key, and plain from before there was one. */
export function providerIdForms(id: string, digestKeys: readonly DigestKey[] = []): readonly string[] {
  return [id, ...digestKeys.map((key) => digestOf(id, key))];
}

// 128 bits: enough that no two ids of a ledger share one.
const DIGEST_CHARS = 22;

/** Not bound to the record's key, unlike other digests: it is looked up by the id alone. */
function digestOf(id: string, { id: keyId, secret }: DigestKey): string {
  return `${keyId}.${digestText(`nevertwice/provider-id\0${id}`, secret).slice(0, DIGEST_CHARS)}`;
}
