/**
 * The index of a bucket: one sorted set whose members are typed by their first letter, and whose scores carry the type
 * too, so that each type is a range of its own. One key and not six, because a cluster that moves a slot refuses a script
 * when any key it names is not there, and an empty sorted set is never there.
 *
 * a  all records, by creation                      every record, added once
 * o  open: claimed or sent, by the end of the lease   added by a claim, removed by its settle
 * p  pending · u  unknown · f  failed, by creation
 * q  queued work, by the time it may be handed out
 * z  the mark that names the ledger, one, behind everything (see stores/redis/identity.ts)
 *
 * A plain claim and confirm touch two members: `a` once, `o` in and out.
 */
import { attentionAt, type LedgerRecord, type State } from "../../core/record.ts";
import { REDIS_EPOCH } from "./clock.ts";

export type IndexType = "a" | "o" | "p" | "u" | "f" | "q";

const ORDER = "aopufq";
// Epoch milliseconds have 13 digits; a type's range has 14, and the last range still counts in eighths of a millisecond.
const SPAN = 1e14;
/** Behind the ranges of all types, so that no range and no walk from the front meets it. */
export const MARK_SCORE = 9 * SPAN;
const SEPARATOR = "\u001f";

export const TYPE_OF_STATE: Readonly<Record<State, IndexType | null>> = {
  pending: "p",
  claimed: "o",
  sent: "o",
  confirmed: null,
  failed: "f",
  unknown: "u",
};

export function scoreOf(type: IndexType, at: number): number {
  return ORDER.indexOf(type) * SPAN + Math.min(Math.max(0, Math.floor(at)), SPAN - 1);
}

export function timeOf(score: number): number {
  return score % SPAN;
}

export function rangeOf(type: IndexType): { readonly min: number; readonly max: number } {
  return { min: scoreOf(type, 0), max: scoreOf(type, SPAN) };
}

/**
 * What an index says about a record, besides its type and its key: what a key fixes, so that lists are filtered without
 * reading records. The scope as JSON (nothing where there is none), and tenant and action as JSON.
 */
export function aboutOf({ tenant, action, scope }: LedgerRecord): string {
  if (about.tenant !== tenant || about.action !== action || about.scope !== scope) {
    about = { tenant, action, scope, text: aboutText(tenant, action, scope) };
  }
  return about.text;
}

function aboutText(tenant: string, action: string, scope: string | null): string {
  // JSON escapes control characters, so the separator stands nowhere but between the parts.
  return `${SEPARATOR}${scope === null ? "" : JSON.stringify(scope)}${SEPARATOR}${JSON.stringify([tenant, action])}`;
}

// The last one made: a batch is mostly of one tenant, action and run.
let about = { tenant: "", action: "", scope: null as string | null, text: aboutText("", "", null) };

export function keyOfEntry(entry: string): string {
  return entry.slice(0, entry.indexOf(SEPARATOR));
}

/** Tenant and action as the scripts compare them: how that part of an entry begins, and how it ends. Empty: any. */
export function tenantStart(tenant: string | undefined): string {
  return tenant === undefined ? "" : `[${JSON.stringify(tenant)},`;
}

export function isOfTenant(entry: string, tenant: string | undefined): boolean {
  return tenant === undefined || entry.slice(entry.lastIndexOf(SEPARATOR) + 1).startsWith(tenantStart(tenant));
}

export function actionEnd(action: string | undefined): string {
  return action === undefined ? "" : `,${JSON.stringify(action)}]`;
}

/** Where the record stands among its like; null: a confirmed record is in no list but `a`. */
export function stateScore(record: LedgerRecord): number | null {
  const type = TYPE_OF_STATE[record.state];
  if (type === null) return null;
  return scoreOf(type, type === "o" ? leaseEnd(record) : record.createdAt);
}

/** Work for a queue's workers: due, or claimed by one whose lease will be over then. */
export function queueScore(record: LedgerRecord): number | null {
  if (!record.queued) return null;
  if (record.state === "pending") return scoreOf("q", attentionAt(record) ?? 0);
  return record.state === "claimed" ? scoreOf("q", leaseEnd(record)) : null;
}

/** A lease of another clock (a ledger moved from another store) is over. */
function leaseEnd({ lease }: LedgerRecord): number {
  return lease === null || lease.epoch !== REDIS_EPOCH ? 0 : lease.until;
}
