/** JSON of a command that is kept and given to others: they have to get what was written. */
import { parseForeignJson } from "../core/foreign-json.ts";
import { readJson } from "../core/strict-json.ts";

/** Throws a SyntaxError for what is not JSON, and a RangeError for what would be kept as something else. */
export function parseExactJson(text: string): unknown {
  const value = parseForeignJson(text);
  const reading = readJson(text);
  if (!reading.ok) throw new RangeError(reading.problem);
  if (reading.inexact !== null)
    throw new RangeError(
      `it has the number ${reading.inexact}, which JavaScript cannot hold exactly: another number would be kept. Write it as text`,
    );
  return value;
}
