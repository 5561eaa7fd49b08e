/**
 * JSON whose numbers keep their digits. JSON.parse makes 9007199254740992 of 9007199254740993: two accounts become one.
 * Here a number that a double does not hold becomes { "nevertwice:number": "9007199254740993" }, plain data that keys, records
 * and stores take like any other, and is written as the number again. All other values are what JSON.parse makes of them.
 */
import { endOfNumber, endOfString, nameOf } from "./json-tokens.ts";

const PREFIX = "nevertwice:";
const NAME = `${PREFIX}number`;

/** Also a text's own member of that name: it gets one prefix more, which is dropped when it is written. */
const OWN_NAME = /^(?:nevertwice:)+number$/;

// Of 15 significant digits each decimal is told from its neighbours. Beyond: long ones, exponents, and our own name.
const MAY_DIFFER = /[0-9][0-9.]{15}|[0-9][eE]|nevertwice:|\\u/;

/** Throws where JSON.parse does. */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!MAY_DIFFER.test(text)) return value;
  const marked = withMarks(text);
  return marked === text ? value : (JSON.parse(marked) as unknown);
}

function withMarks(text: string): string {
  const pieces: string[] = [];
  let from = 0;
  const put = (start: number, end: number, instead: string) => {
    pieces.push(text.slice(from, start), instead);
    from = end;
  };
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      if (isName(text, end)) {
        const name = nameOf(text.slice(at, end));
        if (OWN_NAME.test(name)) put(at, end, JSON.stringify(PREFIX + name));
      }
      at = end - 1;
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const end = endOfNumber(text, at);
      const digits = beyondDouble(text.slice(at, end));
      if (digits !== null) put(at, end, `{"${NAME}":"${digits}"}`);
      at = end - 1;
    }
  }
  return pieces.length === 0 ? text : pieces.join("") + text.slice(from);
}

const [QUOTE, MINUS, ZERO, NINE, COLON] = [0x22, 0x2d, 0x30, 0x39, 0x3a];

/** Behind the string stands a colon. */
function isName(text: string, end: number): boolean {
  let at = end;
  while (text.charCodeAt(at) <= 0x20) at += 1;
  return text.charCodeAt(at) === COLON;
}

/** The inverse, for values that parseExact made, or that were built from such. */
export function stringifyExact(value: unknown): string {
  const text = JSON.stringify(value);
  if (!text.includes(`"${PREFIX}`)) return text;
  // In a string each quote has a backslash before it, so that these find names only.
  return text
    .replace(/\{"nevertwice:number":"(-?[0-9][0-9.eE+-]*)"\}/g, "$1")
    .replace(/([{,]")nevertwice:((?:nevertwice:)+number":)/g, "$1$2");
}

/** The digits of such a number; null: the value is something else. */
export function exactDigits(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  const digits = (value as Record<string, unknown>)[NAME];
  return typeof digits === "string" && Object.keys(value).length === 1 ? digits : null;
}

/** null: the double reads as the same decimal, so nothing is lost. */
function beyondDouble(token: string): string | null {
  if (token.length <= 15 && !/[eE]/.test(token)) return null;
  const decimal = decimalOf(token);
  const double = Number(token);
  return Number.isFinite(double) && decimalOf(String(double)) === decimal ? null : decimal;
}

const LONGEST_PLAIN = 100;
const LONGEST_EXPONENT = 400;

/** One text for each number, however it is written: 1, 1.0 and 1e0 are "1". Long ones get an exponent, as String() writes them. */
export function decimalOf(token: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) ?? [];
  if (exponent.length > LONGEST_EXPONENT) return token;
  const digits = (whole + fraction).replace(/^0+/, "");
  const figures = digits.replace(/0+$/, "");
  if (figures === "") return "0";
  // Where the point stands, counted from the first figure.
  const point = BigInt(digits.length - fraction.length) + BigInt(exponent.replace("+", ""));
  if (point > LONGEST_PLAIN || point <= -LONGEST_PLAIN) {
    const rest = figures.slice(1);
    return `${sign}${figures[0]}${rest === "" ? "" : `.${rest}`}e${point - 1n}`;
  }
  const at = Number(point);
  if (at <= 0) return `${sign}0.${"0".repeat(-at)}${figures}`;
  if (figures.length <= at) return `${sign}${figures}${"0".repeat(at - figures.length)}`;
  return `${sign}${figures.slice(0, at)}.${figures.slice(at)}`;
}

// ---- changing one place of a text -----------------------------------------------------------------------------------

/**
 * The text of an object with one member set, at a path of member names, and every other byte as it was. The text has been
 * read before, and each object on the path is there. A missing member is added at the end.
 */
export function withMember(text: string, path: readonly string[], name: string, value: unknown): string {
  const span = spanOf(text, path);
  if (span === null) throw new Error(`the message has no ${path.join(".")}`);
  const [member, added] = [spanOf(text, [...path, name]), stringifyExact(value)];
  if (member !== null) return text.slice(0, member.start) + added + text.slice(member.end);
  return beforeEnd(text, span, `${JSON.stringify(name)}:${added}`);
}

/** The text with items added at the end of the list at a path; null: there is no list. */
export function withItems(text: string, path: readonly string[], items: readonly unknown[]): string | null {
  const span = spanOf(text, path);
  if (span === null || text[span.start] !== "[") return null;
  return items.length === 0 ? text : beforeEnd(text, span, items.map(stringifyExact).join(","));
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Into the object or list of this span, before its closing bracket. */
function beforeEnd(text: string, { start, end }: Span, added: string): string {
  const isEmpty = text.slice(start + 1, end - 1).trim() === "";
  return `${text.slice(0, end - 1)}${isEmpty ? "" : ","}${added}${text.slice(end - 1)}`;
}

/** Where the value at a path stands. Of two equal names the last counts, as for JSON.parse. */
function spanOf(text: string, path: readonly string[]): Span | null {
  let span = valueAt(text, blanks(text, 0));
  for (const name of path) {
    const found = memberOf(text, span, name);
    if (found === null) return null;
    span = found;
  }
  return span;
}

function memberOf(text: string, { start, end }: Span, name: string): Span | null {
  if (text[start] !== "{") return null;
  let found: Span | null = null;
  let at = blanks(text, start + 1);
  while (at < end - 1) {
    const nameEnd = endOfString(text, at);
    const value = valueAt(text, blanks(text, blanks(text, nameEnd) + 1));
    if (nameOf(text.slice(at, nameEnd)) === name) found = value;
    at = blanks(text, value.end);
    if (text[at] === ",") at = blanks(text, at + 1);
  }
  return found;
}

function valueAt(text: string, start: number): Span {
  const first = text[start] as string;
  if (first === '"') return { start, end: endOfString(text, start) };
  if (first !== "{" && first !== "[") return { start, end: endOfWord(text, start) };
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const one = text[at] as string;
    if (one === '"') at = endOfString(text, at) - 1;
    else if (one === "{" || one === "[") depth += 1;
    else if (one === "}" || one === "]") depth -= 1;
    if (depth === 0) return { start, end: at + 1 };
  }
  return { start, end: text.length };
}

function endOfWord(text: string, start: number): number {
  let end = start;
  while (end < text.length && !/[\s,\]}]/.test(text[end] as string)) end += 1;
  return end;
}

function blanks(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charCodeAt(at) <= 0x20) at += 1;
  return at;
}
