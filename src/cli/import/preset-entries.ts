/** The rows of a known pattern (--as) as past attempts of intents. */

import { createHash } from "node:crypto";
import { canonicalInput } from "../../core/key/canonical.ts";
import { nearest } from "../../core/nearest.ts";
import type { PastAttempt } from "../../engine/past.ts";
import { DEFAULT_LIMITS } from "../../engine/payloads.ts";
import type { Args } from "../args.ts";
import type { Context } from "../command.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import { atPlace, type Entry, type EntrySource, keepMsOf } from "./entries.ts";
import type { SourceFile } from "./file.ts";
import { PresetRow } from "./preset-row.ts";
import { isPresetColumn, KEY_COLUMNS, PRESETS, type Preset, type PresetFlags, renamed } from "./presets.ts";
import type { Reading } from "./reading.ts";
import { columnsOf, type PlacedRow, type Row } from "./row.ts";
import { type End, type Statuses, statusesWith, statusMap } from "./status.ts";
import { refuseUnexplained } from "./status-column.ts";
import type { Target } from "./target.ts";

const ONLY: Readonly<Record<string, readonly string[]>> = {
  sequence: ["s1-drip"],
  steps: ["s1-drip"],
  source: ["s1-events"],
  match: ["redis-set-nx"],
};
// Presets say these by themselves.
const TAKEN = ["fields", "types", "empty"];

/** Null: no --as was given. */
export function presetOf({ args }: Context): Preset | null {
  const name = args.text("as");
  const stray = Object.entries(ONLY).find(([flag, names]) => args.on(flag) && !names.includes(name ?? ""));
  if (stray !== undefined)
    throw new UsageError(`--${stray[0]} is for --as ${stray[1].join(" and --as ")}. Leave it out, or add that.`);
  if (name === undefined) return null;
  const preset = PRESETS.find((one) => one.name === name);
  if (preset === undefined) {
    const names = PRESETS.map((one) => one.name);
    const meant = nearest(name, names);
    throw new UsageError(
      `--as ${oneLine(name)}: there is no such pattern.${meant === null ? "" : ` Did you mean ${meant}?`} The patterns are: ${names.join(", ")}.`,
    );
  }
  const taken = TAKEN.find((flag) => args.on(flag));
  if (taken !== undefined)
    throw new UsageError(
      `--${taken} and --as do not go together: the pattern ${name} says what its columns are. Leave --${taken} out.`,
    );
  return preset;
}

function flagsOf(args: Args): PresetFlags {
  return {
    key: args.text("key"),
    action: args.text("action"),
    actionColumn: args.text("action-column"),
    status: args.text("status-column"),
    time: args.text("time-column"),
    sequence: args.text("sequence"),
    source: args.text("source"),
    steps: args.list("steps"),
  };
}

export class PresetEntries implements EntrySource {
  readonly #preset: Preset;
  readonly #source: SourceFile;
  readonly #target: Target;
  readonly #flags: PresetFlags;
  readonly #ignored: readonly string[];
  readonly #given: ReadonlyMap<string, End>;
  readonly #statuses: Statuses;
  readonly keepMs: number | null;
  readonly #keepGiven: boolean;
  readonly #isVoid: boolean;
  /** What the report has to say, and about how many rows. Of the last time that the rows were read. */
  readonly notes = new Map<string, number>();

  constructor(context: Context, preset: Preset, source: SourceFile, target: Target) {
    const { args } = context;
    this.#preset = preset;
    this.#source = source;
    this.#target = target;
    this.#flags = flagsOf(args);
    this.#ignored = args.list("ignore");
    this.#given = statusMap(args.list("status"), preset.outbox);
    this.#statuses = statusesWith(new Map([...preset.words, ...this.#given]));
    this.keepMs = keepMsOf(context);
    this.#keepGiven = args.on("keep");
    this.#isVoid = args.on("void");
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Entry> {
    this.notes.clear();
    for await (const placed of this.#source.rows()) {
      const readings = this.#read(placed);
      for (const reading of readings) {
        if (reading.note !== undefined) this.notes.set(reading.note, (this.notes.get(reading.note) ?? 0) + 1);
        yield await this.#entry(placed, reading);
      }
    }
  }

  #read({ row, place }: PlacedRow): readonly Reading[] {
    try {
      const missing = this.#preset.needs.find((column) => !Object.hasOwn(row, this.#renamed(column)));
      if (missing !== undefined)
        throw new UsageError(
          `the pattern ${this.#preset.name} has a column ${oneLine(this.#renamed(missing))}, and this row has none. ${columnsOf(row)}`,
        );
      const readings = this.#preset.read(new PresetRow(row, this.#statuses, this.#given), this.#flags);
      refuseUnexplained(row, this.#explained(row));
      return readings;
    } catch (error) {
      throw atPlace(error, this.#source, place, this.#which(row));
    }
  }

  #explained(row: Row): string[] {
    const own = Object.keys(row).filter((column) => isPresetColumn(this.#preset, column, this.#flags));
    const { key, actionColumn, status, time } = this.#flags;
    return [...own, ...this.#ignored, ...[key, actionColumn, status, time].filter((one) => one !== undefined)];
  }

  #renamed(column: string): string {
    return renamed(column, this.#flags.key, this.#flags.status);
  }

  /** How the row can be found in its table, whose rows have no numbers. */
  #which(row: Row): string {
    const column = KEY_COLUMNS.map((name) => this.#renamed(name)).find((name) => Object.hasOwn(row, name));
    if (this.#source.unit !== "row" || column === undefined) return "";
    const { order } = this.#preset;
    const by = order.length === 0 ? "" : `, counted in the order of ${order.join(", ")}`;
    return ` It is the row with ${oneLine(column)} ${oneLine(JSON.stringify(row[column])).slice(0, 100)}${by}.`;
  }

  async #entry({ row, place, breaks }: PlacedRow, reading: Reading): Promise<Entry> {
    const { action, as, word, at, input, keepMs } = reading;
    try {
      if (input !== undefined && as !== "done") requireFitting(input);
      const intent = await this.#target.intentOfReading(reading);
      const past: PastAttempt = {
        as: as === "not-done" ? "failed" : as,
        at,
        // What Redis would have forgotten by then is forgotten here too, unless the user says otherwise.
        keepMs: keepMs === undefined || this.#keepGiven ? this.keepMs : keepMs,
        ...(reading.why !== undefined && { why: reading.why }),
        ...(as === "done" && { result: reading.result, isVoid: this.#isVoid || reading.isVoid === true }),
        ...(as === "failed" && { error: reading.error ?? "" }),
        ...(as === "queued" && { dueAt: reading.dueAt ?? null }),
        queued: input !== undefined,
      };
      const end = { as, word, place, at, ...(input !== undefined && as !== "done" && { input: digestOf(input) }) };
      return { place, action, intent, end, past, breaks };
    } catch (error) {
      throw atPlace(error, this.#source, place, this.#which(row));
    }
  }
}

/** Short: it is held in memory for each key. */
function digestOf(input: object): string {
  return createHash("sha256").update(canonicalInput(input, "payload")).digest("base64url").slice(0, 22);
}

/** What fits no record could not be run by a worker. */
function requireFitting(input: object): void {
  const bytes = Buffer.byteLength(JSON.stringify(input));
  if (bytes <= DEFAULT_LIMITS.inputBytes) return;
  throw new ProblemError(
    `its payload has ${bytes} bytes, and the input of queued work may have ${DEFAULT_LIMITS.inputBytes}. Send it with your old worker first, or store what is large elsewhere.`,
  );
}
