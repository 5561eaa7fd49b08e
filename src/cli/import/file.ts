/**
 * The rows of a file, one after the other: JSON lines, a JSON array, or CSV. A file is read more than once and never held
 * in memory, except for a JSON array. What cannot be read exactly is refused with its line.
 */
import { createHash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync, type Stats, statSync } from "node:fs";
import { messageOf } from "../../core/errors.ts";
import { DEEPEST_JSON, isTooDeep } from "../../core/foreign-json.ts";
import { readJson } from "../../core/strict-json.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { csvRows } from "./csv.ts";
import { hasLoneReturns, otherEncoding } from "./foreign-text.ts";
import { LONGEST_ROW, linesIn, type PlacedRow, type Row } from "./row.ts";

export interface SourceFile {
  readonly name: string;
  readonly format: "lines" | "array" | "csv";
  /** "line", "entry" or "row": what `place` counts. */
  readonly unit: string;
  rows(): AsyncIterable<PlacedRow>;
  close(): Promise<void>;
}

const LARGEST_ARRAY = 256 * 1024 * 1024;
const PEEKED = 64 * 1024;

export function openSource(path: string, name: string, delimiter: string | undefined): SourceFile {
  const { stats, start } = peek(path, name);
  const format = formatOf(name, start);
  const digests = new Set<string>();
  const text = () => textOf(path, name, digests);
  const read = {
    csv: () => csvRows(text(), name, delimiterOf(name, delimiter)),
    lines: () => rowsOfLines(text(), name, "line"),
  };
  if (format !== "csv" && delimiter !== undefined)
    throw new UsageError(`--delimiter is for CSV, and ${name} is read as JSON. Leave it out.`);
  if (format === "array" && stats.size > LARGEST_ARRAY)
    throw new ProblemError(
      `${name} is a JSON array of more than 256 MB, which would have to be held in memory. Make JSON lines of it: jq -c '.[]' ${name} > rows.jsonl`,
    );
  const rows = format === "array" ? () => arrayRows(text(), name) : read[format];
  return { name, format, unit: format === "array" ? "entry" : "line", rows, close: async () => {} };
}

function peek(path: string, name: string): { stats: Stats; start: string } {
  try {
    const stats = statSync(path);
    if (!stats.isFile())
      throw new UsageError(`${name} is not a regular file. It is read more than once: save the rows in a file first.`);
    const bytes = Buffer.alloc(PEEKED);
    const file = openSync(path, "r");
    const length = readSync(file, bytes, 0, PEEKED, 0);
    closeSync(file);
    const other = otherEncoding(bytes.subarray(0, length));
    if (other !== null) throw new ProblemError(`${name} is ${other}. Save it as UTF-8 (in Excel: "CSV UTF-8").`);
    return {
      stats,
      start: bytes
        .toString("utf8", 0, length)
        .replace(/^\ufeff/, "")
        .trimStart(),
    };
  } catch (error) {
    if (error instanceof UsageError || error instanceof ProblemError) throw error;
    throw new UsageError(`${name} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** By its name, then by its first character. Taken for a table, a file of lines would lose its first line to the header. */
function formatOf(name: string, start: string): SourceFile["format"] {
  if (/\.(csv|tsv)$/i.test(name)) return "csv";
  if (start.startsWith("[")) return "array";
  return start === "" || start.startsWith("{") || /\.(jsonl|ndjson|json)$/i.test(name) ? "lines" : "csv";
}

function delimiterOf(name: string, given: string | undefined): string {
  if (given === undefined) return /\.tsv$/i.test(name) ? "\t" : ",";
  const delimiter = given === "tab" || given === "\\t" ? "\t" : given;
  if ([...delimiter].length === 1 && !/["\r\n]/.test(delimiter)) return delimiter;
  throw new UsageError(`--delimiter takes one character, or the word tab: --delimiter ";"`);
}

/** Strictly UTF-8: a replaced character would make another key. Without a byte order mark. */
async function* textOf(path: string, name: string, digests: Set<string>): AsyncIterable<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const digest = createHash("sha256");
  let line = 1;
  const decoded = (bytes?: Uint8Array) => {
    try {
      return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
    } catch {
      throw new ProblemError(
        `${name} is not UTF-8 (near line ${line}). Nothing was imported. Convert it: iconv -f latin1 -t utf-8 ${name} > utf8-${name}`,
      );
    }
  };
  for await (const bytes of createReadStream(path) as AsyncIterable<Buffer>) {
    digest.update(bytes);
    const text = decoded(bytes);
    yield text;
    line += linesIn(text);
  }
  const rest = decoded();
  if (rest !== "") yield rest;
  digests.add(digest.digest("hex"));
  if (digests.size > 1)
    throw new ProblemError(`${name} changed while it was imported. Import it again: what is there already is kept.`);
}

export async function* rowsOfLines(
  chunks: AsyncIterable<string>,
  name: string,
  unit: "line" | "row",
): AsyncIterable<PlacedRow> {
  let [rest, place] = ["", 0];
  const rowOf = (text: string): PlacedRow[] => {
    place += 1;
    if (text.trim() === "") return [];
    const row = plain(
      parsed(text, name, () => `${unit} ${place}`),
      name,
      `${unit} ${place}`,
    );
    return [{ place, row, breaks: 0 }];
  };
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() as string;
    for (const line of lines) yield* rowOf(line);
    if (rest.length > LONGEST_ROW)
      throw new ProblemError(`${name}: ${unit} ${place + 1} is longer than 4 MB. Nothing was imported.`);
  }
  yield* rowOf(rest);
}

async function* arrayRows(chunks: AsyncIterable<string>, name: string): AsyncIterable<PlacedRow> {
  const texts: string[] = [];
  for await (const chunk of chunks) texts.push(chunk);
  const text = texts.join("");
  const rows = parsed(text, name, (at) =>
    at === "whole" ? "the file" : `line ${at === "deep" ? depthLine(text) : linesIn(text.slice(0, at)) + 1}`,
  );
  for (const [i, row] of (rows as unknown[]).entries())
    yield { place: i + 1, row: plain(row, name, `entry ${i + 1}`), breaks: 0 };
}

function parsed(text: string, name: string, where: (at: number | "deep" | "whole") => string): unknown {
  if (isTooDeep(text))
    throw new ProblemError(
      `${name}: ${where("deep")}: it is nested more than ${DEEPEST_JSON} levels deep. Nothing was imported.`,
    );
  const reading = readJson(text);
  if (!reading.ok)
    throw new ProblemError(
      reading.problem === "it is not JSON"
        ? notJson(text, name, where("whole"))
        : `${name}: ${where("whole")}: ${reading.problem}. Nothing was imported.`,
    );
  if (reading.inexact !== null)
    throw new ProblemError(
      `${name}: ${where(text.indexOf(reading.inexact))} has the number ${reading.inexact}, which JavaScript cannot hold exactly: another number would be imported. Write it as text, in quotes. Nothing was imported.`,
    );
  return reading.value;
}

function notJson(text: string, name: string, where: string): string {
  return hasLoneReturns(text)
    ? `${name}: ${where} is not JSON, and has CR in it: if the lines of the file end with CR alone, convert it: tr '\\r' '\\n' < ${name} > converted-${name}. Nothing was imported.`
    : `${name}: ${where} is not JSON. Nothing was imported. Correct it, or take it out if it was never finished.`;
}

/** In an array, the line on which it gets too deep. */
function depthLine(text: string): number {
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isTooDeep(text.slice(0, middle))) high = middle;
    else low = middle + 1;
  }
  return linesIn(text.slice(0, low)) + 1;
}

function plain(value: unknown, name: string, what: string): Row {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Row;
  throw new ProblemError(`${name}: ${what} is not an object with fields. Nothing was imported.`);
}
