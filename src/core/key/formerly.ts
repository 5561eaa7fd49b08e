/**
 * A changed key, and intents that were recorded under the old one. While an action names its former key, an intent has one
 * record and two keys: the record stays under the former key, where processes with the old definition find and hold it, and the
 * new key is an alias of it. So old and new processes swap one record, a provider sees one idempotency key, and there is one
 * doubt to settle. An alias is a settled record without a result: whoever does not know aliases runs nothing on it.
 */

import { BLANK_RECORD, expired, type Instant, type LedgerRecord, leaseAlive } from "../record.ts";
import { isKey } from "./key.ts";

/** What the result of an alias says, around the key and the action that it stands for. */
export const POINTS_TO = "recorded under the key ";
export const OF_ACTION = " of the action ";
/** What aliases have in place of an agent, so that lists find them, or leave them out, without reading every record. */
export const ALIAS_AGENT = "nevertwice.alias";
// Whoever wrote an alias and then stood still has claimed the record long before this.
const UNUSED_AFTER_MS = 86_400_000;

/** A key, and the name of the action that it was derived for: a record under it has that name. */
export interface NamedKey {
  readonly key: string;
  readonly action: string;
}

export interface AliasName extends NamedKey {
  readonly tenant: string;
  readonly scope: string | null;
  readonly version: number;
}

/** `of`: the record it stands for, as far as there is one. While that may change, the alias is kept. */
export function aliasRecord(
  before: LedgerRecord | null,
  { key, action, tenant, scope, version }: AliasName,
  of: NamedKey & { readonly record: LedgerRecord | null },
  at: Instant,
): LedgerRecord {
  return {
    ...BLANK_RECORD,
    key,
    tenant,
    scope,
    version,
    action,
    agent: ALIAS_AGENT,
    // Attempts at the record it replaces must stay refused.
    fence: (before?.fence ?? 0) + 1,
    createdAt: before?.createdAt ?? at.now,
    updatedAt: at.now,
    settledAt: at.now,
    expiresAt: aliasExpiry(of.record),
    result: { omitted: `${POINTS_TO}${of.key}${OF_ACTION}${of.action}` },
  };
}

/** Known once the record it stands for can no longer change; null: not yet, or never. */
export function aliasExpiry(of: LedgerRecord | null): number | null {
  return of?.state === "confirmed" ? of.expiresAt : null;
}

/** The alias as the sweep leaves it, so that it is over when its record is; null: as it is. `of`: what it names, now. */
export function retiredAlias(alias: LedgerRecord, of: LedgerRecord | null, { now }: Instant): LedgerRecord | null {
  const isGone = of === null || expired(of, now);
  if (isGone && now - alias.updatedAt < UNUSED_AFTER_MS) return null;
  const expiresAt = isGone ? now : aliasExpiry(of);
  return expiresAt === alias.expiresAt ? null : { ...alias, expiresAt };
}

/** Also of one that is over, and not swept yet. */
export function isAlias({ state, result }: LedgerRecord): boolean {
  return state === "confirmed" && result !== null && "omitted" in result && result.omitted.startsWith(POINTS_TO);
}

/** Done, and no alias: a repeat is answered with it. */
export function isDone(record: LedgerRecord, now: number): boolean {
  return record.state === "confirmed" && !expired(record, now) && !isAlias(record);
}

/** What an alias stands for; null: it is no alias, or over. Results that could not be stored say so in other words. */
export function aliasTarget(record: LedgerRecord | null | undefined, now: number): NamedKey | null {
  if (record === null || record === undefined || !isAlias(record) || expired(record, now)) return null;
  const { omitted } = record.result as { readonly omitted: string };
  const [key = "", ...action] = omitted.slice(POINTS_TO.length).split(OF_ACTION);
  return isKey(key) && action.length > 0 ? { key, action: action.join(OF_ACTION) } : null;
}

/** Where the keys of one intent end, the new one first. `record`: not an alias. */
export interface Place extends NamedKey {
  readonly record: LedgerRecord | null;
  /** An alias led here. */
  readonly aliased: boolean;
}

/**
 * Which of the records of one intent governs. What happened comes before what may have, and that before what is known not to
 * have. Of equals the one that an alias names, then the oldest key: the one that most processes know.
 */
export function governing(places: readonly Place[], at: Instant): Place {
  const oldestFirst = [...places].reverse();
  return oldestFirst.reduce((best, one) => {
    const more = rank(one.record, at) - rank(best.record, at);
    return more > 0 || (more === 0 && one.aliased && !best.aliased) ? one : best;
  });
}

/** A record that says nothing more than that the intent may be tried: an alias may take its place. */
export function mayBeReplaced(record: LedgerRecord | null, at: Instant): boolean {
  return rank(record, at) <= 1;
}

/** Queued, and not begun by anybody: who has begun the same intent under another key may take it out of the queue. */
export function isOnlyQueued(record: LedgerRecord | null, at: Instant): boolean {
  return record !== null && record.state === "pending" && !expired(record, at.now);
}

function rank(record: LedgerRecord | null, at: Instant): number {
  if (record === null || expired(record, at.now)) return 0;
  switch (record.state) {
    case "failed":
      return record.final ? 2 : 1;
    case "pending":
      return record.queued ? 3 : 1;
    case "claimed":
      return record.queued || leaseAlive(record, at) ? 4 : 1;
    case "sent":
    case "unknown":
      return 5;
    case "confirmed":
      return 6;
  }
}
