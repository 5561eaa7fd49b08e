/** The rows of a file as past attempts of intents. */

import { type Duration, durationMs } from "../../core/duration.ts";
import { isNevertwiceError } from "../../core/errors.ts";
import { DEEPEST_JSON, isTooDeep } from "../../core/foreign-json.ts";
import { readJson } from "../../core/strict-json.ts";
import type { PastAttempt, PastIntent } from "../../engine/past.ts";
import type { Context } from "../command.ts";
import { TIME_FORMS } from "../instant.ts";
import { asUsage, ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import type { SourceFile } from "./file.ts";
import { columnsOf, type PlacedRow, type Row } from "./row.ts";
import { endOf, howToMap, type RowEnd, STATUS_WORDS, type Statuses, statusesWith, statusMap } from "./status.ts";
import { refuseUnexplained } from "./status-column.ts";
import type { Target } from "./target.ts";
import { converted, timeOf } from "./types.ts";

export interface Entry {
  readonly place: number;
  readonly action: string;
  readonly intent: PastIntent;
  readonly end: RowEnd;
  /** The attempt as this row tells it. */
  readonly past: PastAttempt;
  readonly breaks: number;
}

const TIME_COLUMNS = [
  "sent_at",
  "completed_at",
  "processed_at",
  "finished_at",
  "ts",
  "updated_at",
  "created_at",
  "started_at",
  "started",
];
// Of these, the ones that are written when it has happened.
const END_COLUMNS = ["sent_at", "completed_at", "processed_at", "finished_at"];
const NOT_IN_RESULT = ["key", "status", "ts", "idempotency_key"];

/** What is read several times: to check, to write, and to ask the ledger. */
export interface EntrySource extends AsyncIterable<Entry> {
  /** How long the records are kept where a row does not say; null: forever. */
  readonly keepMs: number | null;
}

export function keepMsOf({ args }: Context): number | null {
  const keep = args.text("keep");
  return keep === undefined || keep === "forever" ? null : asUsage(() => durationMs(keep as Duration, "--keep"));
}

/** What is wrong with a row, with its place. `which`: how else it can be found. */
export function atPlace(error: unknown, { name, unit }: SourceFile, place: number, which = ""): unknown {
  // CONFIG is about what the flags say, such as the name of the action.
  const isFlag = error instanceof UsageError || (isNevertwiceError(error) && error.code === "CONFIG");
  if (!isFlag && !(error instanceof ProblemError) && !isNevertwiceError(error)) return error;
  const message = `${name}, ${unit} ${place}: ${error.message} Nothing was imported.${which}`;
  return isFlag ? new UsageError(message, { cause: error }) : new ProblemError(message, { cause: error });
}

export class Entries implements EntrySource {
  readonly #context: Context;
  readonly #source: SourceFile;
  readonly #target: Target;
  readonly #ignored: readonly string[];
  readonly #statuses: Statuses;
  readonly keepMs: number | null;

  constructor(context: Context, source: SourceFile, target: Target) {
    this.#context = context;
    this.#source = source;
    this.#target = target;
    this.#ignored = context.args.list("ignore");
    this.#statuses = statusesWith(statusMap(context.args.list("status"), false));
    this.keepMs = keepMsOf(context);
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Entry> {
    for await (const row of this.#source.rows()) yield await this.#entry(row);
  }

  async #entry(placed: PlacedRow): Promise<Entry> {
    const { place, row, breaks } = placed;
    try {
      const { action, intent, columns } = await this.#target.intentOf(placed);
      const time = this.#timeOf(row);
      refuseUnexplained(row, [...columns, this.#statusColumn, ...this.#ignored]);
      const end = { ...this.#endOf(row), place, at: time?.at ?? null };
      const used = [...columns, ...this.#ignored, this.#statusColumn, ...(time === null ? [] : [time.column])];
      const past: PastAttempt = {
        as: end.as === "not-done" ? "failed" : end.as,
        at: end.at,
        keepMs: this.keepMs,
        ...(end.as === "done" && { result: this.#resultOf(row, used), isVoid: this.#context.args.on("void") }),
        ...(end.as === "failed" && { error: errorOf(row) }),
        ...(end.as === "doubt" &&
          end.word === "" && { why: `imported with an empty ${this.#unfinished(row)}: it may have happened` }),
      };
      return { place, action, intent, end, past, breaks };
    } catch (error) {
      throw atPlace(error, this.#source, place);
    }
  }

  get #statusColumn(): string {
    return this.#context.args.text("status-column") ?? "status";
  }

  #endOf(row: Row): Pick<RowEnd, "as" | "word"> {
    const { args } = this.#context;
    const column = this.#statusColumn;
    if (!Object.hasOwn(row, column) && !args.on("status-column"))
      return { as: this.#unfinished(row) === undefined ? "done" : "doubt", word: "" };
    const end = endOf(row[column], this.#statuses);
    if (end !== undefined) return end;
    throw new ProblemError(
      `the ${oneLine(column)} ${JSON.stringify(row[column])} does not say whether it happened. Known are: ${STATUS_WORDS.join(", ")}. ${howToMap(row[column])}`,
    );
  }

  /** Without a status, what is written at the end must be there: claimed and not finished is not done. */
  #unfinished(row: Row): string | undefined {
    const named = this.#context.args.text("time-column");
    const ends = ["result", ...END_COLUMNS].filter((column) => column !== named && !this.#ignored.includes(column));
    return ends.find((column) => Object.hasOwn(row, column) && (row[column] === null || row[column] === ""));
  }

  #timeOf(row: Row): { readonly at: number; readonly column: string } | null {
    const named = this.#context.args.text("time-column");
    if (named !== undefined && !Object.hasOwn(row, named))
      throw new UsageError(`there is no column ${oneLine(named)} (--time-column). ${columnsOf(row)}`);
    const columns = named === undefined ? TIME_COLUMNS.filter((one) => !this.#ignored.includes(one)) : [named];
    for (const column of columns) {
      const value = Object.hasOwn(row, column) ? row[column] : undefined;
      if (value === undefined || value === null || value === "") continue;
      const at = timeOf(value);
      if (at !== null) return { at, column };
      throw new ProblemError(
        `the ${oneLine(column)} ${JSON.stringify(value)} is not a time that can be read for certain. Write ${TIME_FORMS}.`,
      );
    }
    return null;
  }

  /** The result as it was kept; without a column of that name, the columns that were not `used` for something else. */
  #resultOf(row: Row, used: readonly string[]): unknown {
    const { types } = this.#target;
    if (!Object.hasOwn(row, "result") || this.#ignored.includes("result")) {
      const rest = Object.entries(row).filter(([name]) => !NOT_IN_RESULT.includes(name) && !used.includes(name));
      return rest.length === 0 ? undefined : Object.fromEntries(rest);
    }
    const { result } = row;
    if (result === null || result === "") return undefined;
    const type = types.get("result");
    if (type !== undefined) return converted(result, type, "result");
    if (typeof result !== "string") return result;
    if (isTooDeep(result)) throw new ProblemError(`the result is nested more than ${DEEPEST_JSON} levels deep.`);
    // As JSON only where nothing is lost by it: a long number stays text.
    const reading = readJson(result);
    return reading.ok && reading.inexact === null ? reading.value : result;
  }
}

function errorOf(row: Row): string {
  const error = row.error ?? row.error_detail ?? row.error_message;
  return typeof error === "string" && error !== "" ? error : "it failed before it was imported";
}
