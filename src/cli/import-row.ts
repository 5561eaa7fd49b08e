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
