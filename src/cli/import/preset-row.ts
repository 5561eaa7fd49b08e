/** A row of a known table, read by the columns that its pattern has. */

import { DEEPEST_JSON, isTooDeep } from "../../core/foreign-json.ts";
import { readJson } from "../../core/strict-json.ts";
import { TIME_FORMS } from "../instant.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import { columnsOf, type Row } from "./row.ts";
import { type End, endOf, howToMap, type Statuses, wordOf } from "./status.ts";
import { timeOf } from "./types.ts";

const NOT_JSON = "it is not JSON";

export class PresetRow {
  readonly #row: Row;
  readonly #statuses: Statuses;
  readonly #given: ReadonlyMap<string, End>;

  /** `given`: the words that the user has explained. */
  constructor(row: Row, statuses: Statuses, given: ReadonlyMap<string, End>) {
    this.#row = row;
    this.#statuses = statuses;
    this.#given = given;
  }

  get names(): readonly string[] {
    return Object.keys(this.#row);
  }

  has(column: string): boolean {
    return Object.hasOwn(this.#row, column);
  }

  /** Null where it is empty: a CSV file has no other way to write that. */
  value(column: string): unknown {
    const value = this.has(column) ? this.#row[column] : undefined;
    return value === undefined || value === "" ? null : value;
  }

  /** As text, which is what the table has. */
  text(column: string): string {
    const value = this.value(column);
    if (!this.has(column)) throw new UsageError(`there is no column ${oneLine(column)}. ${columnsOf(this.#row)}`);
    const text = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
    if (typeof text === "string" && text.trim() !== "") return text;
    throw new ProblemError(`the column ${oneLine(column)} is missing or blank.`);
  }

  /** JSON of a database as it is; of a CSV file or of SQLite, as text. */
  json(column: string): unknown {
    const value = this.value(column);
    if (typeof value !== "string") return value;
    if (isTooDeep(value))
      throw new ProblemError(`the ${oneLine(column)} is nested more than ${DEEPEST_JSON} levels deep.`);
    const reading = readJson(value);
    // As JSON only where nothing is lost by it: a long number stays text.
    return reading.ok && reading.inexact === null ? reading.value : value;
  }

  /** The input of queued work, exactly. */
  payload(column: string): Readonly<Record<string, unknown>> {
    const value = this.value(column);
    const reading = typeof value !== "string" ? null : isTooDeep(value) ? null : readJson(value);
    if (reading?.ok === true && reading.inexact !== null)
      throw new ProblemError(
        `the ${oneLine(column)} has the number ${oneLine(reading.inexact)}, which JavaScript cannot hold exactly: another number would be sent. Write it as text.`,
      );
    if (reading?.ok === false && reading.problem !== NOT_JSON)
      throw new ProblemError(`the ${oneLine(column)} cannot be used: ${reading.problem}.`);
    const found = reading === null ? value : reading.ok ? reading.value : null;
    if (typeof found === "object" && found !== null && !Array.isArray(found)) return found as Record<string, unknown>;
    throw new ProblemError(`the ${oneLine(column)} is not a JSON object, and a worker needs it to do the work.`);
  }

  time(column: string): number | null {
    const value = this.value(column);
    if (value === null) return null;
    const at = timeOf(value);
    if (at !== null) return at;
    throw new ProblemError(
      `the ${oneLine(column)} ${oneLine(JSON.stringify(value))} is not a time that can be read for certain. Write ${TIME_FORMS}.`,
    );
  }

  /** The first of these times that is there. */
  firstTime(...columns: readonly string[]): number | null {
    for (const column of columns) {
      const at = this.time(column);
      if (at !== null) return at;
    }
    return null;
  }

  status(column: string): { readonly as: End; readonly word: string } {
    const value = this.value(column);
    const end = value === null ? undefined : (endOf(value, this.#statuses) ?? this.#statuses.get("*"));
    if (end !== undefined) return end;
    if (value === null)
      throw new ProblemError(`the ${oneLine(column)} is empty, and says nothing about whether it happened.`);
    throw new ProblemError(
      `the ${oneLine(column)} ${oneLine(JSON.stringify(value))} does not say whether it happened. ${howToMap(value)}`,
    );
  }

  /** `known`: also by the words that mean something elsewhere, not only by those that the user has given. */
  statusOf(value: string, known: boolean): { readonly as: End; readonly word: string } | undefined {
    const word = wordOf(value);
    const isGiven = this.#given.has(word);
    return (known || isGiven ? this.#statuses.get(word) : undefined) ?? this.#statuses.get("*");
  }

  /** Whether the user has explained this word. */
  isGiven(word: string): boolean {
    return this.#given.has(word);
  }

  /** The columns that are none of these. */
  rest(...used: readonly string[]): Readonly<Record<string, unknown>> | undefined {
    const rest = Object.entries(this.#row).filter(([name]) => !used.includes(name));
    return rest.length === 0 ? undefined : Object.fromEntries(rest);
  }
}
