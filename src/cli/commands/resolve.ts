import { resolve as resolvePath } from "node:path";
import { messageOf } from "../../core/errors.ts";
import { parseForeignJson } from "../../core/foreign-json.ts";
import { lacksResult } from "../../core/kept-result.ts";
import { digestKeyId } from "../../core/key/fingerprint.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Stored } from "../../core/store.ts";
import { nevertwice } from "../../nevertwice.ts";
import type { Command, Context } from "../command.ts";
import { readText } from "../import/foreign-text.ts";
import { findRecord } from "../ledger/find-record.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { outcomeJson } from "../ledger/record-json.ts";
import { heldBy, heldProblem } from "../ledger/run-steps.ts";
import { actionLabel, standingOf, whoGetsIt, whoRunsIt } from "../ledger/standing.ts";
import { resolveFrom } from "../resolve/from.ts";
import { GROUP_FLAGS, refuseGroupFlags, resolveGroup } from "../resolve/group.ts";
import { objectionTo } from "../resolve/objection.ts";
import { SIGNATURE_FLAGS, signatureOf } from "../signature.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { shortKey } from "../term/format.ts";
import { oneLine, wrap } from "../term/text.ts";

export const resolve: Command = {
  name: "resolve",
  summary: "settle a doubt: it happened, or it did not",
  usage: [
    "<key> --done [--result <json> | --result-file <file> | --void] --reason <why>",
    "<key> --not-done --reason <why>",
    "<key> --failed --reason <why>",
    "--all [--action <name>] [--error <cause>] --done [--void] | --not-done | --failed [filters] --reason <why> [--yes]",
    "--group <id> --done [--void] | --not-done | --failed [filters] --reason <why> [--yes]",
    "--from <file> [--reason <why>] [--yes]",
  ],
  about:
    "Look at the provider first: the ledger cannot know. --done settles it for good. Give the result that repeats get with --result, or --void where the action returns nothing; without either, action() throws RESULT_UNAVAILABLE until the same command adds it. --not-done lets it run again: if it did happen after all, it happens twice. --failed: it did not happen, and is not tried again. --all takes all doubts of an action or a cause, as ls --doubt --group shows them, --group those with the same error by its id, and --from a file of decisions, one JSON object per line: key, as (done, not-done or failed), and result, reason and by where they differ from the flags. Without --yes these only show what would be settled.",
  flags: {
    done: { about: "it happened" },
    "not-done": { about: "it did not happen, and may be run again" },
    failed: { about: "it did not happen, and is not to be tried again" },
    result: { value: "json", about: "with --done: what a repeat gets, as JSON" },
    "result-file": { value: "file", about: "the same, from a file" },
    void: { about: "with --done: the action returns nothing, and a repeat gets undefined" },
    ...GROUP_FLAGS,
    from: { value: "file", about: "decisions about many doubts, as JSON Lines" },
    ...SIGNATURE_FLAGS,
  },
  operands: 1,
  examples: [
    [`resolve nt1_q3v0m2k8ab --done --result '{"id":"msg_81"}' --reason "found in the provider's log"`, "it happened"],
    [`resolve nt1_q3v0m2k8ab --not-done --reason "the provider never saw it"`, "it did not"],
    ["resolve --group 5d0c1a7e --not-done", "which doubts have this error; nothing is changed"],
    [
      `resolve --all --action send_mail --error "Error: socket hang up" --not-done --reason "the provider was down" --yes`,
      "all doubts of one cause",
    ],
    [`resolve --from decisions.jsonl --reason "looked up in the provider's export" --yes`, "a decision for each"],
  ],
  run,
};

type As = "done" | "not-done" | "failed";

async function run(context: Context): Promise<number> {
  if (context.args.on("from")) return resolveFrom(context, refuseClearText);
  const as = decision(context);
  if (context.args.on("group") || context.args.on("all")) return resolveGroup(context, as);
  refuseGroupFlags(context);
  const example = `resolve ${context.args.operands[0] ?? "nt1_…"} --${as} --reason "looked it up in the provider's log"`;
  const signature = signatureOf(context, example);
  const result = givenResult(context, as);
  const before = await findRecord(context, "resolve");
  const store = requireStore(context);
  const held = heldProblem(context.suggest, await heldBy(store, before.record, instantOf(store)));
  if (held !== null) throw held;
  refuseClearText(before.record, result);
  const problem = objectionTo(before.record, as, result !== undefined);
  if (problem !== null) throw as === "done" ? new UsageError(problem) : new ProblemError(problem);
  const nt = nevertwice({ store, sweep: false });
  const { key } = before.record;
  const given = result === undefined ? {} : { result: result.value };
  const outcome = await nt.resolve({ key }, { as, ...signature, ...given });
  const [after] = await store.read([key]);
  const wasDoubt = standingOf(before.record, instantOf(store)).inDoubt;
  const added = as === "done" && result !== undefined && lacksResult(before.record);
  if (!wasDoubt && !added && result !== undefined) throw alreadySettled(context, before.record);
  const next = nextWords(after ?? before, as, context);
  if (context.args.on("json")) {
    const states = { before: before.record.state, after: after?.record.state ?? null, changed: wasDoubt || added };
    context.json({ ledger: ledgerJson(context.ledger()), key, ...states, outcome: outcomeJson(outcome), next });
    return EXIT.ok;
  }
  const change = wasDoubt
    ? `${standingOf(before.record, instantOf(store)).label} → ${after?.record.state ?? "gone"}`
    : added
      ? "already confirmed; its result was added"
      : `already ${before.record.state}, nothing changed`;
  context.line(`${actionLabel(before.record)} ${shortKey(key)}: ${change}`);
  for (const line of wrap(next, context.width)) context.line(line);
  return EXIT.ok;
}

function decision({ args }: Context): As {
  const chosen = (["done", "not-done", "failed"] as const).filter((as) => args.on(as));
  const [as] = chosen;
  if (as !== undefined && chosen.length === 1) return as;
  const all = "--done (it happened), --not-done (it did not: run it again) or --failed (it did not: leave it)";
  throw new UsageError(
    as === undefined ? `say how it is settled: ${all}.` : `choose one: ${all}; not ${chosen.length} of them.`,
  );
}

function givenResult({ args, io }: Context, as: As): { value: unknown } | undefined {
  const [text, file] = [args.text("result"), args.text("result-file")];
  const isVoid = args.on("void");
  if (text === undefined && file === undefined && !isVoid) return undefined;
  if (as !== "done")
    throw new UsageError(`--${isVoid ? "void" : "result"} goes with --done: what did not happen has no result.`);
  if (text !== undefined && file !== undefined) throw new UsageError("give --result or --result-file, not both.");
  if (isVoid && (text !== undefined || file !== undefined))
    throw new UsageError("give a result, or --void where the action returns nothing; not both.");
  if (isVoid) return { value: undefined };
  const from = text === undefined ? `--result-file ${oneLine(file as string)}` : "--result";
  return { value: parseJson(text ?? readText(resolvePath(io.cwd, file as string), from), from) };
}

function parseJson(text: string, from: string): unknown {
  try {
    return parseForeignJson(text);
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(`${from}: ${error.message}. Nothing was changed.`);
    throw new UsageError(
      `${from} is not JSON: ${oneLine(messageOf(error))}. A text needs quotes of its own: --result '"msg_81"'; an object: --result '{"id":"msg_81"}'.`,
    );
  }
}

/** A ledger whose payloads are sealed must not get one in clear text by the back door. */
function refuseClearText(record: LedgerRecord, result: { value: unknown } | undefined): void {
  const sealed = [record.input, record.draft, record.result].some((payload) => payload !== null && "sealed" in payload);
  // A record without payloads shows it by its digests.
  if (result?.value === undefined || (!sealed && digestKeyId(record.fingerprint) === null)) return;
  throw new ProblemError(
    `this record's payloads are sealed (encrypt), and the command has no key: the result would be stored in clear text. Leave --result out, or resolve it in the program that has the key: ${oneLine(record.action)}.resolve({ key }, { as: "done", result, by, reason }).`,
  );
}

function alreadySettled(context: Context, record: LedgerRecord): ProblemError {
  return new ProblemError(
    `the record is already ${record.state}: its result was left as it is, and yours was not stored. See: ${context.suggest(`show ${shortKey(record.key)}`)}`,
  );
}

function nextWords({ record }: Stored, as: As, context: Context): string {
  if (as === "not-done") return whoRunsIt(record, context.suggest);
  if (as === "failed") {
    return `Nothing tries it again by itself; ${context.suggest(`retry ${shortKey(record.key)}`)} --reason '…' would bring it back.`;
  }
  return `It is settled: ${whoGetsIt(record)}.`;
}
