import { resolve } from "node:path";
import { formatDuration } from "../../core/duration.ts";
import { leastKeepMs } from "../../core/keep.ts";
import type { State } from "../../core/record.ts";
import type { Command, Context } from "../command.ts";
import { EXIT, UsageError } from "../exit.ts";
import { plural } from "../format.ts";
import { Entries, type Entry } from "../import-entries.ts";
import { openSource, type SourceFile } from "../import-file.ts";
import { type Survey, survey } from "../import-survey.ts";
import { openTarget, type Target } from "../import-target.ts";
import { type Check, type Counts, checkRows, writeRecords } from "../import-write.ts";
import { storeToName } from "../ledger.ts";
import { endProgress, showProgress } from "../progress.ts";
import { oneLine } from "../text.ts";

export const importLedger: Command = {
  name: "import",
  summary: "import what was done before: JSON lines, JSON or CSV",
  usage: [
    "<file> --action <name> [--key <column>] [flags]",
    "<file> --action <name> --fields <columns> [flags]",
    "<file> --action <name> --actions <module> [--fields <columns>] [flags]",
    "<file> --action-column <column> [flags]",
  ],
  about:
    "For what was guarded by hand before: a JSONL file with a line per action, or a table exported as CSV or JSON. Each row becomes a record, so that nevertwice does not do again what is done.\nWith --key (or a column called idempotency_key, key or event_id) a row guards nt.once(action, [key], …). With --fields it guards an action whose key is those fields. With --actions the action itself says its key, and its schema the types; the ledger is that of the module's nevertwice().\nDone, sent, completed and the like become confirmed, with the row's result; failed becomes failed; in_progress, pending and the like may have happened and become unknown, for you to settle. A row without a status is done. Of several rows of one key, done wins. All rows are checked before any is written, and at the end the ledger is asked about each of them: exit code 1 says that some would not be repeats. Importing twice changes nothing, and no record is weakened.",
  flags: {
    action: { takes: "value", value: "name", about: "the action the rows belong to" },
    "action-column": { takes: "value", value: "column", about: "or the column that says so: action_type" },
    key: { takes: "value", value: "column", about: "the column that held your key" },
    fields: {
      takes: "values",
      value: "columns",
      about:
        "the fields that are the action's key, in its order, with commas: its other fields have to be in free; with --actions, its input",
    },
    actions: { takes: "value", value: "module", about: "an ES module that exports the action" },
    types: {
      takes: "values",
      value: "column=type",
      about:
        "what columns are, with commas: text, number, integer, boolean, json, timestamp (the text that toISOString() writes), date (a Date; never in a key)",
    },
    empty: { takes: "value", value: "what", about: "what an empty field of a CSV file is: null, absent or text" },
    delimiter: { takes: "value", value: "character", about: "between the columns of a CSV file: a comma unless given" },
    "status-column": { takes: "value", value: "column", about: "status unless given" },
    "time-column": {
      takes: "value",
      value: "column",
      about:
        "when it happened: sent_at, ts, created_at … unless given; ISO 8601 (UTC if it has no zone), or epoch seconds or milliseconds",
    },
    status: {
      takes: "values",
      value: "word=meaning",
      about: "what words of the status column mean, with commas: done, failed, unknown or not-done",
    },
    ignore: {
      takes: "values",
      value: "columns",
      about: "columns that are no status although they look like one, or a result that nobody wrote",
    },
    "done-wins": { takes: "nothing", about: "count a key as done where a later row says otherwise" },
    keep: { takes: "value", value: "duration", about: "how long the records guard: forever unless given" },
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
  readonly state: State | null;
  readonly keep: string;
}

interface Result {
  readonly source: SourceFile;
  readonly found: Survey;
  readonly counts: Counts;
  readonly samples: readonly Sample[];
  /** Null in a dry run. */
  readonly check: Check | null;
}

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const [file] = args.operands;
  if (file === undefined) throw new UsageError("import needs a file: nevertwice import ledger.jsonl --action publish");
  const source = openSource(resolve(io.cwd, file), file, args.text("delimiter"));
  const target = await openTarget(context, source);
  try {
    const result = await imported(context, source, target);
    const { counts, found, check, samples } = result;
    if (args.on("json")) {
      const { rows, withBreaks, contradictions, keys } = found;
      const dryRun = args.on("dry-run");
      context.json({ file, rows, keys: keys.size, dryRun, ...counts, withBreaks, contradictions, samples, check });
    } else report(context, result, args.on("actions") ? storeToName(target.store, io) : args.text("store"));
    return counts.damaged > 0 || (check?.unguarded ?? 0) > 0 ? EXIT.problem : EXIT.ok;
  } finally {
    endProgress(io);
    await target.close();
  }
}

async function imported(context: Context, source: SourceFile, target: Target): Promise<Result> {
  const { args, io } = context;
  const entries = new Entries(context, source, target);
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
      if (dryRun && samples.length < SAMPLES) samples.push(sampleOf(entry, state, entries.keepMs));
    },
  });
  const check = dryRun ? null : await checkRows(entries, found, target);
  return { source, found, counts, samples, check };
}

function sampleOf({ place, action, intent }: Entry, state: State | null, keepMs: number | null): Sample {
  const keep = keepMs === null ? "forever" : formatDuration(keepMs);
  const { key, parts } = intent;
  return { place, action, key, parts, types: parts.map(typeOf), state, keep };
}

function typeOf(part: unknown): string {
  if (part === null) return "null";
  return typeof part === "string" ? "text" : typeof part === "object" ? "json" : typeof part;
}

function report(context: Context, { source, found, counts, samples, check }: Result, store: string | undefined): void {
  const dry = context.args.on("dry-run");
  const { imported, strengthened, doubted, notDone, known, past, damaged, states, keepTooShort } = counts;
  const parts = Object.entries(states).map(([state, count]) => `${count} ${state}`);
  context.line(
    `${plural(found.rows, "row")}: ${plural(imported, "record")} ${dry ? "would be imported" : "imported"}${parts.length === 0 ? "" : ` (${parts.join(", ")})`}.`,
  );
  for (const { place, action, parts, types, state, keep } of samples)
    context.line(
      `  ${source.unit} ${place}: ${oneLine(action)} ${oneLine(JSON.stringify(parts))} (${types.join(", ")}): ${state === null ? "there already" : `${state}, kept ${keep === "forever" ? keep : `for ${keep}`}`}`,
    );
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
  if (check !== null) reportCheck(context, check, source);
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
  const forWhat = byColumns && fields.length > 0 ? ` for a call with exactly these fields: ${fields.join(", ")}` : "";
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
      ? "Your action was not read. Its key has to be these fields, in this order, and every other field of its input has to be in `free`: otherwise its calls run again or get a conflict. --actions <module> checks by the action itself."
      : "Checked for nt.once(action, [key], …). For an action of your program, --actions <module> checks by the action itself.",
  );
}
