/**
 * What a record becomes: the parts that the rows of the state machine are made of. Pure. Whether a change is allowed is
 * decided in transition.ts.
 */
import { type Intent, leaseFrom, markOf } from "./begun-record.ts";
import { appended } from "./history.ts";
import { keepFrom } from "./keep.ts";
import type { Change, Hold } from "./ledger-event.ts";
import { withoutDeadline } from "./queued.ts";
import type { HistoryEntry, Instant, LedgerRecord, Payload, StoredError } from "./record.ts";
import type { Refusal } from "./refusal.ts";
import { hasNoEnd, longerKeep } from "./retention.ts";

export function holds(record: LedgerRecord, hold: Hold): boolean {
  return record.fence === hold.fence && record.holder === hold.holder;
}

export function sentNow(record: LedgerRecord, at: Instant) {
  if (record.firstSentAt !== null) return { lastSentAt: at.now };
  return { firstSentAt: at.now, lastSentAt: at.now, firstSentMark: markOf(at) };
}

export function inDoubt(record: LedgerRecord, at: Instant, why: string): LedgerRecord {
  return {
    ...record,
    state: "unknown",
    updatedAt: at.now,
    lease: null,
    doubtSince: at.now,
    doubtMark: markOf(at),
    why,
  };
}

export function renew(current: LedgerRecord, { fingerprint, input, ...intent }: Intent, at: Instant): LedgerRecord {
  const keepMs = longerKeep(current.keepMs, keepFrom(intent, at.now));
  // Who calls a dead letter wants it done now: a deadline of its queue does not end the tries of the call.
  const wanted = current.state === "failed" ? withoutDeadline(current) : current;
  return { ...wanted, fingerprint, input, keepMs };
}

export function take(
  record: LedgerRecord,
  by: { to: "claimed" | "sent"; holder: string; leaseMs: number; newRound: boolean },
  at: Instant,
): LedgerRecord {
  const sent = by.to === "sent";
  const first = sent && record.firstSentAt === null;
  // One spread and plain fields: a second spread costs ten times as much, and this is in every call.
  return {
    ...record,
    firstSentAt: first ? at.now : record.firstSentAt,
    lastSentAt: sent ? at.now : record.lastSentAt,
    firstSentMark: first ? markOf(at) : record.firstSentMark,
    state: by.to,
    attempt: record.attempt + 1,
    fence: record.fence + 1,
    tries: by.newRound ? 1 : record.tries + 1,
    holder: by.holder,
    lease: leaseFrom(at, by.leaseMs),
    updatedAt: at.now,
    dueAt: null,
    doubtSince: null,
    doubtMark: null,
    why: null,
    settledAt: null,
    expiresAt: null,
    final: false,
    error: null,
  };
}

/** Known not to have happened, and claimable from `dueAt` on. */
export function idle(record: LedgerRecord, at: Instant, dueAt: number): LedgerRecord {
  return {
    ...record,
    state: "pending",
    updatedAt: at.now,
    lease: null,
    dueAt,
    firstSentAt: null,
    lastSentAt: null,
    firstSentMark: null,
    doubted: false,
    doubtSince: null,
    doubtMark: null,
    why: null,
    settledAt: null,
    expiresAt: null,
    final: false,
    draft: null,
  };
}

export function settled(
  record: LedgerRecord,
  state: "confirmed" | "failed",
  at: Instant,
  facts: { result?: Payload | null; providerId?: string | null; error: StoredError | null; final?: boolean },
): LedgerRecord {
  // Failed means surely not sent: a later try starts the provider's window, and its draft, afresh.
  const unsent = state === "failed";
  return {
    ...record,
    firstSentAt: unsent ? null : record.firstSentAt,
    lastSentAt: unsent ? null : record.lastSentAt,
    draft: unsent ? null : record.draft,
    state,
    updatedAt: at.now,
    lease: null,
    dueAt: null,
    doubtSince: null,
    doubtMark: null,
    why: null,
    // Settled: no window runs any more, and a shorter row stays on its page.
    firstSentMark: null,
    settledAt: at.now,
    expiresAt: hasNoEnd(record, state, facts.error) ? null : at.now + (record.keepMs as number),
    doubted: false,
    final: facts.final ?? false,
    result: facts.result ?? null,
    providerId: facts.providerId ?? null,
    error: facts.error,
  };
}

export function evidence({ result, providerId = null }: { result: Payload | null; providerId?: string | null }) {
  return { result, providerId };
}

export function accept(record: LedgerRecord, entry: HistoryEntry | null = null): Change {
  if (entry === null) return { ok: true, record };
  return { ok: true, record: { ...record, history: appended(record.history, entry) } };
}

export function refuse(refusal: Refusal): Change {
  return { ok: false, refusal };
}
