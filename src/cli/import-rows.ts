/** Rows of somebody's own ledger: JSON lines, a JSON array, or CSV as a database exports it. */
import { isTooDeep, parseForeignJson } from "../core/foreign-json.ts";
import { UsageError } from "./exit.ts";

export type Row = Readonly<Record<string, unknown>>;

export interface PlacedRow {
  /** Its line in the file, or its number in the array. */
  readonly place: number;
  readonly row: Row;
}

export function rowsOf(text: string, file: string): PlacedRow[] {
  const start = text.trimStart();
  if (start === "") return [];
  if (start.startsWith("[")) return fromArray(text, file);
  // By its name it is no table: its first line would be taken for the columns, and nothing would be imported.
  const isLines = start.startsWith("{") || /\.(jsonl|ndjson|json)$/i.test(file);
  return isLines ? fromLines(text, file) : fromCsv(text, file);
}

function fromArray(text: string, file: string): PlacedRow[] {
  const rows: unknown = parse(text, file, "the file");
  return (rows as unknown[]).map((row, i) => ({ place: i + 1, row: plain(row, file, `entry ${i + 1}`) }));
}

function fromLines(text: string, file: string): PlacedRow[] {
  const rows: PlacedRow[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    rows.push({ place: i + 1, row: plain(parse(line, file, `line ${i + 1}`), file, `line ${i + 1}`) });
  }
  return rows;
}

function parse(text: string, file: string, what: string): unknown {
  try {
    return parseForeignJson(text);
  } catch (error) {
    if (error instanceof RangeError)
      throw new UsageError(`${file}: ${placeOfDepth(text, what)}: ${error.message}. Nothing was imported.`);
    throw new UsageError(
      `${file}: ${what} is not JSON. Nothing was imported. Correct it, or take it out if it was never finished.`,
    );
  }
}

/** In an array that is the whole file, the line on which it gets too deep. */
function placeOfDepth(text: string, what: string): string {
  if (!text.includes("\n")) return what;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isTooDeep(text.slice(0, middle))) high = middle;
    else low = middle + 1;
  }
  return `line ${text.slice(0, low).split("\n").length}`;
}

function plain(value: unknown, file: string, what: string): Row {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Row;
  throw new UsageError(`${file}: ${what} is not an object with fields. Nothing was imported.`);
}

/** RFC 4180: quoted fields may hold commas, quotes (doubled) and line breaks. */
function fromCsv(text: string, file: string): PlacedRow[] {
  const records = csvRecords(text);
  const [header, ...rest] = records;
  if (header === undefined || header.fields.some((name) => name.trim() === ""))
    throw new UsageError(`${file}: the first line has no column names. Export it with a header, or as JSON lines.`);
  return rest.map(({ fields, line }) => {
    if (fields.length !== header.fields.length)
      throw new UsageError(
        `${file}: line ${line} has ${fields.length} fields, the header has ${header.fields.length}. Nothing was imported.`,
      );
    return { place: line, row: Object.fromEntries(header.fields.map((name, i) => [name.trim(), fields[i] ?? ""])) };
  });
}

function csvRecords(text: string): { fields: string[]; line: number }[] {
  const records: { fields: string[]; line: number }[] = [];
  let fields: string[] = [];
  let field = "";
  let quoted = false;
  let line = 1;
  let startLine = 1;
  const end = () => {
    fields.push(field);
    if (fields.length > 1 || field !== "") records.push({ fields, line: startLine });
    fields = [];
    field = "";
    startLine = line;
  };
  for (let i = 0; i < text.length; i += 1) {
    const sign = text[i] as string;
    if (sign === "\n") line += 1;
    if (quoted) {
      if (sign !== '"') field += sign;
      else if (text[i + 1] === '"') {
        field += '"';
        i += 1;
      } else quoted = false;
    } else if (sign === '"') quoted = true;
    else if (sign === ",") {
      fields.push(field);
      field = "";
    } else if (sign === "\n") end();
    else if (sign !== "\r") field += sign;
  }
  if (field !== "" || fields.length > 0) end();
  return records;
}
