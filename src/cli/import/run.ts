/** What `nevertwice import` does: reads the rows, surveys them, writes the records, asks the ledger about each, reports. */
import { formatDuration } from "../../core/duration.ts";
import { leastKeepMs } from "../../core/keep.ts";
import type { State } from "../../core/record.ts";
import type { Context } from "../command.ts";
import { storeToName } from "../ledger/open.ts";
import { EXIT } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { oneLine } from "../term/text.ts";
import { Entries, type Entry, type EntrySource } from "./entries.ts";
import type { SourceFile } from "./file.ts";
import { PresetEntries, presetOf } from "./preset-entries.ts";
import type { Preset } from "./presets.ts";
import { openRows } from "./source.ts";
import { type Survey, survey } from "./survey.ts";
import { openTarget, type Target } from "./target.ts";
import { type Check, type Counts, checkRows, writeRecords } from "./write.ts";

const SAMPLES = 10;

interface Sample {
  readonly place: number;
  readonly action: string;
  readonly key: string;
  readonly parts: readonly unknown[];
  readonly types: readonly string[];
  /** Null: there is a record already, and it stays as it is. */
  readonly state: State | "not-done" | null;
  /** Why it is in doubt; null: it is not. */
  readonly why: string | null;
  readonly keep: string;
}

interface Result {
  readonly source: SourceFile;
  readonly found: Survey;
  readonly counts: Counts;
  readonly samples: readonly Sample[];
  /** Null in a dry run. */
  readonly check: Check | null;
  readonly notes: readonly string[];
}

export async function runImport(context: Context): Promise<number> {
  const preset = presetOf(context);
  const { source, notes } = await openRows(context, preset);
  try {
    return await importRows(context, preset, source, notes);
  } finally {
    await source.close();
  }
}

async function importRows(
  context: Context,
  preset: Preset | null,
  source: SourceFile,
  sourceNotes: readonly string[],
): Promise<number> {
  const { args, io } = context;
  const target = await openTarget(context, source, preset);
  try {
    const entries =
      preset === null ? new Entries(context, source, target) : new PresetEntries(context, preset, source, target);
    const result = await imported(context, source, target, entries, sourceNotes);
    const { counts, found, check, samples, notes } = result;
    if (args.on("json")) {
      const { rows, withBreaks, contradictions, keys } = found;
      const about = { file: source.name, as: preset?.name ?? null, rows, keys: keys.size, dryRun: args.on("dry-run") };
      context.json({ ...about, ...counts, withBreaks, contradictions, samples, check, notes });
    } else report(context, result, args.on("actions") ? storeToName(target.store, io) : args.text("store"));
    return counts.damaged > 0 || (check?.unguarded ?? 0) > 0 ? EXIT.problem : EXIT.ok;
  } finally {
    endProgress(io);
    await target.close();
  }
}

async function imported(
  context: Context,
  source: SourceFile,
  target: Target,
  entries: EntrySource,
  sourceNotes: readonly string[],
): Promise<Result> {
  const { args, io } = context;
  const found = await survey(entries, source, args.on("done-wins"), (rows) =>
    showProgress(io, `checking: ${rows} rows …`),
  );
  target.checkTypes();
  const dryRun = args.on("dry-run");
  const samples: Sample[] = [];
  const counts = await writeRecords(entries, found, {
    target,
    dryRun,
    onProgress: (done) => showProgress(io, `${done} of ${found.keys.size} …`),
    onPlan: (entry, state) => {
      if (dryRun && samples.length < SAMPLES) samples.push(sampleOf(entry, state));
    },
  });
  const check = dryRun ? null : await checkRows(entries, found, target);
  const own = entries instanceof PresetEntries ? [...entries.notes] : [];
  const notes = [...own.map(([note, count]) => note.replace("{count}", String(count))), ...sourceNotes];
  return { source, found, counts, samples, check, notes };
}

function sampleOf({ place, action, intent, past }: Entry, state: Sample["state"]): Sample {
  const keep = past.keepMs === null ? "forever" : formatDuration(rounded(past.keepMs));
  const { key, parts } = intent;
  const why = state === "unknown" ? (past.why ?? null) : null;
  return { place, action, key, parts, types: parts.map(typeOf), state, why, keep };
}

const [SECOND, HOUR] = [1_000, 3_600_000];

/** What a key of Redis has left is a number of milliseconds that nobody wants to read. */
function rounded(ms: number): number {
  const unit = ms > HOUR ? 60 * SECOND : ms > SECOND ? SECOND : 1;
  return Math.round(ms / unit) * unit;
}

function becomes({ state, why, keep }: Sample): string {
  if (state === null) return "there already";
  if (state === "not-done") return "not done, no record";
  const kept = `kept ${keep === "forever" ? keep : `for ${keep}`}`;
  return state === "pending"
    ? `queued for a worker, ${kept}`
    : `${state}, ${kept}${why === null ? "" : ` (${oneLine(why)})`}`;
}

function typeOf(part: unknown): string {
  if (part === null) return "null";
  return typeof part === "string" ? "text" : typeof part === "object" ? "json" : typeof part;
}

function report(
  context: Context,
  { source, found, counts, samples, check, notes }: Result,
  store: string | undefined,
): void {
  const dry = context.args.on("dry-run");
  const { imported, strengthened, doubted, notDone, known, confirmedAgainst, past, damaged, states, keepTooShort } =
    counts;
  const parts = Object.entries(states).map(([state, count]) => `${count} ${state}`);
  context.line(
    `${plural(found.rows, "row")}: ${plural(imported, "record")} ${dry ? "would be imported" : "imported"}${parts.length === 0 ? "" : ` (${parts.join(", ")})`}.`,
  );
  for (const sample of samples) {
    const { place, action, parts, types } = sample;
    context.line(
      `  ${source.unit} ${place}: ${oneLine(action)} ${oneLine(JSON.stringify(parts))} (${types.join(", ")}): ${becomes(sample)}`,
    );
  }
  if (strengthened > 0)
    context.line(
      `${plural(strengthened, "record was", "records were")} failed or in doubt, and ${dry ? "would be" : strengthened === 1 ? "is" : "are"} confirmed now.`,
    );
  if (doubted > 0)
    context.line(
      `${plural(doubted, "record was", "records were")} to be run next, and ${dry ? "would be" : doubted === 1 ? "is" : "are"} in doubt now: a newer row says that it may have happened.`,
    );
  if (notDone > 0)
    context.line(
      `${plural(notDone, "row is", "rows are")} not done: there is no record of ${notDone === 1 ? "it" : "them"}, and a call runs.`,
    );
  if (known > 0)
    context.line(
      `${plural(known, "record was", "records were")} there already, and ${known === 1 ? "stays" : "stay"} as ${known === 1 ? "it is" : "they are"}.`,
    );
  if (confirmedAgainst > 0)
    context.line(
      confirmedAgainst === 1
        ? "1 row says failed, its record says confirmed; left as it is."
        : `${confirmedAgainst} rows say failed, their records say confirmed; left as they are.`,
    );
  if (damaged > 0)
    context.line(
      `${plural(damaged, "record is", "records are")} there and cannot be read: left as ${damaged === 1 ? "it is" : "they are"}. See: ${context.suggest("doctor", store)}`,
    );
  if (past > 0)
    context.line(
      `${plural(past, "row is", "rows are")} past --keep: left out. A sweep would remove ${past === 1 ? "its record" : "their records"} at once, and a call would run.`,
    );
  if (keepTooShort !== null) context.line(tooShort(context.args.text("keep") as string, keepTooShort));
  if (found.contradictions > 0)
    context.line(
      `${plural(found.contradictions, "key")} ${found.contradictions === 1 ? "has" : "have"} a later row that is not done: counted as done (--done-wins).`,
    );
  if (found.withBreaks > 0)
    context.line(
      `${plural(found.withBreaks, "row has", "rows have")} line breaks in a value, the first on line ${found.firstBreak}. If no value has any, a quote is missing there.`,
    );
  for (const note of notes) context.line(note);
  if (check !== null) reportCheck(context, check, source);
  if ((states.pending ?? 0) > 0)
    context.line(
      `\n${plural(states.pending ?? 0, "record")} ${dry ? "would wait" : states.pending === 1 ? "waits" : "wait"} for a worker. Stop your old worker before you start one: nt.worker(), or nevertwice worker --actions <module>`,
    );
  if ((states.unknown ?? 0) > 0 && !dry)
    context.line(`\nSettle what may have happened:\n  ${context.suggest("ls --doubt", store)}`);
}

/** The same rule as for the keep of an action. */
function tooShort(keep: string, { rows, windowMs }: NonNullable<Counts["keepTooShort"]>): string {
  const [length, least] = [windowMs, leastKeepMs(windowMs)].map(formatDuration);
  return `KEEP_SHORTER_THAN_WINDOW: ${plural(rows, "key has", "keys have")} a window of up to ${length}, and --keep is ${keep}. Such records are kept until their window can no longer be asked for. Give --keep ${least} or more.`;
}

function reportCheck(context: Context, check: Check, { unit }: SourceFile): void {
  const { repeats, inDoubt, failed, queued, unguarded, shown } = check;
  const byColumns = !context.args.on("actions");
  const fields = context.args.list("fields").map(oneLine);
  const forWhat = byColumns && fields.length > 0 ? ` for a call whose key is these fields: ${fields.join(", ")}` : "";
  const parts = [`${plural(repeats, "row")} would be ${repeats === 1 ? "a repeat" : "repeats"}${forWhat}`];
  if (inDoubt > 0) parts.push(`${inDoubt} in doubt, not run`);
  if (queued > 0) parts.push(`${queued} queued for a worker`);
  if (failed > 0) parts.push(`${failed} ${failed === 1 ? "is" : "are"} not done, may be tried again`);
  context.line(`Checked: ${parts.join("; ")}${unguarded === 0 ? "." : `; ${unguarded} NOT guarded:`}`);
  for (const { place, why } of shown) context.line(`  ${unit} ${place}: ${why}`);
  if (unguarded > shown.length) context.line(`  … and ${unguarded - shown.length} more`);
  // Only the action knows its key, the order of its parts, and which other fields a call compares.
  if (!byColumns) return;
  context.line(
    fields.length > 0
      ? "Your action was not read. Its key has to be these fields, in this order: otherwise its calls run again. --actions <module> checks by the action itself."
      : "Checked for calls whose key is these parts: nt.once(action, [key], …), or an action with key: (input) => [key]. For an action of your program, --actions <module> checks by the action itself.",
  );
}
