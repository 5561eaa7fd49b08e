import { createHmac, type Hmac, hash } from "node:crypto";
import { configError, isNevertwiceError, NevertwiceError } from "../errors.ts";
import { unstorableIn } from "../storable-text.ts";
import { canonicalKey, KEY_LIMITS, preparedText } from "./canonical.ts";
import { codeAt } from "./code-at.ts";

export interface KeyIdentity {
  /** "" when there is none. */
  readonly tenant: string;
  readonly action: string;
  readonly version: number;
  readonly scope: string | null;
  readonly parts: readonly unknown[];
  /** The list of parts is our own: it has no getters to look for. */
  readonly plain?: boolean;
  readonly secret?: string | Uint8Array | undefined;
}

/** Part of the hashed text as well as of the key: a later scheme can never make a key of this one. */
const TAG = "nt1";
const PREFIX = `${TAG}_`;
const LONGEST_ACTION = 200;
const LONGEST_SCOPE = 1024;
const MOST_PARTS = 64;
const LEAST_SECRET_BYTES = 16;
/** "nt1_" and 52 characters of base32hex over SHA-256, or HMAC-SHA-256 when there is a secret. */
export function deriveKey(identity: KeyIdentity): string {
  return keyOfText(keyText(identity), identity.secret);
}

/** The key whose text is known already. */
export function keyOfText(keyed: string, secret: string | Uint8Array | undefined): string {
  const text = digest(keyed, secret);
  for (let at = 0; at < DIGEST_BYTES; at += 1) DIGEST[at] = codeAt(text, at);
  return keyOfDigest(DIGEST);
}

const DIGEST_BYTES = 32;
const DIGEST = new Uint8Array(DIGEST_BYTES);

export function keyOfDigest(bytes: Uint8Array): string {
  return base32hex(bytes, PREFIX);
}

/**
 * The text that is hashed: canonical(["nt1", tenant, action, version, scope, ...parts]). It is one JSON array, so that
 * no separator inside a part can make two lists of parts look alike.
 */
export function keyText({ tenant, action, version, scope, parts, plain = false }: KeyIdentity): string {
  if (last.tenant !== tenant || last.action !== action || last.version !== version || last.scope !== scope) {
    checkNames(tenant, action, version, scope);
    const names = `${canonicalKey(tenant, "tenant")},${canonicalKey(action, "action")},${version}`;
    const scopeText = scope === null ? "null" : canonicalKey(scope, "scope");
    last = { tenant, action, version, scope, head: `["${TAG}",${names},${scopeText}` };
  }
  return `${last.head}${partsText(parts, plain)}]`;
}

/** The same for a call: a program has many actions, and the message says which one's key it was. */
export function keyTextOf(identity: KeyIdentity): string {
  try {
    return keyText(identity);
  } catch (error) {
    if (!isNevertwiceError(error)) throw error;
    const { code, message, cause } = error;
    throw new NevertwiceError(code, `action ${JSON.stringify(identity.action)}: ${message}`, { cause });
  }
}

// One call is mostly like the one before it but for its parts. Nothing follows from it but time: the text is the same.
let last: Pick<KeyIdentity, "tenant" | "action" | "version" | "scope"> & { readonly head: string } = {
  tenant: "",
  action: "",
  version: 0,
  scope: null,
  head: "",
};

/** "" is allowed: there is none. */
export function checkTenant(tenant: unknown): void {
  if (typeof tenant !== "string" || (tenant !== "" && isBlank(tenant))) {
    throw invalidKey("tenant: must be a string that is not blank. Leave it out when there is only one tenant.");
  }
  checkStorable("tenant", tenant);
}

/** null: there is none. */
export function checkScope(scope: unknown): void {
  if (scope === null) return;
  if (typeof scope !== "string" || isBlank(scope) || scope.length > LONGEST_SCOPE) {
    throw invalidKey(
      `scope: must be a string of 1 to ${LONGEST_SCOPE} characters, not blank. Leave it out when the intent is not bound to a run, session or thread.`,
    );
  }
  checkStorable("scope", scope);
}

function checkStorable(what: string, name: string): void {
  const unstorable = unstorableIn(name);
  if (unstorable !== null) throw invalidKey(`${what}: ${unstorable}. Leave that character out of the name.`);
}

function checkNames(tenant: unknown, action: unknown, version: unknown, scope: unknown): void {
  checkTenant(tenant);
  if (typeof action !== "string" || isBlank(action) || action.length > LONGEST_ACTION) {
    throw invalidKey(`action: its name must be a string of 1 to ${LONGEST_ACTION} characters, not blank.`);
  }
  if (!Number.isSafeInteger(version) || (version as number) < 1) {
    throw invalidKey("version: must be a positive whole number. It is 1, and one more at each deliberate resend.");
  }
  checkStorable("action", action);
  checkScope(scope);
}

function partsText(parts: readonly unknown[], plain: boolean): string {
  if (!Array.isArray(parts) || parts.length === 0) {
    throw invalidKey(
      "key: there are no parts. Without parts every call of the action would share one key: name at least one.",
    );
  }
  if (parts.length > MOST_PARTS) {
    throw invalidKey(
      `key: there are ${parts.length} parts and at most ${MOST_PARTS} are allowed. Put lists into one part, as an array.`,
    );
  }
  let text = "";
  let own = "";
  for (let index = 0; index < parts.length; index += 1) {
    const path = `key[${index}]`;
    const part = plain ? parts[index] : readPart(parts, index, path);
    const empty = emptiness(part);
    if (empty !== null) throw emptyPart(path, empty);
    const prepared = preparedText(part);
    const partText = prepared ?? canonicalKey(part, path);
    if (prepared === undefined) own += partText;
    // A UTF-16 unit is at most three bytes of UTF-8: few keys have to be counted exactly.
    if (own.length * 3 > KEY_LIMITS.bytes && Buffer.byteLength(own) > KEY_LIMITS.bytes) {
      throw invalidKey(
        `key: its parts may be ${KEY_LIMITS.bytes} bytes of canonical JSON together, and these are more. Key on the few fields that name the intent, such as ids.`,
      );
    }
    text += `,${partText}`;
  }
  return text;
}

function readPart(parts: readonly unknown[], index: number, path: string): unknown {
  const descriptor = Object.getOwnPropertyDescriptor(parts, index);
  if (descriptor === undefined) return undefined;
  if ("value" in descriptor) return descriptor.value;
  throw invalidKey(
    `${path}: this is a getter, which may answer differently each time. Copy its value into a plain array.`,
  );
}

export function emptyPart(path: string, empty: string): NevertwiceError {
  return invalidKey(
    `${path}: the part is ${empty}. An empty part would make different intents share one key, and all but the first would never run. Give it a value, or leave it out of the key.`,
  );
}

/** What is empty about a part, in words; null when it says something. */
export function emptiness(part: unknown): string | null {
  if (part === undefined) return "undefined";
  if (part === null) return "null";
  if (typeof part === "string") return part === "" ? "an empty string" : isBlank(part) ? "a blank string" : null;
  if (typeof part !== "object") return null;
  try {
    if (Array.isArray(part)) return part.length === 0 ? "an empty array" : null;
    const prototype = Object.getPrototypeOf(part);
    const plain = prototype === Object.prototype || prototype === null;
    return plain && Reflect.ownKeys(part).length === 0 ? "an empty object" : null;
  } catch {
    return null; // a Proxy that throws: the canonical reader refuses it, and says so better
  }
}

function isBlank(text: string): boolean {
  const first = text.charCodeAt(0);
  if (first > 0x20 && first < 0x7f) return false;
  return /^[\s\p{Cc}\p{Cf}]*$/u.test(text); // Cf: zero-width characters look empty to everybody but trim()
}

/**
 * SHA-256 of the text, or HMAC-SHA-256 when there is a secret; a character a byte. Not a Buffer: memory outside the heap
 * for each would cost more than the digest.
 */
function digest(text: string, secret: string | Uint8Array | undefined): string {
  return secret === undefined ? hash("sha256", text, "binary") : hmac(text, secret).digest("binary");
}

/** The same in base64url. */
export function digestText(text: string, secret?: string | Uint8Array | undefined): string {
  return secret === undefined ? hash("sha256", text, "base64url") : hmac(text, secret).digest("base64url");
}

function hmac(text: string, secret: string | Uint8Array): Hmac {
  checkSecret(secret);
  return createHmac("sha256", secret).update(text);
}

export function checkSecret(secret: string | Uint8Array): void {
  const valid = typeof secret === "string" || secret instanceof Uint8Array;
  if (valid && Buffer.byteLength(secret) >= LEAST_SECRET_BYTES) return;
  const has = valid ? `; this one has ${Buffer.byteLength(secret)}` : "";
  throw configError(
    `secret: must be a string or Uint8Array of at least ${LEAST_SECRET_BYTES} bytes, or keys could be guessed${has}. Make one with: openssl rand -base64 32`,
  );
}

const ALPHABET = "0123456789abcdefghijklmnopqrstuv";
const CODES = Buffer.from(ALPHABET, "latin1");
// Characters are gathered here and become one flat string: concatenated one by one they would be 52 strings.
const scratch = Buffer.alloc(64);

/** Lower-case base32hex without padding, for digests of 32 bytes (52 characters). */
export function base32hex(bytes: Uint8Array, prefix = ""): string {
  const length = prefix.length + Math.ceil((bytes.length * 8) / 5);
  const text = length <= scratch.length ? scratch : Buffer.alloc(length);
  let bits = 0;
  let held = 0;
  let next = 0;
  for (; next < prefix.length; next += 1) text[next] = prefix.charCodeAt(next);
  for (let index = 0; index < bytes.length; index += 1) {
    held = ((held & 31) << 8) | (bytes[index] as number);
    bits += 8;
    for (; bits >= 5; next += 1) {
      bits -= 5;
      text[next] = CODES[(held >> bits) & 31] as number;
    }
  }
  if (bits > 0) text[next] = CODES[(held << (5 - bits)) & 31] as number;
  return text.toString("latin1", 0, length);
}

// 256 bits in 52 characters leave 4 bits of padding, which are zero: the last character is one of two.
const KEY_SHAPE = /^nt1_[0-9a-v]{51}[0g]$/;

export function isKey(text: string): boolean {
  return typeof text === "string" && text.length === 56 && KEY_SHAPE.test(text);
}

/** The 32 digest bytes of a key. */
export function keyBytes(key: string): Uint8Array {
  if (!isKey(key)) {
    throw invalidKey(
      `key: this is not a key of nevertwice. A key is "${PREFIX}" and 52 characters of base32hex, as outcomes and records show it.`,
    );
  }
  const bytes = new Uint8Array(32);
  let held = 0;
  let bits = 0;
  let length = 0;
  for (let index = PREFIX.length; index < key.length; index += 1) {
    held = ((held << 5) | ALPHABET.indexOf(key.charAt(index))) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[length] = held >> bits;
    length += 1;
  }
  return bytes;
}

function invalidKey(message: string): NevertwiceError {
  return new NevertwiceError("INVALID_KEY", message);
}
