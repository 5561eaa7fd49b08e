/**
 * A key as bytes: 32 for a real one, a quarter less to store and to log than its 56 characters (540 → 474 bytes of WAL
 * a guard). Any other text (a test's "nt1_a") is kept as a zero byte and UTF-8, at a length that is never 32.
 */
import { base32hex, isKey, keyBytes } from "../core/key.ts";

const PREFIX = "nt1_";
const DIGEST_BYTES = 32;

/** Hexadecimal, as SQL takes it. */
export function keyHex(key: string): string {
  if (isKey(key)) return Buffer.from(keyBytes(key).buffer).toString("hex");
  const text = `00${Buffer.from(key).toString("hex")}`;
  return text.length === 2 * DIGEST_BYTES ? `${text}00` : text;
}

export function keyFromHex(hex: string): string {
  const bytes = Buffer.from(hex, "hex");
  if (bytes.length === DIGEST_BYTES) return PREFIX + base32hex(bytes);
  return bytes.subarray(1, bytes.at(-1) === 0 ? -1 : undefined).toString();
}

/** What keys that begin with `prefix` look like in the table. */
export interface KeyRange {
  /** Digests from `low` to `high`, both included; null: no digest can begin so. */
  readonly digests: { readonly low: string; readonly high: string } | null;
  /** Other texts from `low` to before `end`. */
  readonly texts: { readonly low: string; readonly end: string };
}

export function keyRange(prefix: string): KeyRange {
  const bytes = Buffer.concat([Buffer.of(0), Buffer.from(prefix)]);
  const low = bytes.toString("hex");
  // UTF-8 has no byte 255: the last one can always be raised by one.
  bytes[bytes.length - 1] = (bytes.at(-1) as number) + 1;
  return { digests: digestRange(prefix), texts: { low, end: bytes.toString("hex") } };
}

function digestRange(prefix: string): KeyRange["digests"] {
  if (PREFIX.startsWith(prefix)) return { low: "00".repeat(DIGEST_BYTES), high: "ff".repeat(DIGEST_BYTES) };
  if (!/^nt1_[0-9a-v]{0,52}$/.test(prefix)) return null;
  const [low, high] = [prefix.padEnd(56, "0"), prefix.padEnd(55, "v").padEnd(56, "g")];
  return isKey(low) && isKey(high) ? { low: keyHex(low), high: keyHex(high) } : null;
}
