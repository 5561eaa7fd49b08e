import { entryOf } from "../../core/entry-name.ts";
import { instantOf } from "../../core/store.ts";
import type { Forgotten } from "../../engine/forget.ts";
import { nevertwice } from "../../nevertwice.ts";
import type { Command, Context } from "../command.ts";
import { keyOperand, lookUp, notFound } from "../ledger/find-record.ts";
import { forgottenBefore, forgottenWords } from "../ledger/forgotten-words.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { actionLabel, type whoRunsIt } from "../ledger/standing.ts";
import { commandStillRuns } from "../resolve/objection.ts";
import { SIGNATURE_FLAGS, signatureOf } from "../signature.ts";
import { EXIT, ProblemError } from "../term/exit.ts";
import { plural, shortKey } from "../term/format.ts";
import { wrap } from "../term/text.ts";

export const forget: Command = {
  name: "forget",
  summary: "empty one record, for privacy or a fresh start: its intent may run again",
  usage: ["<key> --reason <why> [--even-in-doubt]"],
  about:
    "Input, draft, result, errors and history of the record are gone, and the next call runs it, whether or not it has happened. Who decided it, when and why is kept in a note for a year: show <key>. The rest of the row (action, tenant, scope, key) goes with the next sweep. Refused while an attempt is under way. A doubt may have happened: settle it with resolve, or say --even-in-doubt. A run is forgotten with its steps. Copies that the store keeps (SQLite's free pages and log, a JSONL file before its compaction, backups) are not reached.",
  flags: {
    "even-in-doubt": { about: "also where nobody knows whether it happened: it may happen twice" },
    ...SIGNATURE_FLAGS,
  },
  operands: 1,
  examples: [
    [`forget nt1_q3v0m2k8ab --reason "erasure asked for, ticket 12"`, "the record of one person"],
    [`forget nt1_q3v0m2k8ab --reason "trying it again"`, "in development: the next call runs"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args } = context;
  const key = keyOperand(context, "forget");
  const signature = signatureOf(context, `forget ${args.operands[0]} --reason "erasure asked for, ticket 12"`);
  const store = requireStore(context);
  const found = await lookUp(context, key);
  if (found === null) return forgottenAlready(context, key);
  const problem = commandStillRuns(found.record);
  if (problem !== null) throw new ProblemError(problem);
  const nt = nevertwice({ store, sweep: false });
  const forgotten = await nt.forget(
    { key: found.record.key },
    { ...signature, ...(args.on("even-in-doubt") && { evenInDoubt: true }) },
  );
  const next = whatFollows(context, found.record, forgotten);
  if (args.on("json")) {
    context.json({ ledger: ledgerJson(context.ledger()), ...forgotten, changed: true, next });
    return EXIT.ok;
  }
  context.line(`${actionLabel(found.record)} ${shortKey(forgotten.key)}: ${forgotten.was} → forgotten`);
  for (const line of wrap(next, context.width)) context.line(line);
  return EXIT.ok;
}

async function forgottenAlready(context: Context, key: string): Promise<number> {
  const before = await forgottenBefore(context, key);
  const entry = before?.entries.at(-1);
  if (before === null || entry === undefined) throw notFound(context, key);
  if (context.args.on("json")) {
    context.json({ ledger: ledgerJson(context.ledger()), key: before.key, ...entry, records: 0, changed: false });
    return EXIT.ok;
  }
  const { now } = instantOf(requireStore(context));
  context.line(`${shortKey(before.key)}: already ${forgottenWords(entry, now)}. Nothing was changed.`);
  return EXIT.ok;
}

function whatFollows(
  { suggest }: Context,
  record: Parameters<typeof whoRunsIt>[0],
  { was, records }: Forgotten,
): string {
  const steps = records > 1 ? ` ${plural(records - 1, "step")} went with it.` : "";
  const queued =
    record.queued && was === "pending"
      ? " It was queued, and is not run any more; what was behind it in its order goes on."
      : "";
  const again =
    entryOf(record.action).kind === "sequence"
      ? "Its sequence takes the step for one that is over."
      : `If it is asked for again, it runs${was === "confirmed" ? " a second time" : ""}. A program that has answered repeats of it from memory does so for up to a minute.`;
  return `Its payloads, errors and history are gone.${steps}${queued} ${again} The emptied row goes with the next sweep: ${suggest("sweep")}`;
}
