import { oneLine } from "../term/text.ts";

/** One row of a file to import. */
export type Row = Readonly<Record<string, unknown>>;

export interface PlacedRow {
  /** The line it begins on, or its number in a JSON array. */
  readonly place: number;
  readonly row: Row;
  /** How many of its values have line breaks. */
  readonly breaks: number;
}

// Longer than any input may be. It also ends the search for a quote that is never closed.
export const LONGEST_ROW = 4 * 1024 * 1024;

export function linesIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

const MOST_COLUMNS = 20;

/** For errors about a column that is not there: those that are. */
export function columnsOf(row: Row): string {
  const names = Object.keys(row);
  const more = names.length > MOST_COLUMNS ? ` and ${names.length - MOST_COLUMNS} more` : "";
  return names.length === 0
    ? "The row has no columns."
    : `The columns are: ${names.slice(0, MOST_COLUMNS).map(oneLine).join(", ")}${more}.`;
}
