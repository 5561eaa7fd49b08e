/** `resolve --group`: all doubts with the same error, settled by one decision. Shown first; done with --yes. */
import { isNevertwiceError, messageOf } from "../core/errors.ts";
import { instantOf, type Store, type Stored } from "../core/store.ts";
import { type Nevertwice, nevertwice } from "../nevertwice.ts";
import type { Context } from "./command.ts";
import { doubtBegan, kindOfDoubt } from "./doubt-groups.ts";
import { type DoubtFilter, pagesOfDoubts } from "./doubts.ts";
import { EXIT, ProblemError, UsageError } from "./exit.ts";
import { age, plural, shellWord, shortKey } from "./format.ts";
import { readInstant } from "./instant.ts";
import { ledgerJson, requireStore } from "./ledger.ts";
import { endProgress, showProgress } from "./progress.ts";
import { signatureOf } from "./signature.ts";
import { actionLabel } from "./standing.ts";
import { stepNeedsResult } from "./step-result.ts";
import { renderTable } from "./table.ts";
import { oneLine, wrap } from "./text.ts";

export const GROUP_FLAGS = {
  group: { takes: "value", value: "id", about: "all doubts with this error: the id that ls --doubt shows" },
  before: { takes: "value", value: "time", about: "with --group: only doubts that began before (default: now)" },
  limit: { takes: "value", value: "n", about: "with --group: at most this many" },
  yes: { takes: "nothing", about: "with --group: settle them; without it they are only shown" },
  action: { takes: "value", value: "name", about: "with --group: only those of this action" },
  scope: { takes: "value", value: "id", about: "with --group: only those of this run, session or thread" },
} as const;

type As = "done" | "not-done" | "failed";

interface Wanted {
  readonly id: string;
  readonly as: As;
  /** Only what had begun when it was decided: the same error may come again meanwhile, and nobody has looked at that. */
  readonly before: number;
  readonly isDated: boolean;
  readonly limit: number;
  /** Null: only shown. */
  readonly signature: { readonly by: string; readonly reason: string } | null;
  /** done: they return nothing. */
  readonly isVoid?: boolean;
}

interface Settled {
  readonly settled: Stored[];
  readonly refused: { readonly stored: Stored; readonly why: string }[];
  /** Why it ended early: the store does not answer any more. */
  readonly stopped: string | null;
}

export async function resolveGroup(context: Context, as: As): Promise<number> {
  const { args } = context;
  if (args.operands.length > 0) throw new UsageError("give a key or --group, not both.");
  for (const flag of ["result", "result-file"]) {
    if (args.on(flag)) throw new UsageError(`--${flag} is for one record: a group's records have a result each.`);
  }
  if (args.on("void") && as !== "done")
    throw new UsageError("--void goes with --done: what did not happen has no result.");
  const given = wantedOf(context, as);
  const store = requireStore(context);
  const wanted = { ...given, before: Math.min(given.before, instantOf(store).now + 1) };
  const progress = (count: number) =>
    showProgress(context.io, `${plural(count, "doubt")} ${wanted.signature ? "settled" : "found"}`);
  const done = await settleGroup(store, filterOf(context), wanted, progress).finally(() => endProgress(context.io));
  if (done.settled.length + done.refused.length === 0 && done.stopped === null) throw nothingThere(context, wanted);
  return finish(context, store, wanted, done);
}

/** For a plain `resolve`: flags that mean something for a group only. */
export function refuseGroupFlags({ args }: Context): void {
  for (const flag of ["before", "limit", "yes", "action", "scope"]) {
    if (args.on(flag)) throw new UsageError(`--${flag} goes with --group.`);
  }
}

function wantedOf(context: Context, as: As): Wanted {
  const { args } = context;
  const id = (args.text("group") ?? "").trim().toLowerCase();
  if (!/^[0-9a-f]{8}$/.test(id)) {
    throw new UsageError(
      `--group ${oneLine(id)}: that is not the id of a group. It has eight characters (0-9, a-f); list them with: ${context.suggest("ls --doubt")}`,
    );
  }
  const example = `nevertwice resolve --group ${id} --${as} --reason "looked them up in the provider's log" --yes`;
  const signature = args.on("yes") ? signatureOf(context, example) : null;
  const limit = args.count("limit") ?? Number.POSITIVE_INFINITY;
  return { id, as, before: beforeOf(context), isDated: args.on("before"), limit, signature, isVoid: args.on("void") };
}

function beforeOf({ args }: Context): number {
  const text = args.text("before");
  if (text === undefined) return Number.POSITIVE_INFINITY;
  const found = readInstant(text);
  if (found?.hasZone) return found.at;
  const what = found === null ? "is not a time that can be read for certain" : "has no time zone";
  throw new UsageError(`--before ${oneLine(text)} ${what}. Write it as 2026-01-15T09:00:00Z.`);
}

function filterOf({ args }: Context): Omit<DoubtFilter, "limit"> {
  const [tenant, action, scope] = ["tenant", "action", "scope"].map((flag) => args.text(flag));
  return {
    order: "oldest",
    ...(tenant !== undefined && { tenant }),
    ...(action !== undefined && { action }),
    ...(scope !== undefined && { scope }),
  };
}

const AT_ONCE = 20;
// One answer like this may be about its record alone; so many are about the store.
const DOWN_IN_A_ROW = 3;

/** Page by page and batch by batch, the oldest first. A store that does not answer ends it; a single refusal does not. */
export async function settleGroup(
  store: Store,
  filter: Omit<DoubtFilter, "limit">,
  wanted: Wanted,
  progress: (settled: number) => void = () => {},
): Promise<Settled> {
  const nt = nevertwice({ store, sweep: false });
  const done: Settled = { settled: [], refused: [], stopped: null };
  let inARow = 0;
  const seen = new Set<string>();
  for await (const page of pagesOfDoubts(store, filter)) {
    const fits = page.filter(({ record }) => {
      const isNew = !seen.has(record.key) && doubtBegan(record) < wanted.before && kindOfDoubt(record).id === wanted.id;
      if (isNew) seen.add(record.key);
      return isNew;
    });
    while (fits.length > 0) {
      const batch = fits.splice(0, Math.min(AT_ONCE, wanted.limit - done.settled.length));
      const answers = await Promise.all(batch.map((stored) => settleOne(nt, stored, wanted)));
      done.settled.push(...batch.filter((_, i) => answers[i] === null));
      for (const stored of batch.filter((_, i) => answers[i] !== null)) {
        // Once more, alone: a record that cannot be read spoils the reading of those beside it.
        const answer = await settleOne(nt, stored, wanted);
        if (answer === null) done.settled.push(stored);
        else done.refused.push({ stored, why: answer.why });
        inARow = answer?.down === true ? inARow + 1 : 0;
        if (inARow >= DOWN_IN_A_ROW) return { ...done, stopped: answer?.why ?? null };
      }
      progress(done.settled.length);
      if (done.settled.length >= wanted.limit) return done;
    }
  }
  return done;
}

/** Null, or why not: somebody else may have settled it since it was listed. One that cannot be settled stops no other. */
async function settleOne(
  nt: Nevertwice,
  { record }: Stored,
  { as, signature, isVoid }: Wanted,
): Promise<{ readonly why: string; readonly down: boolean } | null> {
  const problem = as === "done" && isVoid !== true ? stepNeedsResult(record) : null;
  if (problem !== null) return { why: problem, down: false };
  if (signature === null) return null;
  try {
    await nt.resolve({ key: record.key }, { as, ...signature, ...(isVoid && { result: undefined }) });
    return null;
  } catch (error) {
    return { why: messageOf(error), down: isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE" };
  }
}

const SHOWN = 20;
const BECOMES = { done: "confirmed", "not-done": "pending", failed: "failed" } as const;
const MEANS = {
  done: "they happened; no result is kept, so that a repeat runs nothing and throws RESULT_UNAVAILABLE",
  "not-done": "they did not happen, and may be run again",
  failed: "they did not happen, and are not to be tried again",
} as const;

function meaningOf({ as, isVoid }: Wanted): string {
  return isVoid ? "they happened, and a repeat gets undefined" : MEANS[as];
}

function finish(context: Context, store: Store, wanted: Wanted, { settled, refused, stopped }: Settled): number {
  const { args } = context;
  const code = stopped !== null ? EXIT.unavailable : refused.length > 0 ? EXIT.problem : EXIT.ok;
  const dryRun = wanted.signature === null;
  const first = (settled[0] ?? refused[0]?.stored)?.record;
  if (args.on("json")) {
    const brief = ({ record }: Stored) => ({ key: record.key, action: record.action, tenant: record.tenant });
    context.json({
      ledger: ledgerJson(context.ledger()),
      group: first === undefined ? { id: wanted.id } : kindOfDoubt(first),
      as: wanted.as,
      dryRun,
      settled: settled.map(brief),
      refused: refused.map(({ stored, why }) => ({ ...brief(stored), why })),
      stopped,
    });
    return code;
  }
  if (first !== undefined) {
    const { action, error } = kindOfDoubt(first);
    context.line(`${oneLine(action)}, ${oneLine(error)}`);
  }
  const count = plural(settled.length, "doubt");
  if (dryRun) preview(context, store, wanted, settled, count);
  else context.line(`${count}: unknown → ${BECOMES[wanted.as]} (${meaningOf(wanted)}).`);
  for (const { stored, why } of refused) context.note(`${shortKey(stored.record.key)}: ${oneLine(why)}`);
  if (stopped !== null) context.note(`The rest is as it was: ${oneLine(stopped)}`);
  return code;
}

function preview(context: Context, store: Store, wanted: Wanted, settled: readonly Stored[], count: string): void {
  const { paint, width } = context;
  const { now } = instantOf(store);
  const tenants = new Set(settled.map(({ record }) => record.tenant));
  const columns = [
    { title: "key" },
    ...(tenants.size > 1 ? [{ title: "tenant", min: 6 }] : []),
    { title: "action", min: 8 },
    { title: "in doubt", align: "right" as const },
    { title: "error", min: 16 },
  ];
  const rows = settled
    .slice(0, SHOWN)
    .map(({ record }) => [
      shortKey(record.key),
      ...(tenants.size > 1 ? [oneLine(record.tenant) || "-"] : []),
      actionLabel(record),
      age(now - doubtBegan(record)),
      oneLine(record.error?.message ?? record.why ?? ""),
    ]);
  for (const line of renderTable(columns, rows, { width, paint })) context.line(line);
  if (settled.length > SHOWN) context.line(`… and ${settled.length - SHOWN} more`);
  context.line();
  const would = `${count} would become ${BECOMES[wanted.as]}: ${meaningOf(wanted)}. Nothing was changed. If that is true of all of them, settle them:`;
  for (const line of wrap(would, width)) context.line(line);
  context.line(`  ${context.suggest(commandFor(context, wanted))}`);
}

/** The same decision with --yes, about the doubts that were shown and no later ones. */
function commandFor({ args }: Context, { id, as, before, isVoid }: Wanted): string {
  const decided = isVoid ? `--${as} --void` : `--${as}`;
  const kept = ["tenant", "action", "scope", "limit", "by"].flatMap((flag) =>
    args.on(flag) ? [`--${flag} ${shellWord(args.text(flag) ?? "")}`] : [],
  );
  const until = new Date(Math.ceil(before)).toISOString();
  const reason = shellWord(args.text("reason") ?? "…");
  return ["resolve", `--group ${id}`, decided, `--before ${until}`, ...kept, `--reason ${reason}`, "--yes"].join(" ");
}

function nothingThere(context: Context, { id, before, isDated }: Wanted): ProblemError {
  const earlier = isDated ? ` that began before ${new Date(before).toISOString()}` : "";
  return new ProblemError(
    `there is no doubt of the group ${id}${earlier}: it is settled already, or the id is another ledger's. List what there is with: ${context.suggest("ls --doubt")}`,
  );
}
