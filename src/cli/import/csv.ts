/** CSV by RFC 4180, strictly: quotes, the number of fields and column names are checked, each with its line. */
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import { LONGEST_ROW, linesIn, type PlacedRow } from "./row.ts";

interface CsvRecord {
  readonly fields: readonly string[];
  readonly line: number;
  readonly breaks: number;
}

export async function* csvRows(
  chunks: AsyncIterable<string>,
  file: string,
  delimiter: string,
): AsyncIterable<PlacedRow> {
  let header: readonly string[] | null = null;
  for await (const { fields, line, breaks } of csvRecords(chunks, file, delimiter)) {
    if (fields.length === 1 && fields[0] === "") continue;
    if (header === null) {
      header = columnsOf(fields, file, delimiter);
      continue;
    }
    if (fields.length !== header.length)
      throw new ProblemError(
        `${file}: line ${line} has ${fields.length} fields, the header has ${header.length}. Nothing was imported. A value with "${shown(delimiter)}" or a line break in it needs quotes around it.`,
      );
    // fromEntries defines, and does not assign: a column named __proto__ stays a column.
    yield { place: line, row: Object.fromEntries(header.map((name, i) => [name, fields[i] as string])), breaks };
  }
}

function columnsOf(fields: readonly string[], file: string, delimiter: string): readonly string[] {
  const names = fields.map((name) => name.trim());
  if (names.includes(""))
    throw new ProblemError(
      `${file}: the first line has a column without a name. Export it with a header, or as JSON lines.`,
    );
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined)
    throw new ProblemError(
      `${file}: two columns are named ${oneLine(twice)}. Rename one of them. Nothing was imported.`,
    );
  const other = [";", "\t", "|", ","].find((one) => one !== delimiter && names[0]?.includes(one));
  if (names.length === 1 && other !== undefined)
    throw new UsageError(
      `${file}: the first line has one column, ${oneLine(names[0] as string)}. If its columns are separated by "${shown(other)}", add: --delimiter ${other === "\t" ? "tab" : `"${other}"`}`,
    );
  return names;
}

function shown(delimiter: string): string {
  return delimiter === "\t" ? "tab" : delimiter;
}

/** Each with the line it begins on. The parser's own count takes a CRLF inside quotes for two lines. */
async function* csvRecords(chunks: AsyncIterable<string>, file: string, delimiter: string): AsyncIterable<CsvRecord> {
  // Loaded here, so that nothing but the import of a CSV file loads it.
  const { parse } = await import("csv-parse");
  let line = 1;
  let failure: Error | null = null;
  const ready: CsvRecord[] = [];
  const parser = parse({
    delimiter,
    raw: true,
    // The number of fields is compared with the header's by the caller, who knows the line.
    relax_column_count: true,
    // Given, because it would be guessed from the first line alone.
    record_delimiter: ["\r\n", "\n", "\r"],
    max_record_size: LONGEST_ROW,
    on_record: (found: unknown) => {
      const { record, raw } = found as { record: string[]; raw: string };
      const lines = linesIn(raw.replaceAll(/\r\n?/g, "\n"));
      ready.push({ fields: record, line, breaks: record.filter((field) => /[\r\n]/.test(field)).length });
      line += lines;
      return null;
    },
  });
  parser.on("error", (error) => {
    failure = error;
  });
  parser.resume();
  const settle = function* () {
    yield* ready.splice(0);
    if (failure !== null) throw csvError(failure, line, file);
  };
  for await (const chunk of chunks) {
    await new Promise<void>((done) => parser.write(chunk, () => done()));
    yield* settle();
  }
  await new Promise<void>((done) => parser.once("close", done).end());
  yield* settle();
}

function csvError(error: Error, line: number, file: string): ProblemError {
  const what: Record<string, string> = {
    CSV_QUOTE_NOT_CLOSED: "has a quote that is never closed",
    INVALID_OPENING_QUOTE:
      'has a quote inside a field that does not begin with one. Put the field in quotes and double those inside: "a ""b"" c"',
    CSV_INVALID_CLOSING_QUOTE:
      "has text behind a closing quote. Double the quotes inside a field, or close the quote of an earlier field",
    CSV_MAX_RECORD_SIZE: "is longer than 4 MB. A quote in it may never be closed",
  };
  const code = (error as { code?: string }).code ?? "";
  return new ProblemError(
    `${file}: the row that begins on line ${line} ${what[code] ?? `cannot be read (${oneLine(error.message)})`}. Nothing was imported.`,
    { cause: error },
  );
}
