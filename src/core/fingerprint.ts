import { canonicalFields, canonicalInput } from "./canonical.ts";
import { digestText } from "./key.ts";
import type { Fingerprint } from "./record.ts";

/** The digests of one call's input. */
export interface InputPrint {
  readonly guarded: string;
  readonly free: string | null;
  /** Lazy: only a first write and a mismatch need one digest per field. */
  fields(): Readonly<Record<string, string>>;
}

type Secret = string | Uint8Array | undefined;
type Field = readonly [name: string, text: string | null];

/** Stands for a free field that cannot be compared (a function, a stream, a BigInt). No digest looks like it. */
const NOT_COMPARABLE = "?";
const NOT_AN_OBJECT = "";

export function printInput(input: unknown, free: readonly string[], secret?: string | Uint8Array): InputPrint {
  const fields = inputFields(input, free);
  let guardedText = "";
  let freeText = "";
  for (const [name, text] of fields) {
    const entry = `${JSON.stringify(name)}:${text ?? NOT_COMPARABLE},`;
    if (free.includes(name)) freeText += entry;
    else guardedText += entry;
  }
  const lone = fields.length === 1 && freeText === "" ? (fields[0] as Field) : null;
  const digests = lone === null ? null : fieldDigests(fields, secret);
  return new Print(
    // One field needs one digest. Its name is part of it: { to: "x" } and { cc: "x" } are not the same input.
    lone === null || digests === null ? shortDigest(guardedText, secret) : `${digests[lone[0]]}:${lone[0]}`,
    freeText === "" ? null : shortDigest(freeText, secret),
    fields,
    digests,
    secret,
  );
}

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
    this.#texts = digests === null ? texts : [];
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

/** 96 bits: these digests only tell two inputs of one key apart, and there is one set in every record. */
function shortDigest(text: string, secret: Secret): string {
  return digestText(text, secret).slice(0, SHORT);
}

export function toFingerprint(print: InputPrint): Fingerprint {
  return { guarded: print.guarded, free: print.free, fields: print.fields() };
}

/**
 * The top-level fields that differ, by the present free list: guarded ones make a conflict, free ones are only told.
 * The digests of single fields decide, because a release may have moved a field between the two lists since.
 */
export function differing(
  stored: Fingerprint,
  print: InputPrint,
  free: readonly string[],
): { readonly guarded: readonly string[]; readonly free: readonly string[] } {
  if (stored.guarded === print.guarded && stored.free === print.free) return { guarded: [], free: [] };
  const fields = print.fields();
  const names = new Set([...Object.keys(stored.fields), ...Object.keys(fields)]);
  const differ = [...names].filter((name) => ownDigest(stored.fields, name) !== ownDigest(fields, name)).sort();
  return {
    guarded: differ.filter((name) => !free.includes(name)).map(fieldLabel),
    free: differ.filter((name) => free.includes(name)),
  };
}

/** False when a free field could not be compared (a function, a stream, a BigInt): equal digests then prove nothing. */
export function isComparable({ fields }: Fingerprint): boolean {
  return !Object.values(fields).includes(NOT_COMPARABLE);
}

function ownDigest(fields: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function fieldLabel(name: string): string {
  return name === NOT_AN_OBJECT ? "(input)" : name;
}
