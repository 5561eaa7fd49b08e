/** Doubts settled by the hundred: those of one cause, or those that a filter picks, by one decision. Or only shown. */
import { type At, atMs } from "../core/at.ts";
import { isOfAllRecords } from "../core/damaged-record.ts";
import { doubtBegan, hasCause } from "../core/doubt-cause.ts";
import { configError, messageOf, noSuchOption } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import { type LedgerRecord, leaseAlive } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { type DoubtQuery, pagesOfDoubts } from "./doubt-pages.ts";
import type { Engine } from "./engine.ts";
import { checkResolution, type Resolution, SETTLED_AS, settleDoubt } from "./operate.ts";
import { onlyOf, type TenantChoice, tenantOf } from "./tenancy.ts";

export interface ResolveFilter extends TenantChoice {
  readonly action?: string;
  /** The cause, as `nevertwice ls --doubt --group` shows it, or an error as it came: "Error: socket hang up (ECONNRESET)". */
  readonly error?: string;
  readonly scope?: string;
  /** The agent of the last attempt. */
  readonly agent?: string;
  /** Only doubts that began at this time or later. */
  readonly since?: At;
  /** Only doubts that began before; those that begin after the call are never settled by it. */
  readonly before?: At;
  /** Which of them, by what the record says. */
  readonly where?: (record: LedgerRecord) => boolean;
  /** At most this many; all that fit, unless given. */
  readonly limit?: number;
  /** Change nothing, only say which it would be. */
  readonly dryRun?: boolean;
}

export interface ResolveReport {
  /** The keys that were settled, or would be. */
  readonly resolved: readonly string[];
  /** Somebody else was faster, or the ledger says no. */
  readonly refused: readonly { readonly key: string; readonly why: string }[];
}

const OPTIONS = new Set("tenant tenants action error scope agent since before where limit dryRun".split(" "));

export function resolveAll(
  engine: Engine,
  filter: ResolveFilter,
  resolution: Omit<Resolution<never>, "result">,
  confinedTo: string | undefined,
): Promise<ResolveReport> {
  return engine.during(() => resolvePages(engine, filter, resolution, confinedTo));
}

async function resolvePages(
  engine: Engine,
  filter: ResolveFilter,
  resolution: Omit<Resolution<never>, "result">,
  confinedTo: string | undefined,
): Promise<ResolveReport> {
  checkFilter(filter);
  checkResolution(resolution, "resolveAll");
  if ("result" in resolution)
    throw configError(
      "resolveAll: it takes no result, since each record has its own. Settle those with resolve({ key }, { as, result, by, reason }).",
    );
  const { action, scope, agent, dryRun = false } = filter;
  const query: DoubtQuery = {
    order: "oldest",
    ...onlyOf(tenantOf(filter, confinedTo, "resolveAll")),
    ...(action !== undefined && { action }),
    ...(scope !== undefined && { scope }),
    ...(agent !== undefined && { agent }),
  };
  const report = { resolved: [] as string[], refused: [] as { key: string; why: string }[] };
  const choice = { fits: fitOf(filter, engine.services.ledger.instant().now), limit: filter.limit };
  for await (const { key, end, why, error } of settleDoubts(engine, query, choice, dryRun ? null : resolution)) {
    engine.requireOpen();
    if (isOfAllRecords(error)) throw error;
    if (end === "refused") report.refused.push({ key, why });
    else if (end === "settled") report.resolved.push(key);
  }
  return report;
}

function checkFilter(filter: ResolveFilter): void {
  for (const option of Object.keys(filter)) {
    if (!OPTIONS.has(option)) throw noSuchOption("resolveAll", option, OPTIONS);
  }
  // A variable that is not set must not widen a decision.
  requireGiven("resolveAll", filter, ["action", "error", "scope", "agent", "since", "before", "where"]);
  const { action, error, where, limit } = filter;
  if (action === undefined && error === undefined && where === undefined)
    throw configError(
      "resolveAll: say which doubts the decision is about: give action, error or where. Doubts of different causes want different decisions.",
    );
  if (error !== undefined && (typeof error !== "string" || error.trim() === ""))
    throw configError("resolveAll: error is blank; give the cause as `nevertwice ls --doubt --group` shows it.");
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit > 0))
    throw configError(`resolveAll: limit is ${String(limit)}; it takes a whole number above zero.`);
}

function fitOf({ error, since, before, where = () => true }: ResolveFilter, now: number) {
  const at = (given: At, name: string) => atMs(given, (what) => configError(`resolveAll: ${name}: ${what}.`));
  const from = since === undefined ? Number.NEGATIVE_INFINITY : at(since, "since");
  const until = Math.min(before === undefined ? now + 1 : at(before, "before"), now + 1);
  const isCause = error === undefined ? () => true : hasCause(error);
  return (record: LedgerRecord) => {
    const began = doubtBegan(record);
    return began >= from && began < until && isCause(record) && where(record);
  };
}

/** Which doubts a decision is about. */
export interface DoubtChoice {
  fits(record: LedgerRecord): boolean;
  /** At most this many; undefined: all. */
  readonly limit: number | undefined;
  /** Why the decision cannot be taken for this one. */
  refuses?(record: LedgerRecord): string | null;
}

export interface SettledDoubt {
  readonly key: string;
  /** As it was listed; null: it cannot be read. */
  readonly record: LedgerRecord | null;
  /** already: somebody else settled it the same way meanwhile. */
  readonly end: "settled" | "already" | "refused";
  /** Where it was refused. */
  readonly why: string;
  readonly error?: unknown;
  /** Where it was settled: as it is now. */
  readonly now?: LedgerRecord;
}

const AT_ONCE = 20;

/** Page by page and batch by batch, the oldest first; nothing is held but a page. `resolution` null: nothing is changed. */
export async function* settleDoubts(
  engine: Engine,
  query: DoubtQuery,
  { fits, limit = Number.POSITIVE_INFINITY, refuses = () => null }: DoubtChoice,
  resolution: Resolution<unknown> | null,
): AsyncIterable<SettledDoubt> {
  let settled = 0;
  for await (const { items, damaged = [] } of pagesOfDoubts((one) => engine.services.ledger.list(one), query)) {
    for (const { key, message } of damaged) yield { key, record: null, end: "refused", why: message };
    const wanted = items.filter(({ record }) => fits(record));
    while (wanted.length > 0 && settled < limit) {
      const batch = wanted.splice(0, Math.min(AT_ONCE, limit - settled));
      for (const one of await Promise.all(
        batch.map((stored) => settleUnlessRefused(engine, stored, resolution, refuses(stored.record))),
      )) {
        if (one.end === "settled") settled += 1;
        yield one;
      }
    }
    if (settled >= limit) return;
  }
}

async function settleUnlessRefused(
  engine: Engine,
  stored: Stored,
  resolution: Resolution<unknown> | null,
  why: string | null,
): Promise<SettledDoubt> {
  const { record } = stored;
  return why === null ? settleListed(engine, stored, resolution) : { key: record.key, record, end: "refused", why };
}

/** The doubt that was listed, and no later one of the same record: nobody has looked at that. */
export async function settleListed(
  engine: Engine,
  stored: Stored,
  resolution: Resolution<unknown> | null,
): Promise<SettledDoubt> {
  const { record } = stored;
  const { key, fence } = record;
  if (resolution === null) return { key, record, end: "settled", why: "" };
  try {
    const applied = await settleDoubt(engine, stored, resolution, (current) => current.fence === fence);
    if (applied.ok) return { key, record, end: "settled", why: "", now: applied.stored.record };
    const now = applied.stored?.record;
    if (now?.state === SETTLED_AS[resolution.as]) return { key, record, end: "already", why: "" };
    return { key, record, end: "refused", why: whyNot(engine, now, fence) };
  } catch (error) {
    return { key, record, end: "refused", why: messageOf(error), error };
  }
}

function whyNot(engine: Engine, now: LedgerRecord | undefined, fence: number): string {
  if (now === undefined) return "the record is gone: it is past its keep and was removed";
  const isLeased =
    (now.state === "claimed" || now.state === "sent") && leaseAlive(now, engine.services.ledger.instant());
  if (isLeased) return `it was settled meanwhile, and an attempt is under way (${now.state})`;
  if (now.fence !== fence && (now.state === "unknown" || now.state === "sent"))
    return "it was settled meanwhile, tried again, and is in doubt again: this decision is about the attempt before";
  return `it was settled meanwhile, and is ${now.state}; it stays as it is`;
}
