import { formatDuration } from "../../core/duration.ts";
import { leastKeepMs } from "../../core/keep.ts";
import type { State } from "../../core/record.ts";
import type { Command, Context } from "../command.ts";
import { EXIT } from "../exit.ts";
import { plural } from "../format.ts";
import { Entries, type Entry, type EntrySource } from "../import-entries.ts";
import type { SourceFile } from "../import-file.ts";
import { PresetEntries, presetOf } from "../import-preset-entries.ts";
import { PRESETS, type Preset } from "../import-presets.ts";
import { openRows } from "../import-source.ts";
import { type Survey, survey } from "../import-survey.ts";
import { openTarget, type Target } from "../import-target.ts";
import { type Check, type Counts, checkRows, writeRecords } from "../import-write.ts";
import { storeToName } from "../ledger.ts";
import { endProgress, showProgress } from "../progress.ts";
import { oneLine } from "../text.ts";

export const importLedger: Command = {
  name: "import",
  summary: "import what was done before: files, tables, keys of Redis",
  usage: [
    "--as <pattern> <file> [flags]",
    "--as <pattern> --from <database> [--table <name>] [flags]",
    "<file> --action <name> [--key <column>] [flags]",
    "<file> --action <name> --fields <columns> [flags]",
    "<file> --action <name> --actions <module> [--fields <columns>] [flags]",
    "<file> --action-column <column> [flags]",
  ],
  about:
    "For what was guarded by hand before: a JSONL file with a line per action, or a table, exported as CSV or JSON or read from its database. Where they follow a known pattern, --as says all of the rest (docs/moving-in.md). Each row becomes a record, so that nevertwice does not do again what is done.\nWith --key (or a column called idempotency_key, key or event_id) a row guards nt.once(action, [key], …). With --fields it guards an action whose key is those fields. With --actions the action itself says its key, and its schema the types; the ledger is that of the module's nevertwice().\nDone, sent, completed and the like become confirmed, with the row's result (without one a repeat runs nothing, and action() throws RESULT_UNAVAILABLE, unless --void says that there is none); failed becomes failed; in_progress, pending and the like may have happened and become unknown, for you to settle; false is not done. A row without a status is done, unless its result or its time of completion is empty. A column that looks like a status and is not read as one is refused. Of several rows of one key, done wins. All rows are checked before any is written, and at the end the ledger is asked about each of them: exit code 1 says that some would not be repeats. Importing twice changes nothing, and no record is weakened.",
  flags: {
    as: {
      takes: "value",
      value: "pattern",
      about: `what the rows are, where their pattern is known: ${PRESETS.map(({ name }) => name).join(", ")}. It says which columns are what; --action, --action-column, --key, --status-column and --time-column say otherwise`,
    },
    from: {
      takes: "value",
      value: "database",
      about: "instead of a file: postgres://…, sqlite:app.db or redis://…, read-only and in one snapshot",
    },
    "from-env": {
      takes: "value",
      value: "variable",
      about: "the environment variable with that address, password and all",
    },
    table: { takes: "value", value: "name", about: "the table of --from, default: that of the pattern" },
    match: { takes: "value", value: "keys", about: "of --as redis-set-nx: the keys, a prefix and one star: 'email:*'" },
    sequence: {
      takes: "value",
      value: "name",
      about: "of --as s1-drip: the name that your program gives to nt.sequence()",
    },
    steps: {
      takes: "values",
      value: "steps",
      about:
        "of --as s1-drip: the steps in their order, with commas, where the columns are not <step>_sent: welcome_sent=hello",
    },
    source: { takes: "value", value: "name", about: "of --as s1-events: who sent the events, default: stripe" },
    action: { takes: "value", value: "name", about: "the action the rows belong to" },
    "action-column": { takes: "value", value: "column", about: "or the column that says so: action_type" },
    key: { takes: "value", value: "column", about: "the column that held your key" },
    fields: {
      takes: "values",
      value: "columns",
      about: "the fields that are the action's key, in its order, with commas; with --actions, its input",
    },
    actions: { takes: "value", value: "module", about: "an ES module that exports the action" },
    types: {
      takes: "values",
      value: "column=type",
      about:
        "what columns are, with commas: text, number, integer, boolean, json, timestamp (the text that toISOString() writes), date (a Date; never in a key)",
    },
    empty: { takes: "value", value: "what", about: "what an empty field of a CSV file is: null, absent or text" },
    delimiter: { takes: "value", value: "character", about: "between the columns of a CSV file, default: a comma" },
    "status-column": { takes: "value", value: "column", about: "default: status" },
    "time-column": {
      takes: "value",
      value: "column",
      about:
        "when it happened, default: sent_at, ts, created_at …; ISO 8601 (UTC if it has no zone), or epoch seconds or milliseconds",
    },
    status: {
      takes: "values",
      value: "word=meaning",
      about: "what words of the status mean, with commas: done, failed, unknown, not-done, and of an outbox queued",
    },
    ignore: {
      takes: "values",
      value: "columns",
      about: "columns that are no status although they look like one, or a result that nobody wrote",
    },
    void: {
      takes: "nothing",
      about: "what the rows did returns nothing: a repeat of a row without a result gets undefined",
    },
    "done-wins": { takes: "nothing", about: "count a key as done where a later row says otherwise" },
    keep: { takes: "value", value: "duration", about: "how long the records guard, default: forever" },
    "secret-env": { takes: "value", value: "variable", about: "the environment variable with nevertwice({ secret })" },
    "encrypt-env": {
      takes: "value",
      value: "variable",
      about: "the environment variable with nevertwice({ encrypt }): a key, or several with commas, the newest first",
    },
    "dry-run": { takes: "nothing", about: "check the file, show ten rows as they would be keyed, and write nothing" },
  },
  operands: 1,
  operand: "file",
  examples: [
    ["import action-ledger.jsonl --action publish_blog_post", "a ledger of lines with key, ts and status"],
    ["import agent_actions.csv --action-column action_type", "a table with idempotency_key and action_type"],
    [
      "import sends.csv --action send_followup --fields lead_id,template,day --types lead_id=number",
      "a table whose columns are the key",
    ],
    ["import sends.csv --action send_followup --actions ./dist/actions.js --dry-run", "by the action itself"],
    [
      "import --as s0-outbox --from-env DATABASE_URL --dry-run",
      "an outbox table of PostgreSQL: what is pending is queued",
    ],
    [
      "import --as redis-set-nx --from redis://localhost --match 'email:*' --action send_email",
      "keys of Redis, kept for as long as they have left",
    ],
  ],
  run,
};

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

async function run(context: Context): Promise<number> {
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
