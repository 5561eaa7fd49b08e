/**
 * Notices two keys that a person would take for one: parts that differ in nothing but case, white space, Unicode form or the
 * format of a number. Each is an intent of its own, so the effect happens twice. It looks at the last few hundred keys of an
 * action in this process, and in a busy one at a part of them. It warns and never refuses, and tells the part and what differed, never the value.
 */
import { safeName } from "./leaves.ts";

export type Difference = "case" | "white space" | "Unicode form" | "number format";

export interface NearKey {
  /** Index of the part. */
  readonly part: number;
  readonly differs: Difference;
}

const REMEMBERED = 256;
// To fold and to keep a key takes most of a microsecond, a twentieth of a call. So the first thousand calls are looked at, and
// then a hundred in a row of each thousand: a model that repeats itself does so soon.
const LOOKED_AT = 1_024;
const IN_A_ROW = 128;
// A longer key is content, not a name; to fold and to keep it would cost more than it is worth.
const LONGEST_TEXT = 512;

/** The keys of one action, by their folded text. Two generations: nothing is removed one by one. */
export class RecentKeys {
  #calls = 0;
  #young = new Map<string, string>();
  #old = new Map<string, string>();

  /** `text`: the text that the key is a digest of. The other key it is near to; null: there is none. */
  add(text: string): NearKey | null {
    this.#calls += 1;
    if (this.#calls > LOOKED_AT && this.#calls % LOOKED_AT > IN_A_ROW) return null;
    if (text.length > LONGEST_TEXT) return null;
    const folded = fold(text);
    const known = this.#young.get(folded) ?? this.#old.get(folded);
    if (known !== undefined) return known === text ? null : nearness(known, text);
    if (this.#young.size >= REMEMBERED) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(folded, text);
    return null;
  }
}

// Escapes, white space, what is not ASCII, and decimals. Most keys have none of them, and are folded by two scans.
const NOT_PLAIN = /[^!-[\]-~]|\d\.\d/;

/** Texts that may be near each other fold alike. More may do so: `nearness` has the last word. */
function fold(text: string): string {
  const plain = NOT_PLAIN.test(text)
    ? JSON.stringify(JSON.parse(text), (_name, value: unknown) => foldedValue(value))
    : text.toLowerCase();
  // Without quotes a number and its text are the same.
  return plain.replaceAll('"', "");
}

function foldedValue(value: unknown): unknown {
  if (typeof value === "number") return foldedNumber(String(value));
  if (typeof value !== "string") return value;
  const spaced = value.normalize("NFKC").replace(/\s+/gu, " ").trim().toLowerCase();
  return NUMBER.test(spaced) ? foldedNumber(spaced) : spaced;
}

const NUMBER = /^-?\d{1,15}(?:\.\d{1,4})?$/;

function foldedNumber(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

const HEAD = 5; // the tag, tenant, action, version and scope

/** What one part differs in; null: they are two intents to everybody. */
function nearness(a: string, b: string): NearKey | null {
  const [one, other] = [a, b].map((text) => JSON.parse(text) as unknown[]) as [unknown[], unknown[]];
  if (one.length !== other.length) return null;
  let found: NearKey | null = null;
  for (let at = 0; at < one.length; at += 1) {
    const [left, right] = [one[at], other[at]];
    if (JSON.stringify(left) === JSON.stringify(right)) continue;
    // Another tenant, another scope: meant to be another intent.
    const differs = at < HEAD ? null : difference(left, right);
    if (differs === null) return null;
    found ??= { part: at - HEAD, differs };
  }
  return found;
}

function difference(a: unknown, b: unknown): Difference | null {
  if (typeof a === "object" && a !== null && typeof b === "object" && b !== null) return differenceInside(a, b);
  if (typeof a === "number" || typeof b === "number") return sameNumber(a, b) ? "number format" : null;
  if (typeof a !== "string" || typeof b !== "string") return null;
  if (a.normalize("NFKC") === b.normalize("NFKC")) return "Unicode form";
  if (spaced(a) === spaced(b)) return "white space";
  if (spaced(a).toLowerCase() === spaced(b).toLowerCase()) return "case";
  return sameNumber(a, b) ? "number format" : null;
}

function spaced(text: string): string {
  return text.normalize("NFKC").replace(/\s+/gu, " ").trim();
}

/** "10.00" is 10. But "1.10" is not "1.1" where both are texts: they may be versions. */
function sameNumber(a: unknown, b: unknown): boolean {
  const [left, right] = [String(a).trim(), String(b).trim()];
  if (!NUMBER.test(left) || !NUMBER.test(right) || Number(left) !== Number(right)) return false;
  // "007" is a code, not a number.
  if ([left, right].some((text) => /^-?0\d/.test(text))) return false;
  return typeof a !== typeof b || Number.isInteger(Number(left));
}

/** The whole input as one part, or a list: the first thing in it that differs. */
function differenceInside(a: object, b: object): Difference | null {
  const names = Object.keys(a);
  if (names.join("\n") !== Object.keys(b).join("\n")) return null;
  let found: Difference | null = null;
  for (const name of names) {
    const [left, right] = [(a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]];
    if (JSON.stringify(left) === JSON.stringify(right)) continue;
    const differs = difference(left, right);
    if (differs === null) return null;
    found ??= differs;
  }
  return found;
}

const HELP: Readonly<Record<Difference, string>> = {
  case: "text() or email()",
  "white space": "text() or email()",
  "Unicode form": "text() or email()",
  "number format": 'amount(value, "EUR"), or always a number',
};

/** `names`: the fields of the key, where it names fields. */
export function nearKeyWarning(
  action: string,
  { part, differs }: NearKey,
  names: readonly string[] | undefined,
): string {
  const name = names?.[part] === undefined ? null : safeName(names[part]);
  const which = name === null ? `part ${part + 1} of its key` : `the key field ${JSON.stringify(name)}`;
  return (
    `action ${action}: two calls had keys that differ only in the ${differs} of ${which}. They are two intents, and both may run. ` +
    `Where they mean the same, bring the part into one form: ${HELP[differs]}.`
  );
}
