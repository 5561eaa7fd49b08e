import { configError } from "../errors.ts";
import { keyBytes } from "./key.ts";

/**
 * How a provider wants its idempotency key. "key": as it is (56 characters) · "uuid": the form of a UUID v4 ·
 * "hex": 64 characters · "base32hex": 52 characters · { maxLength }: base32hex cut to at most that length.
 */
export type ProviderKeyFormat = "key" | "uuid" | "hex" | "base32hex" | { readonly maxLength: number };

// 20 characters are 100 bits: two of a billion keys meet with a chance of 4e-13. Ten would make 400 of them meet.
const SHORTEST = 20;
const PREFIX_LENGTH = 4;

/** The key in the form a provider accepts: always the same for the same key. */
export function providerKey(key: string, format: ProviderKeyFormat = "key"): string {
  const bytes = keyBytes(key);
  switch (format) {
    case "key":
      return key;
    case "base32hex":
      return key.slice(PREFIX_LENGTH);
    case "hex":
      return Buffer.from(bytes).toString("hex");
    case "uuid":
      return uuid(bytes);
    default:
      return key.slice(PREFIX_LENGTH, PREFIX_LENGTH + maxLength(format));
  }
}

function maxLength(format: unknown): number {
  const length = typeof format === "object" && format !== null && "maxLength" in format ? format.maxLength : undefined;
  if (typeof length !== "number" || !Number.isSafeInteger(length)) {
    throw configError(
      'providerKey: the format must be "key", "uuid", "hex", "base32hex" or { maxLength: a whole number }.',
    );
  }
  if (length < SHORTEST) {
    throw configError(
      `providerKey: maxLength is ${length}, and less than ${SHORTEST} characters hold too few bits: two intents could get the same provider key, and one would never be sent. Use a provider field with more room, or doubt: { probe }.`,
    );
  }
  return length;
}

/** Version and variant bits as in a random UUID, because providers check them; 122 bits of the digest remain. */
function uuid(bytes: Uint8Array): string {
  const raw = Buffer.from(bytes.subarray(0, 16));
  raw[6] = ((raw[6] as number) & 0x0f) | 0x40;
  raw[8] = ((raw[8] as number) & 0x3f) | 0x80;
  const hex = raw.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
