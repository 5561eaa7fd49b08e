import { NevertwiceError } from "../errors.ts";
import type { Fingerprint } from "../record.ts";
import { canonicalFields, canonicalInput } from "./canonical.ts";
import { digestText } from "./key.ts";

/** The digests of one call's input. */
export interface InputPrint {
  readonly guarded: string;
  readonly free: string | null;
  /** Lazy: only a first write and a mismatch need one digest per field. */
  fields(): Readonly<Record<string, string>>;
  /** The same input under the digest key with this id (null: not keyed); null when that key is not known. */
  under(keyId: string | null): InputPrint | null;
  /** One record's fingerprint, and the fields that are known to be the same there, although their digests differ. */
  readonly alike?: { readonly guarded: string; readonly fields: readonly string[] };
}

/** The same digests, for comparing with a record whose input has these fields in another form. */
export function alikeTo(print: InputPrint, { guarded }: Fingerprint, fields: readonly string[]): InputPrint {
  return {
    guarded: print.guarded,
    free: print.free,
    fields: () => print.fields(),
    under: (keyId) => print.under(keyId),
    alike: { guarded, fields },
  };
}

/** A key for digests, derived from an encryption key, with the id of that encryption key. */
export interface DigestKey {
  readonly id: string;
  readonly secret: Uint8Array;
}

/** Digests beside sealed payloads. The first key is used for new digests, all of them for comparing. */
export interface KeyedDigests {
  readonly keys: readonly DigestKey[];
  /** The intent's key: the same value in two records gets two digests. */
  readonly intent: string;
}

type Secret = string | Uint8Array | undefined;
type Field = readonly [name: string, text: string | null];

/** Stands for a free field that cannot be compared (a function, a stream, a BigInt). No digest looks like it. */
const NOT_COMPARABLE = "?";
const NOT_AN_OBJECT = "";

/** `keyed` when payloads are encrypted: digests that anybody can compute would let a short value be guessed. */
export function printInput(
  input: unknown,
  free: readonly string[],
  secret?: string | Uint8Array,
  keyed?: KeyedDigests,
): InputPrint {
  const fields = inputFields(input, free);
  if (keyed?.keys[0] !== undefined) return new KeyedPrint(fields, free, secret, keyed, keyed.keys[0]);
  return plainPrint(fields, free, secret);
}

function plainPrint(fields: readonly Field[], free: readonly string[], secret: Secret): InputPrint {
  return lonePrint(fields, free, secret) ?? fullPrint(fields, free, secret);
}

/** One field needs one digest. Its name is part of it: { to: "x" } and { cc: "x" } are not the same input. */
function lonePrint(fields: readonly Field[], free: readonly string[], secret: Secret): InputPrint | null {
  const [name, text] = fields.length === 1 ? (fields[0] as Field) : NO_FIELD;
  if (text === null || free.includes(name)) return null;
  const digest = shortDigest(text, secret);
  return new Print(`${digest}${LONE_MARK}${name}`, null, [], { [name]: digest }, secret);
}

// Between the digest of a lone field and its name. No digest holds it.
const LONE_MARK = ":";

/** Whether `guarded` says it all, as it does for an input of one field: stores need not keep more. */
export function isLone({ guarded, free, fields }: Fingerprint): boolean {
  if (free !== null) return false;
  let names = 0;
  let isSaid = false;
  for (const name in fields) {
    names += 1;
    isSaid = isDigestAndName(guarded, fields[name] as string, name);
  }
  return isSaid && names === 1;
}

// Without a text made to compare with: this is in every first write.
function isDigestAndName(guarded: string, digest: string, name: string): boolean {
  return (
    digest.length === SHORT &&
    guarded.length === SHORT + LONE_MARK.length + name.length &&
    LONE.test(guarded) &&
    guarded.startsWith(digest) &&
    guarded.endsWith(name)
  );
}

/** The fingerprint of which isLone is true. Throws where the text is no such thing. */
export function loneFingerprint(guarded: string): Fingerprint {
  if (!LONE.test(guarded)) throw new TypeError(`${JSON.stringify(guarded)} is not the digest of a lone field`);
  return { guarded, free: null, fields: { [guarded.slice(SHORT + 1)]: guarded.slice(0, SHORT) } };
}

function fullPrint(fields: readonly Field[], free: readonly string[], secret: Secret): InputPrint {
  const { guardedText, freeText } = joinedTexts(fields, free);
  const freeDigest = freeText === "" ? null : shortDigest(freeText, secret);
  return new Print(shortDigest(guardedText, secret), freeDigest, fields, null, secret);
}

function joinedTexts(fields: readonly Field[], free: readonly string[]) {
  let guardedText = "";
  let freeText = "";
  for (const [name, text] of fields) {
    const entry = `${JSON.stringify(name)}:${text ?? NOT_COMPARABLE},`;
    if (free.includes(name)) freeText += entry;
    else guardedText += entry;
  }
  return { guardedText, freeText };
}

const NO_FIELD: Field = ["", null];

class Print implements InputPrint {
  readonly guarded: string;
  readonly free: string | null;
  // The texts are kept, not the input: `run` may change the input before the fields are asked for. And no longer than that.
  #texts: readonly Field[];
  readonly #secret: Secret;
  #digests: Readonly<Record<string, string>> | null;

  constructor(
    guarded: string,
    free: string | null,
    texts: readonly Field[],
    digests: Readonly<Record<string, string>> | null,
    secret: Secret,
  ) {
    this.guarded = guarded;
    this.free = free;
    this.#texts = texts;
    this.#digests = digests;
    this.#secret = secret;
  }

  fields(): Readonly<Record<string, string>> {
    if (this.#digests === null) {
      this.#digests = fieldDigests(this.#texts, this.#secret);
      this.#texts = [];
    }
    return this.#digests;
  }

  under(keyId: string | null): InputPrint | null {
    return keyId === null ? this : null;
  }
}

/**
 * HMACs under a digest key whose id stands before the guarded digest: "<key id>.<digest>". The texts are kept, because
 * the record to compare with may have been written under an older key, or before encryption was switched on.
 */
class KeyedPrint implements InputPrint {
  readonly guarded: string;
  readonly free: string | null;
  readonly #texts: readonly Field[];
  readonly #freeNames: readonly string[];
  readonly #secret: Secret;
  readonly #keyed: KeyedDigests;
  readonly #key: DigestKey;
  #digests: Readonly<Record<string, string>> | null = null;

  constructor(
    texts: readonly Field[],
    freeNames: readonly string[],
    secret: Secret,
    keyed: KeyedDigests,
    key: DigestKey,
  ) {
    this.#texts = texts;
    this.#freeNames = freeNames;
    this.#secret = secret;
    this.#keyed = keyed;
    this.#key = key;
    const { guardedText, freeText } = joinedTexts(texts, freeNames);
    this.guarded = `${key.id}${KEY_MARK}${this.#digest("guarded", guardedText)}`;
    this.free = freeText === "" ? null : this.#digest("free", freeText);
  }

  fields(): Readonly<Record<string, string>> {
    this.#digests ??= Object.fromEntries(
      this.#texts.map(([name, text]) => [
        name,
        text === null ? NOT_COMPARABLE : this.#digest(`field ${JSON.stringify(name)}`, text),
      ]),
    );
    return this.#digests;
  }

  under(keyId: string | null): InputPrint | null {
    if (keyId === this.#key.id) return this;
    if (keyId === null) return plainPrint(this.#texts, this.#freeNames, this.#secret);
    const key = this.#keyed.keys.find(({ id }) => id === keyId);
    return key === undefined ? null : new KeyedPrint(this.#texts, this.#freeNames, this.#secret, this.#keyed, key);
  }

  #digest(of: string, text: string): string {
    return shortDigest(`${this.#keyed.intent}\n${of}\n${text}`, this.#key.secret);
  }
}

// Between the id of a digest key and the digest. No plain digest holds it there.
const KEY_MARK = ".";
const KEYED = /^([0-9a-f]{8})\./;

/** The id of the encryption key that a stored fingerprint was made under; null: it is not keyed. */
export function digestKeyId({ guarded }: Pick<Fingerprint, "guarded">): string | null {
  return KEYED.exec(guarded)?.[1] ?? null;
}

function inputFields(input: unknown, free: readonly string[]): readonly Field[] {
  if (input === undefined) return [];
  return canonicalFields(input, "input", free) ?? [[NOT_AN_OBJECT, canonicalInput(input, "input")]];
}

function fieldDigests(fields: readonly Field[], secret: Secret): Readonly<Record<string, string>> {
  // fromEntries defines, and does not assign: a field named __proto__ stays a field.
  return Object.fromEntries(
    fields.map(([name, text]) => [name, text === null ? NOT_COMPARABLE : shortDigest(text, secret)]),
  );
}

const SHORT = 16;
const LONE = new RegExp(`^[\\w-]{${SHORT}}${LONE_MARK}`);

/** 96 bits: these digests only tell two inputs of one key apart, and there is one set in every record. */
function shortDigest(text: string, secret: Secret): string {
  return digestText(text, secret).slice(0, SHORT);
}

export function toFingerprint(print: InputPrint): Fingerprint {
  return { guarded: print.guarded, free: print.free, fields: print.fields() };
}

// In place of the guarded digest. No digest is that short.
const IN_PART = "*";
const ANY_IN_PART = /^(?:[0-9a-f]{8}\.)?\*$/;

/** Of an input of which only these fields are known, such as that of an imported row: nothing else of it is compared. */
export function fingerprintInPart(print: InputPrint): Fingerprint {
  const keyId = digestKeyId(print);
  return { guarded: keyId === null ? IN_PART : `${keyId}${KEY_MARK}${IN_PART}`, free: null, fields: print.fields() };
}

export function isInPart({ guarded }: Pick<Fingerprint, "guarded">): boolean {
  return ANY_IN_PART.test(guarded);
}

/**
 * The top-level fields that differ, by the present free list: guarded ones make a conflict, free ones are only told.
 * The digests of single fields decide, because a release may have moved a field between the two lists since.
 */
export function differing(
  stored: Fingerprint,
  given: InputPrint,
  free: readonly string[],
): { readonly guarded: readonly string[]; readonly free: readonly string[] } {
  const print = given.under(digestKeyId(stored));
  if (print === null) throw missingDigestKey(stored);
  if (stored.guarded === print.guarded && stored.free === print.free) return { guarded: [], free: [] };
  const differ = differingFields(stored.fields, print.fields(), isInPart(stored), free);
  if (given.alike?.guarded !== stored.guarded) return differ;
  const { fields: alike } = given.alike;
  return { ...differ, guarded: differ.guarded.filter((name) => !alike.includes(name)) };
}

/** The same where the given input is known in part only: what either side does not know is not compared. */
export function differingKnown(stored: Fingerprint, given: InputPrint, free: readonly string[]) {
  const print = given.under(digestKeyId(stored));
  if (print === null) throw missingDigestKey(stored);
  return differingFields(stored.fields, print.fields(), true, free);
}

function differingFields(
  stored: Fingerprint["fields"],
  given: Fingerprint["fields"],
  inPart: boolean,
  free: readonly string[],
): { readonly guarded: readonly string[]; readonly free: readonly string[] } {
  const known = Object.keys(stored);
  const names = inPart
    ? known.filter((name) => Object.hasOwn(given, name))
    : new Set([...known, ...Object.keys(given)]);
  const differ = [...names].filter((name) => ownDigest(stored, name) !== ownDigest(given, name)).sort();
  return {
    guarded: differ.filter((name) => !free.includes(name)).map(fieldLabel),
    free: differ.filter((name) => free.includes(name)),
  };
}

/** Whether the key that the stored digests were made with is known. */
export function canCompare(stored: Fingerprint, print: InputPrint): boolean {
  return print.under(digestKeyId(stored)) !== null;
}

function missingDigestKey(stored: Fingerprint): NevertwiceError {
  return new NevertwiceError(
    "CONFIG",
    `encrypt: the stored record belongs to encryption key ${digestKeyId(stored)}, which is not given, so that its input cannot be compared with this call's. Nothing was run. Pass the same \`encrypt\`; after a rotation, add that key after the present one: encrypt: [presentKey, olderKey].`,
  );
}

/**
 * False when a free field could not be compared (a function, a stream, a BigInt), or not all fields are known: equal digests
 * then prove nothing.
 */
export function isComparable(fingerprint: Fingerprint): boolean {
  return !isInPart(fingerprint) && !Object.values(fingerprint.fields).includes(NOT_COMPARABLE);
}

function ownDigest(fields: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function fieldLabel(name: string): string {
  return name === NOT_AN_OBJECT ? "(input)" : name;
}
