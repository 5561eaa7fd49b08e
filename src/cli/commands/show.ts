import { kindOfDoubt } from "../../core/doubt-cause.ts";
import { entryOf } from "../../core/entry-name.ts";
import { isTooDeep } from "../../core/foreign-json.ts";
import type { HistoryEntry, Instant, LedgerRecord, Payload } from "../../core/record.ts";
import { instantOf } from "../../core/store.ts";
import { isUnclassified, wayOut } from "../../core/way-out.ts";
import { runnerOf } from "../../schedule/slot-attempt.ts";
import type { Command, Context } from "../command.ts";
import { afterDeadRunner } from "../ledger/dead-runner.ts";
import { keyOperand, lookUp, notFound } from "../ledger/find-record.ts";
import { type ForgottenBefore, forgottenBefore, forgottenWords } from "../ledger/forgotten-words.ts";
import { kindOf } from "../ledger/kind-of-record.ts";
import { nextByItself } from "../ledger/next-by-itself.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { fullRecordJson, recordJson } from "../ledger/record-json.ts";
import { drawSteps, HELD, heldBy, heldWords, type ListedStep, stepsOfRun } from "../ledger/run-steps.ts";
import { actionLabel, leaseLeftMs, paintState, plainWords, standingOf } from "../ledger/standing.ts";
import { writtenAs } from "../once-more.ts";
import { commandStillRuns } from "../resolve/objection.ts";
import { EXIT } from "../term/exit.ts";
import { age, keepSpan, localIso, moment, shortKey } from "../term/format.ts";
import { renderTable } from "../term/table.ts";
import { oneLine, padEnd, visible, wrap } from "../term/text.ts";

export const show: Command = {
  name: "show",
  summary: "everything about one record, and what can be done about it",
  usage: ["<key>"],
  about:
    "For a person who has to decide: how the record stands, when what happened, the stored input and result, the history, and the commands that make sense now. What was sealed by `encrypt` is shown as (sealed): the command has no key for it.",
  flags: {},
  operands: 1,
  examples: [
    ["show nt1_q3v0m2k8ab", "any unique beginning of a key will do"],
    ["show nt1_q3v0m2k8ab --json | jq .record.input", "the whole stored input"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const key = keyOperand(context, "show");
  const store = requireStore(context);
  const at = instantOf(store);
  const found = await lookUp(context, key);
  const forgotten = await forgottenBefore(context, found?.record.key ?? key);
  if (found === null) return showForgotten(context, key, forgotten, at);
  const { record } = found;
  const steps = await stepsOfRun(store, record);
  const holding = await heldBy(store, record, at);
  const gone = afterDeadRunner(record, at, store);
  if (context.args.on("json")) {
    const drawn = steps.map(({ name, path, place, record: step }) => ({
      step: name,
      path,
      place,
      ...recordJson(step, at),
    }));
    const before = forgotten === null ? {} : { forgotten: forgotten.entries };
    const document = {
      ledger: ledgerJson(context.ledger()),
      record: { ...fullRecordJson(record, at), runnerGone: gone !== null },
      ...before,
    };
    const held = holding.length === 0 ? {} : { heldBy: holding.map(({ record: step }) => step.key) };
    context.json(steps.length === 0 ? document : { ...document, ...held, steps: drawn });
    return EXIT.ok;
  }
  const { bold } = context.paint;
  context.line(`${bold(actionLabel(record))}  ${record.key}`);
  context.line();
  for (const [name, text, paint] of facts(context, record, at, { holding, gone })) fact(context, name, text, paint);
  for (const entry of forgotten?.entries ?? [])
    fact(context, "before", `a record with this key was ${forgottenWords(entry, at.now)}`);
  // Of a slot it is the process that runs it, which is told above.
  const own = entryOf(record.action).kind === "job";
  for (const field of ["input", "draft", "result"] as const)
    if (!(own && field === "draft")) payload(context, field, record[field]);
  if (steps.length > 0) {
    context.line();
    context.line(bold("Steps"));
    for (const line of drawSteps(steps, at, context)) context.line(line);
  }
  history(context, record);
  const commands =
    holding.length > 0
      ? holding.flatMap((step) => settling(context, step, at))
      : gone === null
        ? sensible(context, record, at, await isTool(context, record))
        : [];
  if (commands.length > 0) context.line();
  for (const [what, line] of commands) {
    context.line(bold(what));
    context.line(`  ${context.suggest(line)}`);
  }
  if (standingOf(record, at).inDoubt && isUnclassified(record.why)) {
    context.line();
    for (const line of wrap(oneLine(wayOut(record.action, "unknown")), context.width)) context.line(line);
  }
  return EXIT.ok;
}

type Fact = readonly [name: string, text: string, paint?: (text: string) => string];

function facts(
  context: Context,
  record: LedgerRecord,
  at: Instant,
  { holding, gone }: { readonly holding: readonly ListedStep[]; readonly gone: string | null },
): Fact[] {
  const { paint } = context;
  const kind = kindOf(record, context.suggest);
  const { label: own, inDoubt } = standingOf(record, at);
  const label = holding.length > 0 ? HELD : own;
  const time = (ms: number) => moment(ms, at.now);
  const optional = (name: string, value: string | null): Fact[] => (value === null ? [] : [[name, value]]);
  const when = (name: string, ms: number | null) => optional(name, ms === null ? null : time(ms));
  const { error } = record;
  const held = `${heldWords(holding)}: it may or may not have happened. Settle the step, and the next call of the run goes on`;
  const words = gone === null ? plainWords(record, at) : `its runner is no longer running: ${gone}`;
  return [
    ...optional("record", kind?.what ?? null),
    ["state", label, paintState(label, paint)],
    ...optional("", kind?.runs === false ? null : holding.length > 0 ? held : words),
    ...optional("why", inDoubt ? oneLine(record.why ?? "its holder stopped answering after the send mark") : null),
    ...optional(
      "error",
      error === null
        ? null
        : oneLine(`${error.name}: ${error.message}${error.code === undefined ? "" : ` (${error.code})`}`),
    ),
    ...optional("tenant", record.tenant === "" ? null : oneLine(record.tenant)),
    ...optional("agent", record.agent === null ? null : oneLine(record.agent)),
    ...optional("scope", record.scope === null ? null : oneLine(record.scope)),
    ["attempt", `${record.attempt}${record.tries === record.attempt ? "" : `, ${record.tries} in this round`}`],
    ...optional("holder", holderWords(record, at, gone !== null)),
    ["created", time(record.createdAt)],
    ...when("due", record.dueAt),
    ...when("gives up", record.state === "confirmed" ? null : (record.terms?.givesUpAt ?? null)),
    ...when("expires", record.state === "confirmed" ? null : (record.terms?.notAfter ?? null)),
    ...sentTimes(record).flatMap(([name, ms]) => when(name, ms)),
    ...when("in doubt", record.doubtSince),
    ...when("settled", record.settledAt),
    ...optional("provider id", record.providerId === null ? null : oneLine(record.providerId)),
    ["keep", keepWords(record, at)],
  ];
}

/** When the effect may have left. A failed record keeps the times of tries that are known to have come to nothing. */
function sentTimes({ state, firstSentAt, lastSentAt }: LedgerRecord): [name: string, ms: number | null][] {
  if (state === "failed") return [];
  if (firstSentAt === lastSentAt) return [["sent", lastSentAt]];
  return [
    ["first sent", firstSentAt],
    ["last sent", lastSentAt],
  ];
}

function holderWords(record: LedgerRecord, at: Instant, gone: boolean): string | null {
  const left = leaseLeftMs(record, at);
  if (record.holder === null || left === null) return null;
  const runner = runnerOf(record);
  const process = runner === null ? oneLine(record.holder) : `process ${runner.pid}${gone ? ", which has ended" : ""}`;
  return `${process}, ${left > 0 ? `${age(left)} of its lease left` : "its lease is over"}`;
}

/** Nothing of the record is left but who forgot it. */
function showForgotten(context: Context, key: string, forgotten: ForgottenBefore | null, at: Instant): number {
  if (forgotten === null) throw notFound(context, key);
  if (context.args.on("json")) {
    const { key: full, entries } = forgotten;
    context.json({ ledger: ledgerJson(context.ledger()), record: null, key: full, forgotten: entries });
    return EXIT.ok;
  }
  const action = oneLine(forgotten.entries.at(-1)?.action ?? "");
  context.line(`${context.paint.bold(action)}  ${forgotten.key}`);
  context.line();
  for (const entry of forgotten.entries) fact(context, "forgotten", forgottenWords(entry, at.now));
  fact(context, "next", "there is no record with this key: if it is asked for again, it runs");
  return EXIT.ok;
}

function keepWords(record: LedgerRecord, at: Instant): string {
  if (record.settledAt === null) {
    return record.keepMs === null ? "forever once it is settled" : `${keepSpan(record.keepMs)} once it is settled`;
  }
  if (record.expiresAt === null) return "forever";
  const left = record.expiresAt - at.now;
  if (left <= 0) return `until ${moment(record.expiresAt, at.now)}`;
  return `until ${localIso(record.expiresAt)} (in ${keepSpan(left)})`;
}

const NAME_WIDTH = 12;

function fact({ line, width, paint }: Context, name: string, text: string, brush = (plain: string) => plain): void {
  const [first = "", ...rest] = wrap(text, Math.min(width, 110) - NAME_WIDTH);
  line(paint.dim(padEnd(name, NAME_WIDTH)) + brush(first));
  for (const more of rest) line(" ".repeat(NAME_WIDTH) + brush(more));
}

// A person reads a screen or two; --json has the rest.
const PAYLOAD_LINES = 40;
const PAYLOAD_COLUMNS = 1_000;

function payload(context: Context, name: string, stored: Payload | null): void {
  if (stored === null) return;
  const lines = payloadLines(stored);
  const compact = lines.map((line) => line.trim()).join(" ");
  if (compact.length <= context.width - NAME_WIDTH) {
    fact(context, name, compact);
    return;
  }
  context.line(context.paint.dim(name));
  for (const line of lines.slice(0, PAYLOAD_LINES)) {
    context.line(`  ${line.length > PAYLOAD_COLUMNS ? `${line.slice(0, PAYLOAD_COLUMNS)}…` : line}`);
  }
  if (lines.length > PAYLOAD_LINES) {
    context.line(`  … ${lines.length - PAYLOAD_LINES} more lines: --json shows them all`);
  }
}

function payloadLines(stored: Payload): string[] {
  if ("sealed" in stored) return ["(sealed)"];
  if ("omitted" in stored) return [`(not stored: ${oneLine(stored.omitted)})`];
  if (isTooDeep(stored.json)) return ["(nested too deeply to be shown)"];
  return JSON.stringify(JSON.parse(stored.json), null, 2).split("\n").map(visible);
}

function history({ line, paint, width }: Context, { action, history: entries }: LedgerRecord): void {
  if (entries.length === 0) return;
  const agents = entries.some(({ agent }) => agent !== undefined);
  const columns = [
    { title: "when" },
    { title: "event" },
    { title: "change" },
    { title: "try", align: "right" as const },
    ...(agents ? [{ title: "agent" }] : []),
    { title: "by and why", min: 14, wraps: true },
  ];
  const rows = entries.map((entry) => [
    localIso(entry.at).slice(0, 19),
    eventOf(entry, action),
    `${entry.from ?? "new"} → ${entry.to}`,
    String(entry.attempt),
    ...(agents ? [oneLine(entry.agent ?? "") || "-"] : []),
    [entry.by, entry.reason, entry.error]
      .filter((text) => text !== undefined)
      .map(oneLine)
      .join(": "),
  ]);
  line();
  line(paint.bold("History"));
  for (const text of renderTable(columns, rows, { width, paint })) line(text);
}

/** A run sends nothing itself: what its steps sent is in their own records. */
function eventOf({ event }: HistoryEntry, action: string): string {
  return event === "not-sent" && entryOf(action).kind === "run" ? "failed" : oneLine(event);
}

/** A run that a step holds goes on when that step is settled. */
function settling(
  context: Context,
  { name, path, record }: ListedStep,
  at: Instant,
): (readonly [what: string, line: string])[] {
  const step = oneLine([...path, name].join(" › "));
  return sensible(context, record, at).map(([what, line]) => [`Step ${step}: ${what}`, line]);
}

async function isTool(context: Context, record: LedgerRecord): Promise<boolean> {
  return record.state === "confirmed" && (await writtenAs(context, record)) === "tool";
}

/** The commands that make sense as the record stands. */
function sensible(
  context: Context,
  record: LedgerRecord,
  at: Instant,
  ofTool = false,
): (readonly [what: string, line: string])[] {
  const key = shortKey(record.key);
  const { inDoubt, expired } = standingOf(record, at);
  if (inDoubt && commandStillRuns(record) !== null) return [["Look again when its command has ended", `show ${key}`]];
  if (inDoubt && nextByItself(record, at) !== null) {
    return [
      ["It is done: settle it, and it is not run again", `resolve ${key} --done --reason '…'`],
      ["It must not be run again", `resolve ${key} --failed --reason '…'`],
    ];
  }
  if (inDoubt) {
    return [
      [
        "It happened: settle it, and say what a repeat is to get",
        `resolve ${key} --done --result '{"id":"…"}' --reason '…'`,
      ],
      ["It did not happen: let it run again", `resolve ${key} --not-done --reason '…'`],
      ["It did not happen, and must not be tried again", `resolve ${key} --failed --reason '…'`],
      [
        "Settle all doubts with the same error (this only shows which)",
        `resolve --group ${kindOfDoubt(record).id} --not-done`,
      ],
    ];
  }
  if (expired) return [["Remove what is past its keep", "sweep"]];
  if (record.state === "failed" && nextByItself(record, at) !== null) return [];
  if (record.state === "failed") return [["Bring it back", `retry ${key} --reason '…'`]];
  if (record.state === "confirmed") {
    // A module can export actions only.
    if (kindOf(record, context.suggest) !== null) return [];
    if (ofTool) return [["Grant one more run, to the next identical call of the tool", `resend ${key} --reason '…'`]];
    return [["Send it once more, on purpose", `resend ${key} --reason '…' --actions ./actions.js`]];
  }
  const leased = record.state === "claimed" || record.state === "sent";
  return leased ? [["Look again when its lease is over", `status ${key}`]] : [];
}
