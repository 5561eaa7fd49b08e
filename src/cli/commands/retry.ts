import { isOfAllRecords } from "../../core/damaged-record.ts";
import { isNevertwiceError, messageOf } from "../../core/errors.ts";
import type { Store, Stored } from "../../core/store.ts";
import { instantOf } from "../../core/store.ts";
import { type Nevertwice, nevertwice } from "../../nevertwice.ts";
import type { Command, Context } from "../command.ts";
import { findRecord } from "../ledger/find-record.ts";
import { kindOf } from "../ledger/kind-of-record.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { heldBy, heldProblem } from "../ledger/run-steps.ts";
import { actionLabel, remarkOf, standingOf, whoRunsIt } from "../ledger/standing.ts";
import { SIGNATURE_FLAGS, signatureOf } from "../signature.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { plural, shortKey } from "../term/format.ts";
import { renderTable } from "../term/table.ts";

const PAGE = 200;
const SHOWN = 20;

export const retry: Command = {
  name: "retry",
  summary: "bring back what failed: it may be tried again",
  usage: ["<key> --reason <why>", "--all-failed [--action <name>] [--limit <n>] [--dry-run] --reason <why>"],
  about:
    "Only a failed record can be retried: it surely did not happen. It becomes pending, with a new round of tries; the command itself runs nothing. A doubt is not a failure: settle it with resolve.",
  flags: {
    "all-failed": { about: "every failed record, the oldest first" },
    action: { value: "name", about: "with --all-failed: only those of this action" },
    limit: { value: "n", about: "with --all-failed: at most this many" },
    "dry-run": { about: "with --all-failed: only show which ones" },
    ...SIGNATURE_FLAGS,
  },
  operands: 1,
  examples: [
    [`retry nt1_q3v0m2k8ab --reason "the address is corrected"`, "one record"],
    ["retry --all-failed --action send_followup --dry-run", "which ones it would be"],
    [`retry --all-failed --action send_followup --reason "the provider is back"`, "all of them"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args } = context;
  const all = args.on("all-failed");
  if (all && args.operands.length > 0) throw new UsageError("give a key or --all-failed, not both.");
  for (const flag of ["action", "limit", "dry-run"]) {
    if (!all && args.on(flag)) throw new UsageError(`--${flag} goes with --all-failed.`);
  }
  if (!all && args.operands.length === 0) {
    throw new UsageError(
      `retry needs a key, or --all-failed. List what failed with: ${context.suggest("ls --state failed")}`,
    );
  }
  const which = all ? "--all-failed" : (args.operands[0] as string);
  const signature = args.on("dry-run") ? null : signatureOf(context, `retry ${which} --reason "the provider is back"`);
  if (!all) {
    const stored = await findRecord(context, "retry");
    refuseDoubt(context, stored);
    refuseDone(context, stored);
    const held = await heldOf(context, stored);
    if (held !== null) throw held;
    return finish(context, await retryEach(context, [stored], signature, true));
  }
  const ledger = context.ledger();
  if (!ledger.exists) return finish(context, { retried: [], refused: [] });
  return finish(context, await retryEach(context, failed(context, ledger.store), signature, false));
}

function refuseDoubt(context: Context, { record }: Stored): void {
  if (!standingOf(record, instantOf(requireStore(context))).inDoubt) return;
  throw new ProblemError(
    `the record is in doubt, which is not a failure: it may have happened. Settle it first: ${context.suggest(`show ${shortKey(record.key)}`)}`,
  );
}

/** An action is done again by resend; what no action made has a way of its own. */
function refuseDone(context: Context, { record }: Stored): void {
  const kind = record.state === "confirmed" ? kindOf(record, context.suggest) : null;
  if (kind === null) return;
  throw new ProblemError(`the record is ${kind.what}, and it did not fail: nothing was changed. ${kind.again}`);
}

async function heldOf(context: Context, { record }: Stored): Promise<ProblemError | null> {
  const store = requireStore(context);
  return heldProblem(context.suggest, await heldBy(store, record, instantOf(store)));
}

interface Retried {
  readonly retried: Stored[];
  readonly refused: { stored: Stored; why: string }[];
}

/** Oldest first, page by page: what fails again meanwhile lies behind the cursor, so that this ends. */
async function* failed({ args }: Context, store: Store): AsyncIterable<Stored> {
  const [tenant, action] = [args.text("tenant"), args.text("action")];
  let left = args.count("limit") ?? Number.POSITIVE_INFINITY;
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Store["list"]>> = await store.list({
      states: ["failed"],
      order: "oldest",
      limit: Math.min(PAGE, left),
      ...(tenant !== undefined && { tenant }),
      ...(action !== undefined && { action }),
      ...(cursor !== null && { cursor }),
    });
    yield* page.items;
    left -= page.items.length;
    cursor = page.cursor;
  } while (cursor !== null && left > 0);
}

async function retryEach(
  context: Context,
  records: Iterable<Stored> | AsyncIterable<Stored>,
  signature: { by: string; reason: string } | null,
  alone: boolean,
): Promise<Retried> {
  const nt = nevertwice({ store: requireStore(context), sweep: false });
  const done: Retried = { retried: [], refused: [] };
  for await (const stored of records) {
    const held = alone ? null : await heldOf(context, stored);
    const why = held?.message ?? (signature === null ? null : await retryOne(nt, stored, signature, alone));
    if (why === null) done.retried.push(stored);
    else done.refused.push({ stored, why });
  }
  return done;
}

/** Null, or why it was refused: somebody else may have brought it back since it was listed. */
async function retryOne(
  nt: Nevertwice,
  { record }: Stored,
  signature: { by: string; reason: string },
  alone: boolean,
): Promise<string | null> {
  try {
    await nt.retry({ key: record.key }, signature);
    return null;
  } catch (error) {
    if (!alone && isNevertwiceError(error) && !isOfAllRecords(error)) return messageOf(error);
    throw error;
  }
}

function finish(context: Context, { retried, refused }: Retried): number {
  const { args } = context;
  const dryRun = args.on("dry-run");
  const code = refused.length > 0 ? EXIT.problem : EXIT.ok;
  if (args.on("json")) {
    const brief = ({ record }: Stored) => ({ key: record.key, action: record.action, tenant: record.tenant });
    context.json({
      ledger: ledgerJson(context.ledger()),
      dryRun,
      retried: retried.map(brief),
      refused: refused.map(({ stored, why }) => ({ ...brief(stored), why })),
    });
    return code;
  }
  if (args.on("all-failed")) summary(context, retried, dryRun);
  else
    for (const { record } of retried) {
      context.line(`${actionLabel(record)} ${shortKey(record.key)}: failed → pending`);
      context.line(whoRunsIt(record, context.suggest));
    }
  for (const { stored, why } of refused) context.note(`${shortKey(stored.record.key)}: ${why}`);
  return code;
}

function summary(context: Context, retried: readonly Stored[], dryRun: boolean): void {
  if (retried.length === 0) {
    context.line("Nothing has failed that fits.");
    return;
  }
  const { paint, width } = context;
  const at = instantOf(requireStore(context));
  const rows = retried
    .slice(0, SHOWN)
    .map(({ record }) => [shortKey(record.key), actionLabel(record), remarkOf(record, at)]);
  const columns = [{ title: "key" }, { title: "action", min: 12 }, { title: "failed with", min: 16 }];
  for (const line of renderTable(columns, rows, { width, paint })) context.line(line);
  if (retried.length > SHOWN) context.line(`… and ${retried.length - SHOWN} more`);
  context.line();
  const count = plural(retried.length, "record");
  context.line(
    dryRun
      ? `${count} would become pending again. Nothing was changed.`
      : `${count}: failed → pending. Their next calls, or a worker, will run them.`,
  );
}
