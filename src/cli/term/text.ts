/** Text for a terminal: how wide it is, cut to fit, wrapped, and harmless whatever an agent or a provider wrote. */
import { stripVTControlCharacters } from "node:util";
import { redact } from "../../core/redact.ts";

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u;
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
// Control characters, and the marks that turn the reading direction: both can make a line show what it does not say.
const HARMFUL = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
// The line breaks between the fields of a document, and the escapes of JSON.stringify itself, stay as they are.
const HARMFUL_IN_JSON = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Stored text can carry escape sequences; shown as \u001b they move no cursor and hide nothing. */
export function visible(text: string): string {
  if (PRINTABLE_ASCII.test(text)) return text;
  return text.replace(HARMFUL, escaped);
}

/** The same document: JSON leaves these characters as they are, and a terminal obeys some of them. */
export function harmlessJson(document: object): string {
  return JSON.stringify(document, null, 2).replace(HARMFUL_IN_JSON, escaped);
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** On one line: runs of white space become a blank each. Secrets are left out. */
export function oneLine(text: string): string {
  return visible(redact(text.replace(/\s+/g, " ").trim()));
}

export function widthOf(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/** Cut with an ellipsis where it is too long. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const { segment } of graphemes.segment(text)) {
    used += WIDE.test(segment) ? 2 : 1;
    if (used > width - 1) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - widthOf(text)));
}

export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - widthOf(text))) + text;
}

/** Broken at blanks. A word longer than a line is left whole: a key or a command must stay copyable. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && widthOf(line) + 1 + widthOf(word) > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
