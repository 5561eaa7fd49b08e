/**
 * `encrypt`: stored inputs, drafts and results sealed with AES-256-GCM and bound to where they belong, so that whoever
 * can write to the store can neither read them nor move one record's result to another.
 *
 * Form: ntseal1.<key id>.<fence>.<nonce>.<ciphertext + tag>, the last two base64url. Not hidden: how long a value is.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { configError, NevertwiceError, noSuchOption } from "./errors.ts";
import type { DigestKey } from "./key/fingerprint.ts";
import type { Payload } from "./record.ts";

export interface Sealer {
  seal(payload: Payload, bound: SealBinding): Payload;
  /** Throws where the payload was altered, belongs to another record, or is not sealed and need not be accepted. */
  open(payload: Payload, bound: Omit<SealBinding, "fence">): Payload;
  /** What is missing here to open the payload, and may be given elsewhere; null: nothing is, or the payload is no good. */
  lacks(payload: Payload): string | null;
  /** For the digests beside sealed payloads, in the order of the encryption keys. */
  readonly digestKeys: readonly DigestKey[];
}

export interface SealBinding {
  readonly tenant: string;
  readonly key: string;
  /** At sealing time. It travels in the sealed text, so that a record claimed again can still open its old draft. */
  readonly fence: number;
  readonly field: "input" | "draft" | "result";
}

/** 32 bytes, or their base64 or hex. */
export type EncryptKey = Uint8Array | string;

/** The first key seals, all of them open: put the new key first to rotate, and drop the old one when its records are gone. */
export type EncryptOption = EncryptKeys | EncryptOptions;

export type EncryptKeys = EncryptKey | readonly [EncryptKey, ...EncryptKey[]];

export interface EncryptOptions {
  readonly keys: EncryptKeys;
  /**
   * Read payloads that are not sealed, too: for the time of a migration, while records from before `encrypt` are still
   * kept. Whoever can write to the store can then replace a sealed payload by a plain one. Default: false.
   */
  readonly acceptPlain?: boolean;
}

interface NamedKey {
  readonly id: string;
  readonly digestKey: DigestKey;
  readonly secret: KeyObject;
}

const VERSION = "ntseal1";
const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
// 96 random bits: safe for about 2^32 seals per key (NIST SP 800-38D), which is years at a hundred per second.
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function sealer(option: EncryptOption): Sealer {
  const { keys: keyOption, acceptPlain } = readOption(option);
  const given = typeof keyOption === "string" || keyOption instanceof Uint8Array ? [keyOption] : keyOption;
  if (!Array.isArray(given) || given.length === 0) throw badKey("encrypt: no key was given");
  const keys = given.map((key: EncryptKey, index) =>
    namedKey(key, given.length === 1 ? "encrypt" : `encrypt[${index}]`),
  );
  const sealing = keys[0] as NamedKey;
  return {
    seal: (payload, bound) => ("json" in payload ? sealText(payload.json, bound, sealing) : payload),
    open: (payload, bound) => {
      if ("sealed" in payload) return openSealed(payload.sealed, bound, keys);
      if ("json" in payload && !acceptPlain) throw notSealed(bound);
      return payload;
    },
    lacks: (payload) => {
      if ("json" in payload) return acceptPlain ? null : "encrypt: { acceptPlain: true }";
      return lacking(payload, keys);
    },
    digestKeys: keys.map((key) => key.digestKey),
  };
}

/** The encryption key that a process without `encrypt`, or with other keys, lacks for a payload; null: none. */
export function lacking(payload: Payload, keys: readonly { readonly id: string }[] = []): string | null {
  const id = "sealed" in payload ? parse(payload.sealed)?.keyId : undefined;
  return id === undefined || keys.some((key) => key.id === id) ? null : `the encryption key ${id}`;
}

const OPTIONS = ["keys", "acceptPlain"];

function readOption(option: EncryptOption): { readonly keys: EncryptKeys; readonly acceptPlain: boolean } {
  const isObject = typeof option === "object" && option !== null;
  if (!isObject || Array.isArray(option) || option instanceof Uint8Array)
    return { keys: option as EncryptKeys, acceptPlain: false };
  const wrong = Object.keys(option).find((name) => !OPTIONS.includes(name));
  if (wrong !== undefined) throw noSuchOption("encrypt", wrong, OPTIONS);
  const { keys, acceptPlain = false } = option as EncryptOptions;
  if (typeof acceptPlain !== "boolean") throw configError("encrypt: acceptPlain takes true or false.");
  return { keys, acceptPlain };
}

function namedKey(key: EncryptKey, where: string): NamedKey {
  const bytes = typeof key === "string" ? decodeKey(key) : key;
  if (!(bytes instanceof Uint8Array)) throw badKey(`${where}: the key is neither bytes nor base64 or hex text`);
  if (bytes.length !== KEY_BYTES) throw badKey(`${where}: the key has ${bytes.length} bytes instead of ${KEY_BYTES}`);
  // A domain prefix of its own, so that the id can never equal a digest of the key made for another purpose.
  const id = createHash("sha256").update("nevertwice/seal/key-id\0").update(bytes).digest("hex").slice(0, 8);
  const digestSecret = new Uint8Array(hkdfSync("sha256", bytes, "", "nevertwice/fingerprint", KEY_BYTES));
  return { id, digestKey: { id, secret: digestSecret }, secret: createSecretKey(bytes) };
}

/** Strict, because Buffer.from drops what it does not understand, and a mistyped key would become another key. */
function decodeKey(text: string): Uint8Array | undefined {
  const trimmed = text.trim();
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return Buffer.from(trimmed, "hex");
  return /^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/.test(trimmed) ? Buffer.from(trimmed, "base64") : undefined;
}

function badKey(problem: string): NevertwiceError {
  return configError(
    `${problem}. Make one with: node -e "console.log(require('node:crypto').randomBytes(32).toString('base64'))"`,
  );
}

function sealText(text: string, bound: SealBinding, key: NamedKey): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key.secret, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(associatedData(bound, key.id));
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  return { sealed: [VERSION, key.id, bound.fence, nonce.toString("base64url"), body.toString("base64url")].join(".") };
}

/** As JSON, so that no tenant or key can be written to look like another pair; the fence is authenticated with the rest. */
function associatedData(bound: SealBinding, keyId: string): Buffer {
  return Buffer.from(JSON.stringify([VERSION, keyId, bound.tenant, bound.key, bound.fence, bound.field]), "utf8");
}

function openSealed(sealed: string, bound: Omit<SealBinding, "fence">, keys: readonly NamedKey[]): Payload {
  const parts = parse(sealed);
  if (!parts) throw altered(bound);
  const candidates = keys.filter((key) => key.id === parts.keyId);
  if (candidates.length === 0) throw missingKey(parts.keyId, bound, keys);
  for (const key of candidates) {
    const text = decrypt(parts, { ...bound, fence: parts.fence }, key);
    if (text !== undefined) return { json: text };
  }
  throw altered(bound);
}

interface SealedParts {
  readonly keyId: string;
  readonly fence: number;
  readonly nonce: Buffer;
  readonly body: Buffer;
}

function parse(sealed: string): SealedParts | undefined {
  const match = /^ntseal1\.([0-9a-f]{8})\.(0|[1-9]\d{0,15})\.([\w-]+)\.([\w-]+)$/.exec(sealed);
  if (!match) return undefined;
  const nonce = decodeExact(match[3] as string);
  const body = decodeExact(match[4] as string);
  if (nonce?.length !== NONCE_BYTES || !body || body.length < TAG_BYTES) return undefined;
  return { keyId: match[1] as string, fence: Number(match[2]), nonce, body };
}

/** The last base64 character has spare bits: without the comparison several texts would open to the same value. */
function decodeExact(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : undefined;
}

function decrypt(parts: SealedParts, bound: SealBinding, key: NamedKey): string | undefined {
  const split = parts.body.length - TAG_BYTES;
  const decipher = createDecipheriv(ALGORITHM, key.secret, parts.nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(associatedData(bound, key.id));
  decipher.setAuthTag(parts.body.subarray(split));
  const start = decipher.update(parts.body.subarray(0, split));
  try {
    return Buffer.concat([start, decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

function missingKey(id: string, bound: Omit<SealBinding, "fence">, keys: readonly NamedKey[]): NevertwiceError {
  const known = keys.map((key) => key.id).join(", ");
  return new NevertwiceError(
    "CONFIG",
    `encrypt: the stored ${bound.field} was sealed with key ${id}, and only ${known} is given. Add that key after the present one: encrypt: [presentKey, olderKey].`,
    { key: bound.key },
  );
}

function altered(bound: Omit<SealBinding, "fence">): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `The sealed ${bound.field} in the store was altered or belongs to another record. Nothing was run. Restore the record from a backup, or settle it with resolve().`,
    { key: bound.key },
  );
}

function notSealed(bound: Omit<SealBinding, "fence">): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `encrypt: the stored ${bound.field} is not sealed: it was written without \`encrypt\`, or replaced in the store. Nothing was run. While records from before \`encrypt\` are kept, pass encrypt: { keys, acceptPlain: true }; otherwise restore the record from a backup, or settle it with resolve().`,
    { key: bound.key },
  );
}
