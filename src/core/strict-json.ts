/**
 * JSON that every parser reads the same way. JSON.parse takes the last of two equal names, other parsers the first; a guard
 * that reads one and a server that reads the other see two different calls. Such texts are refused, not interpreted.
 */

import { endOfNumber, endOfString, nameOf } from "./json-tokens.ts";

export type JsonReading =
  | {
      readonly ok: true;
      readonly value: unknown;
      /** A number that JavaScript cannot hold exactly: two of them may become equal. null: there is none. */
      readonly inexact: string | null;
    }
  | { readonly ok: false; readonly problem: string };

/** The values of a guarded call may be nested 64 deep (INPUT_LIMITS); this leaves room for the message around them. */
export const MOST_DEPTH = 128;

const refused = (problem: string): JsonReading => ({ ok: false, problem });

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** From bytes: UTF-8 without a byte order mark. */
export function readJsonBytes(bytes: Uint8Array, parse = JSON.parse as Parse): JsonReading {
  let text: string;
  try {
    text = UTF8.decode(bytes);
  } catch {
    return refused("the body is not UTF-8");
  }
  return readJson(text, parse);
}

type Parse = (text: string) => unknown;

/** `parse`: parseExact, for a value whose numbers keep their digits. */
export function readJson(text: string, parse = JSON.parse as Parse): JsonReading {
  if (text.startsWith("\uFEFF")) return refused("it starts with a byte order mark");
  let value: unknown;
  try {
    value = parse(text);
  } catch {
    return refused("it is not JSON");
  }
  const found = scan(text);
  return typeof found === "string" ? refused(found) : { ok: true, value, inexact: found.inexact };
}

const [QUOTE, COMMA, OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST] = [0x22, 0x2c, 0x7b, 0x7d, 0x5b, 0x5d];

/** Over a text that JSON.parse has accepted. A text: what is wrong with it. */
function scan(text: string): string | { readonly inexact: string | null } {
  // One entry per open object or list; a list has no names.
  const open: (Set<string> | null)[] = [];
  let [names, expectsName, inexact] = [null as Set<string> | null, false, null as string | null];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      if (expectsName && names !== null) {
        const name = nameOf(text.slice(at, end));
        if (name === "__proto__") return 'it has a member named "__proto__"';
        if (names.has(name)) return `it has two members named ${JSON.stringify(name.slice(0, 60))}`;
        names.add(name);
        expectsName = false;
      }
      at = end - 1;
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      names = code === OPEN_OBJECT ? new Set() : null;
      expectsName = names !== null;
      if (open.push(names) > MOST_DEPTH) return `it is nested more than ${MOST_DEPTH} levels deep`;
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) {
      open.pop();
      names = open.at(-1) ?? null;
    } else if (code === COMMA) expectsName = names !== null;
    else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) {
      const end = endOfNumber(text, at);
      inexact ??= inexactNumber(text.slice(at, end));
      at = end - 1;
    }
  }
  return { inexact };
}

// A double tells any two decimal numbers of 15 significant digits apart, and 17 name every double.
const MOST_DIGITS = 17;

function inexactNumber(token: string): string | null {
  const value = Number(token);
  const isWhole = /^-?\d+$/.test(token);
  const digits = (token.split(/[eE]/)[0] as string).replace(/[-.]/g, "").replace(/^0+/, "");
  const exact = Number.isFinite(value) && (isWhole ? Number.isSafeInteger(value) : digits.length <= MOST_DIGITS);
  return exact ? null : token.slice(0, 40);
}
