/** `resolve --all` and `resolve --group`: many doubts, settled by one decision. Shown first; done with --yes. */
import { doubtBegan, hasCause, kindOfDoubt } from "../../core/doubt-cause.ts";
import { isNevertwiceError } from "../../core/errors.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Store } from "../../core/store.ts";
import type { DoubtQuery } from "../../engine/doubt-pages.ts";
import { settleDoubts } from "../../engine/resolve-all.ts";
import { nevertwice, servicesOf } from "../../nevertwice.ts";
import type { Context } from "../command.ts";
import { instantFlag } from "../instant.ts";
import { groupRows, keptFilters } from "../ledger/doubt-group-table.ts";
import { type DoubtGroup, DoubtGroups, groupDoubts } from "../ledger/doubt-groups.ts";
import { nextByItself } from "../ledger/next-by-itself.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { actionAndStep, actionLabel } from "../ledger/standing.ts";
import { signatureOf } from "../signature.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { age, plural, shellWord, shortKey } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { renderTable } from "../term/table.ts";
import { oneLine, wrap } from "../term/text.ts";
import { objectionTo } from "./objection.ts";

export const GROUP_FLAGS = {
  all: { about: "all doubts that fit --action, --error and the other filters" },
  error: {
    value: "cause",
    about: "with --all: only doubts of this cause, as ls --doubt --group shows it",
  },
  group: { value: "id", about: "all doubts with this error: the id that ls --doubt shows" },
  action: { value: "name", about: "with --all, --group: only those of this action" },
  agent: { value: "name", about: "with --all, --group: only those whose last attempt this agent made" },
  scope: { value: "id", about: "with --all, --group: only those of this run, session or thread" },
  since: { value: "time", about: "with --all, --group: only doubts that began at this time or later" },
  before: {
    value: "time",
    about:
      "with --all, --group: only doubts that began before (default: now); with --from: when the decisions were made",
  },
  limit: { value: "n", about: "with --all, --group: at most this many" },
  yes: { about: "with --all, --group, --from: settle them; without it they are only shown" },
} as const;

type As = "done" | "not-done" | "failed";

export interface Wanted {
  /** Of --group, for messages and the document. */
  readonly id: string | null;
  readonly as: As;
  readonly fits: (record: LedgerRecord) => boolean;
  /** Only what had begun when it was decided: the same error may come again meanwhile, and nobody has looked at that. */
  readonly before: number;
  readonly since: number;
  readonly limit: number | undefined;
  /** Null: only shown. */
  readonly signature: { readonly by: string; readonly reason: string } | null;
  /** done: they return nothing. */
  readonly isVoid?: boolean;
}

interface Brief {
  readonly key: string;
  readonly action?: string;
  readonly tenant?: string;
}

interface Settled {
  readonly groups: readonly DoubtGroup[];
  readonly count: number;
  /** The first few. */
  readonly shown: readonly LedgerRecord[];
  /** All of them, where a document is to name them. */
  readonly settled: readonly Brief[];
  /** Settled the same way by somebody else meanwhile. */
  readonly already: number;
  readonly refusedCount: number;
  /** The first of them. */
  readonly refused: readonly (Brief & { readonly why: string })[];
  /** Why it ended early: the store does not answer any more. */
  readonly stopped: string | null;
}

export async function resolveGroup(context: Context, as: As): Promise<number> {
  const { args } = context;
  const flag = args.on("all") ? "--all" : "--group";
  if (args.on("all") && args.on("group")) throw new UsageError("give --all or --group, not both.");
  if (args.operands.length > 0) throw new UsageError(`give a key or ${flag}, not both.`);
  for (const one of ["result", "result-file"]) {
    if (args.on(one)) throw new UsageError(`--${one} is for one record: a group's records have a result each.`);
  }
  if (args.on("void") && as !== "done")
    throw new UsageError("--void goes with --done: what did not happen has no result.");
  const given = wantedOf(context, as);
  const store = requireStore(context);
  const at = instantOf(store);
  // Slots and runs that are run again by themselves need no decision: only where their action is named.
  const needsOne = (record: LedgerRecord) =>
    args.on("action") || given.id !== null || nextByItself(record, at) === null;
  const fits = (record: LedgerRecord) => given.fits(record) && needsOne(record);
  const wanted = { ...given, fits, before: Math.min(given.before, at.now + 1) };
  const progress = (count: number) =>
    showProgress(context.io, `${plural(count, "doubt")} ${wanted.signature ? "settled" : "found"}`);
  const query = queryOf(context);
  const done = await settleGroup(store, query, wanted, { progress, named: args.on("json") }).finally(() =>
    endProgress(context.io),
  );
  if (done.count + done.already + done.refusedCount === 0 && done.stopped === null)
    throw wanted.id === null ? await noneOfCause(context, store, query) : nothingThere(context, wanted, wanted.id);
  return finish(context, store, wanted, done);
}

const MANY_ONLY = ["before", "since", "limit", "yes", "action", "scope", "agent", "error"];

/** For a plain `resolve`: flags that mean something for many doubts only. */
export function refuseGroupFlags({ args }: Context): void {
  for (const flag of MANY_ONLY) {
    if (args.on(flag)) throw new UsageError(`--${flag} goes with --group or --all.`);
  }
}

function wantedOf(context: Context, as: As): Wanted {
  const { args } = context;
  const chosen = args.on("all") ? causeOf(context) : groupOf(context);
  const example = `resolve ${chosen.flags} --${as} --reason "looked them up in the provider's log" --yes`;
  const signature = args.on("yes") ? signatureOf(context, example) : null;
  return {
    ...chosen,
    as,
    before: instantFlag(args, "before") ?? Number.POSITIVE_INFINITY,
    since: instantFlag(args, "since") ?? Number.NEGATIVE_INFINITY,
    limit: args.count("limit"),
    signature,
    isVoid: args.on("void"),
  };
}

function causeOf(context: Context) {
  const { args } = context;
  const [action, error] = [args.text("action"), args.text("error")];
  if (action === undefined && error === undefined)
    throw new UsageError(
      `--all needs --action or --error: doubts of different causes want different decisions. See which there are: ${context.suggest("ls --doubt --group")}`,
    );
  if (error?.trim() === "") throw new UsageError("--error is empty: the variable it comes from may not be set.");
  const flags = ["--all", ...keptFilters(context, ["action", "error"])].join(" ");
  return { id: null, flags, fits: error === undefined ? () => true : hasCause(error) };
}

function groupOf(context: Context) {
  const { args } = context;
  if (args.on("error")) throw new UsageError("--error goes with --all: a --group is of one error already.");
  const id = (args.text("group") ?? "").trim().toLowerCase();
  if (!/^[0-9a-f]{8}$/.test(id)) {
    throw new UsageError(
      `--group ${oneLine(id)}: that is not the id of a group. It has eight characters (0-9, a-f); list them with: ${context.suggest("ls --doubt")}`,
    );
  }
  return { id, flags: `--group ${id}`, fits: (record: LedgerRecord) => kindOfDoubt(record).id === id };
}

function queryOf({ args }: Context): DoubtQuery {
  const [tenant, action, scope, agent] = ["tenant", "action", "scope", "agent"].map((flag) => args.text(flag));
  return {
    order: "oldest",
    ...(tenant !== undefined && { tenant }),
    ...(action !== undefined && { action }),
    ...(scope !== undefined && { scope }),
    ...(agent !== undefined && { agent }),
  };
}

// One answer like this may be about its record alone; so many are about the store.
const DOWN_IN_A_ROW = 3;
const SHOWN = 20;
const MOST_REFUSED = 1_000;

/** A store that does not answer ends it; a single refusal does not. What is kept is bounded, unless each is to be `named`. */
export async function settleGroup(
  store: Store,
  query: DoubtQuery,
  { fits, since, before, limit, as, signature, isVoid }: Wanted,
  { progress = () => {}, named = false }: { progress?: (settled: number) => void; named?: boolean } = {},
): Promise<Settled> {
  const { engine } = servicesOf(nevertwice({ store, sweep: false }));
  const groups = new DoubtGroups();
  const shown: LedgerRecord[] = [];
  const settled: Brief[] = [];
  const refused: (Brief & { why: string })[] = [];
  const counts = { count: 0, already: 0, refusedCount: 0 };
  const ended = (stopped: string | null): Settled => ({
    ...counts,
    groups: groups.list(),
    shown,
    settled,
    refused,
    stopped,
  });
  const isOfTime = (record: LedgerRecord) => doubtBegan(record) >= since && doubtBegan(record) < before;
  const refuses = (record: LedgerRecord) => objectionTo(record, as, isVoid === true);
  const choice = { fits: (record: LedgerRecord) => isOfTime(record) && fits(record), limit, refuses };
  let downInARow = 0;
  for await (const one of settleDoubts(
    engine,
    query,
    choice,
    signature && { as, ...signature, ...(isVoid && { result: undefined }) },
  )) {
    const { key, record, end, why, error } = one;
    const brief = record === null ? { key } : { key, action: record.action, tenant: record.tenant };
    const isDown = isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE";
    downInARow = isDown ? downInARow + 1 : 0;
    if (end === "settled" && record !== null) {
      counts.count += 1;
      groups.add(record);
      if (shown.length < SHOWN) shown.push(record);
      if (named) settled.push(brief);
      progress(counts.count);
    } else if (end === "already") counts.already += 1;
    else {
      counts.refusedCount += 1;
      if (refused.length < MOST_REFUSED) refused.push({ ...brief, why });
    }
    if (downInARow >= DOWN_IN_A_ROW) return ended(why);
  }
  return ended(null);
}

const BECOMES = { done: "confirmed", "not-done": "pending", failed: "failed" } as const;
const MEANS = {
  done: "they happened; no result is kept, so that a repeat runs nothing and throws RESULT_UNAVAILABLE",
  "not-done": "they did not happen, and may be run again",
  failed: "they did not happen, and are not to be tried again",
} as const;

function meaningOf({ as, isVoid }: Wanted, count: number): string {
  const many = isVoid ? "they happened, and a repeat gets undefined" : MEANS[as];
  return count === 1 ? many.replace("they", "it").replace(" are ", " is ") : many;
}

function finish(context: Context, store: Store, wanted: Wanted, done: Settled): number {
  const { count, already, groups, refused, refusedCount, settled, stopped } = done;
  const code = stopped !== null ? EXIT.unavailable : refusedCount > 0 ? EXIT.problem : EXIT.ok;
  const dryRun = wanted.signature === null;
  if (context.args.on("json")) {
    const [only] = groups;
    const group =
      only === undefined ? { id: wanted.id } : { id: only.id, action: only.action, step: only.step, error: only.error };
    context.json({
      ledger: ledgerJson(context.ledger()),
      ...(wanted.id !== null && { group }),
      as: wanted.as,
      dryRun,
      count,
      groups: groups.map(({ id, action, step, error, count, since }) => ({ id, action, step, error, count, since })),
      settled,
      already,
      refused,
      refusedCount,
      stopped,
    });
    return code;
  }
  if (wanted.id === null) for (const line of groupRows(context, groups, instantOf(store).now)) context.line(line);
  else for (const group of groups.slice(0, 1)) context.line(`${actionAndStep(group)}, ${oneLine(group.error)}`);
  if (dryRun) preview(context, store, wanted, done);
  else context.line(`${plural(count, "doubt")}: unknown → ${BECOMES[wanted.as]} (${meaningOf(wanted, count)}).`);
  if (already > 0) context.line(`${already} more: somebody else has settled them the same way meanwhile.`);
  for (const { key, why } of refused.slice(0, SHOWN)) context.note(`${shortKey(key)}: ${oneLine(why)}`);
  if (refusedCount > SHOWN) context.note(`and ${refusedCount - SHOWN} more that were not settled`);
  if (stopped !== null) context.note(`The rest is as it was: ${oneLine(stopped)}`);
  return code;
}

function preview(context: Context, store: Store, wanted: Wanted, { shown, count }: Settled): void {
  const { width } = context;
  if (wanted.id !== null) for (const line of recordRows(context, store, shown, count)) context.line(line);
  context.line();
  const would = `${plural(count, "doubt")} would become ${BECOMES[wanted.as]}: ${meaningOf(wanted, count)}. Nothing was changed. If that is true${count === 1 ? ", settle it" : " of all of them, settle them"}:`;
  for (const line of wrap(would, width)) context.line(line);
  context.line(`  ${context.suggest(commandFor(context, wanted))}`);
}

function recordRows(context: Context, store: Store, shown: readonly LedgerRecord[], count: number): string[] {
  const { paint, width } = context;
  const { now } = instantOf(store);
  const tenants = new Set(shown.map(({ tenant }) => tenant));
  const columns = [
    { title: "key" },
    ...(tenants.size > 1 ? [{ title: "tenant", min: 6 }] : []),
    { title: "action", min: 8 },
    { title: "in doubt", align: "right" as const },
    { title: "error", min: 16 },
  ];
  const rows = shown.map((record) => [
    shortKey(record.key),
    ...(tenants.size > 1 ? [oneLine(record.tenant) || "-"] : []),
    actionLabel(record),
    age(now - doubtBegan(record)),
    oneLine(record.error?.message ?? record.why ?? ""),
  ]);
  const more = count > shown.length ? [`… and ${count - shown.length} more`] : [];
  return [...renderTable(columns, rows, { width, paint }), ...more];
}

/** The same decision with --yes, about the doubts that were shown and no later ones. */
function commandFor(context: Context, { id, as, before, isVoid }: Wanted): string {
  const decided = isVoid ? `--${as} --void` : `--${as}`;
  const which = id === null ? "--all" : `--group ${id}`;
  const kept = keptFilters(context, ["tenant", "action", "error", "agent", "scope", "since", "limit", "by"]);
  const until = new Date(Math.ceil(before)).toISOString();
  const reason = shellWord(context.args.text("reason") ?? "…");
  return ["resolve", which, decided, `--before ${until}`, ...kept, `--reason ${reason}`, "--yes"].join(" ");
}

function nothingThere(context: Context, { before }: Wanted, id: string): ProblemError {
  const earlier = context.args.on("before") ? ` that began before ${new Date(before).toISOString()}` : "";
  return new ProblemError(
    `there is no doubt of the group ${id}${earlier}: it is settled already, or the id is another ledger's. List what there is with: ${context.suggest("ls --doubt")}`,
  );
}

const CAUSES_SHOWN = 5;

/** A cause has to be given whole: what there is is listed, what it is part of first. */
async function noneOfCause(context: Context, store: Store, query: DoubtQuery): Promise<ProblemError> {
  const given = context.args.text("error") ?? "";
  const { groups } = await groupDoubts(store, query);
  const isLike = ({ error }: DoubtGroup) => error.toLowerCase().includes(given.trim().toLowerCase());
  const found = groups.toSorted((a, b) => Number(isLike(b)) - Number(isLike(a)));
  if (found.length === 0)
    return new ProblemError(`there is no doubt that fits. List what there is with: ${context.suggest("ls --doubt")}`);
  const causes = found
    .slice(0, CAUSES_SHOWN)
    .map((group) => `  ${group.count}  ${actionAndStep(group)}  ${oneLine(group.error)}`);
  return new ProblemError(
    [
      "there is no doubt that fits. --error takes a whole cause, as it is shown. The causes in this ledger:",
      ...causes,
      ...(found.length > CAUSES_SHOWN ? [`  and ${plural(found.length - CAUSES_SHOWN, "further cause")}`] : []),
      `With the commands that settle them: ${context.suggest("ls --doubt --group")}`,
    ].join("\n"),
  );
}
