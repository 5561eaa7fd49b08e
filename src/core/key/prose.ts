/**
 * Notices prose in a key: text that a model wrote, or writes anew each time it is asked. Each wording is another key, and the
 * effect happens once for each. Like the other warnings about keys this tells the place and the reason, never the value.
 */
import { leavesOf, ownEntries, plainName, safeName } from "./leaves.ts";

export interface ProseSuspicion {
  readonly code: "PROSE_IN_KEY";
  /** Index of the part. */
  readonly part: number;
  /** The field's name, where there is one. */
  readonly name: string | null;
  readonly why: string;
}

const MOST_PARTS = 64;
const LONG_CHARACTERS = 80;
const LONG_WORDS = 12;

const REASONS = {
  long: "it is a long text",
  named: "its name says that it is written text",
} as const;

const NAMES = new Set(
  (
    "content body bodytext bodyhtml html markdown summary message messagetext text description prompt reply response answer " +
    "draft caption comment note notes paragraph article post posttext transcript reason explanation"
  ).split(" "),
);

/** `input`: names the field that a part of a key function was taken from. */
export function proseSuspicions({
  parts,
  names,
  input,
}: {
  readonly parts: readonly unknown[];
  readonly names?: readonly string[] | undefined;
  readonly input: unknown;
}): ProseSuspicion[] {
  const found: ProseSuspicion[] = [];
  for (let part = 0; part < Math.min(parts.length, MOST_PARTS); part += 1) {
    for (const { name, value } of leavesOf(parts[part], names?.[part] ?? null)) {
      if (typeof value !== "string") continue;
      const of = name ?? nameIn(input, value);
      const why = proseIn(of, value);
      if (why !== null) found.push({ code: "PROSE_IN_KEY", part, name: of === null ? null : safeName(of), why });
    }
  }
  return found;
}

function proseIn(name: string | null, value: string): string | null {
  const words = wordsIn(value);
  // An id in a field named "message" is an id.
  if (name !== null && NAMES.has(plainName(name)) && words > 1) return REASONS.named;
  return value.length >= LONG_CHARACTERS && words >= LONG_WORDS ? REASONS.long : null;
}

/** As far as it matters. Languages without spaces between words: a character of theirs is taken for a word. */
function wordsIn(value: string): number {
  const words = value
    .slice(0, 2_000)
    .match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[^\s]+/gu);
  return words?.length ?? 0;
}

function nameIn(input: unknown, value: string): string | null {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return null;
  return ownEntries(input).find(([, held]) => held === value)?.[0] ?? null;
}
