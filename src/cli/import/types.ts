/**
 * What the values of a column are. A CSV file has only text, and the key of 7 is another than that of "7": a type that is
 * not known is asked for, because a wrong guess would guard nothing.
 */

import { isTooDeep } from "../../core/foreign-json.ts";
import { nearest } from "../../core/nearest.ts";
import { readJson } from "../../core/strict-json.ts";
import { readInstant, TIME_FORMS } from "../instant.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

const TYPES = ["text", "number", "integer", "boolean", "json", "timestamp", "date"] as const;
export type ColumnType = (typeof TYPES)[number];

/** --types lead_id=number,active=boolean */
export function typesOf(given: readonly string[]): Map<string, ColumnType> {
  const types = new Map<string, ColumnType>();
  for (const one of given) {
    const at = one.lastIndexOf("=");
    const [column, type] = [one.slice(0, at).trim(), one.slice(at + 1).trim() as ColumnType];
    if (at < 1 || !TYPES.includes(type)) {
      const meant = at < 1 ? null : nearest(type, TYPES);
      throw new UsageError(
        `--types ${oneLine(one)}: it takes <column>=<type>, for example lead_id=number.${meant === null ? "" : ` Did you mean ${meant}?`} The types are: ${TYPES.join(", ")}.`,
      );
    }
    const before = types.get(column);
    if (before !== undefined && before !== type)
      throw new UsageError(`--types has two types for ${oneLine(column)}: ${before} and ${type}. Keep one.`);
    types.set(column, type);
  }
  return types;
}

/** A value as its type. What does not fit is refused: it is never made to fit. */
export function converted(value: unknown, type: ColumnType, column: string, by = "--types"): unknown {
  const found = CONVERSIONS[type](value);
  if (found !== undefined) return found;
  throw new ProblemError(
    `the column ${oneLine(column)} is ${shownValue(value)}, which is not ${NOUNS[type]} (${type} by ${by}).`,
  );
}

/** Whether a text can be of this type. */
export function fits(text: string, type: ColumnType): boolean {
  return CONVERSIONS[type](text) !== undefined;
}

const NOUNS: Record<ColumnType, string> = {
  text: "text",
  number: "a number that JavaScript can hold exactly",
  integer: "a whole number up to 2^53",
  boolean: "true or false",
  json: "JSON with numbers that JavaScript can hold exactly",
  timestamp: `a time that can be read for certain: write ${TIME_FORMS}`,
  date: `a time that can be read for certain: write ${TIME_FORMS}`,
};

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
// A double tells any two decimal numbers of 15 significant digits apart.
const MOST_DIGITS = 15;

function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || !NUMBER.test(value)) return undefined;
  const number = Number(value);
  const digits = (value.split(/[eE]/)[0] as string).replace(/[-.]/g, "").replace(/^0+/, "");
  const exact = Number.isInteger(number) ? Number.isSafeInteger(number) : digits.length <= MOST_DIGITS;
  return Number.isFinite(number) && exact ? number : undefined;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["t", true],
  ["1", true],
  ["false", false],
  ["f", false],
  ["0", false],
]);

const CONVERSIONS: Record<ColumnType, (value: unknown) => unknown> = {
  text: (value) => (typeof value === "string" ? value : isScalar(value) ? String(value) : undefined),
  number: numberOf,
  integer: (value) => {
    const number = numberOf(value);
    return Number.isSafeInteger(number) ? number : undefined;
  },
  boolean: (value) => (typeof value === "boolean" ? value : BOOLEANS.get(String(value).toLowerCase())),
  json: (value) => (typeof value === "string" ? jsonOf(value) : value),
  timestamp: (value) => {
    const ms = timeOf(value);
    return ms === null ? undefined : new Date(ms).toISOString();
  },
  date: (value) => {
    const ms = timeOf(value);
    return ms === null ? undefined : new Date(ms);
  },
};

function isScalar(value: unknown): boolean {
  return typeof value === "number" || typeof value === "boolean";
}

/** Undefined: it is not JSON, or has a number that JavaScript cannot hold exactly. */
function jsonOf(text: string): unknown {
  const reading = isTooDeep(text) ? null : readJson(text);
  return reading?.ok && reading.inexact === null ? reading.value : undefined;
}

/** Epoch ms; null: it is no time that can be read for certain. Without a zone it is UTC. */
export function timeOf(value: unknown): number | null {
  return readInstant(value)?.at ?? null;
}

/** What a text of a CSV file may be besides text; null: nothing else. */
export function otherType(text: string): ColumnType | null {
  if (numberOf(text) !== undefined) return "number";
  if (/^(true|false|t|f)$/i.test(text)) return "boolean";
  // A day alone is text in every program: day() returns it so. A time of day is written in many ways.
  if (/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d/.test(text) && timeOf(text) !== null) return "timestamp";
  return /^[[{]/.test(text) && jsonOf(text) !== undefined ? "json" : null;
}

interface Seen {
  texts: number;
  others: number;
  /** The first value that can only be text, and the first that can be something else. */
  text: { readonly place: number; readonly value: string } | null;
  other: { readonly place: number; readonly value: string; readonly type: ColumnType } | null;
}

/** Which columns may be something else than text, over all rows. They are text where most values can only be text. */
export class ColumnGuesses {
  readonly #seen = new Map<string, Seen>();

  note(column: string, value: string, place: number): void {
    const seen = this.#seen.get(column) ?? { texts: 0, others: 0, text: null, other: null };
    this.#seen.set(column, seen);
    const type = otherType(value);
    if (type === null) {
      seen.texts += 1;
      seen.text ??= { place, value };
    } else {
      seen.others += 1;
      seen.other ??= { place, value, type };
    }
  }

  /** Throws where columns are left of which the type is not known. */
  refuseUnknown(file: string): void {
    const open = [...this.#seen].flatMap(([column, { others, texts, other, text }]) =>
      other === null || others < texts ? [] : [{ column: oneLine(column), other, text }],
    );
    if (open.length === 0) return;
    const list = open.map(({ column, other, text }) => {
      const but = text === null ? "" : `, but line ${text.place}: ${shownValue(text.value)}`;
      return `${column} (line ${other.place}: ${shownValue(other.value)}${but})`;
    });
    const flag = open.map(({ column, other }) => `${column}=${other.type}`).join(",");
    const text = open.map(({ column }) => `${column}=text`).join(",");
    throw new UsageError(
      `${file}: CSV has no types, and these columns may not be text in your program: ${list.join(", ")}. The key of 7 is another than that of "7": imported with the wrong type, a row guards nothing. Add --types ${flag} or, where your program has text, --types ${text}. Nothing was imported.`,
    );
  }
}

function shownValue(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return oneLine(text.length > 60 ? `${text.slice(0, 57)}…` : text);
}
