/**
 * A key as bytes: 32 for a real one, a quarter less to store and to log than its 56 characters (540 → 474 bytes of WAL
 * a guard). Any other text (a test's "nt1_a") is kept as a zero byte and UTF-8, at a length that is never 32.
 */
import { codeAt } from "../../../core/key/code-at.ts";
import { isKey, keyOfDigest } from "../../../core/key/key.ts";

const PREFIX = "nt1_";
const DIGEST_BYTES = 32;
const KEY_CHARS = 56;
// The value of each character of base32hex; 32 and more: it is none.
const VALUES = Array.from({ length: 128 }, (_, code) => {
  const value = "0123456789abcdefghijklmnopqrstuv".indexOf(String.fromCharCode(code));
  return value < 0 ? 1 << 25 : value;
});

/** Hexadecimal, as SQL takes it. */
export function keyHex(key: string): string {
  const digest = key.length === KEY_CHARS && key.startsWith(PREFIX) ? digestHex(key) : null;
  if (digest !== null) return digest;
  const text = `00${Buffer.from(key).toString("hex")}`;
  return text.length === 2 * DIGEST_BYTES ? `${text}00` : text;
}

// Digits are gathered here and become one flat string: concatenated one by one they would be 13 strings.
const DIGITS = Buffer.alloc(2 * DIGEST_BYTES + 1);
const DIGIT_CODES = Buffer.from("0123456789abcdef", "latin1");

/** Four characters are 20 bits, five hexadecimal digits: no bytes in between, since this runs in every call. */
function digestHex(key: string): string | null {
  let next = 0;
  for (let at = PREFIX.length; at < KEY_CHARS; at += 4) {
    const bits =
      (valueAt(key, at) << 15) | (valueAt(key, at + 1) << 10) | (valueAt(key, at + 2) << 5) | valueAt(key, at + 3);
    if (bits > 0xfffff || bits < 0) return null;
    for (let shift = 16; shift >= 0; shift -= 4) {
      DIGITS[next] = DIGIT_CODES[(bits >> shift) & 15] as number;
      next += 1;
    }
  }
  // 52 characters hold 4 bits more than a digest: they are zero in a key.
  return DIGITS[next - 1] === DIGIT_CODES[0] ? DIGITS.toString("latin1", 0, next - 1) : null;
}

function valueAt(key: string, at: number): number {
  return VALUES[codeAt(key, at)] ?? 1 << 25;
}

export function keyFromHex(hex: string): string {
  if (hex.length === 2 * DIGEST_BYTES) {
    for (let at = 0; at < DIGEST_BYTES; at += 1) {
      DIGEST[at] = (digitOf(codeAt(hex, 2 * at)) << 4) | digitOf(codeAt(hex, 2 * at + 1));
    }
    return keyOfDigest(DIGEST);
  }
  const bytes = Buffer.from(hex, "hex");
  return bytes.subarray(1, bytes.at(-1) === 0 ? -1 : undefined).toString();
}

const DIGEST = new Uint8Array(DIGEST_BYTES);
const [ZERO, NINE, LETTERS] = [48, 57, 97 - 10];

/** As PostgreSQL writes hexadecimal: in small letters. */
function digitOf(code: number): number {
  return code <= NINE ? code - ZERO : code - LETTERS;
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
