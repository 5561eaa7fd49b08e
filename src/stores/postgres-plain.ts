/**
 * The two writes of a plain call, recognised at a glance: nearly all that a lone caller writes. What is of one kind is
 * written by one statement, whose text and parameters the first of it has shown.
 */
import type { LedgerRecord } from "../core/record.ts";
import { YOUNG_MS } from "./postgres-row.ts";
import type { PlannedPut } from "./postgres-write.ts";

/** Null: no plain write. */
export type PlainKind = "claim" | "confirm" | "confirm-at-once" | null;

export function plainKind({ put: { record }, way, before }: PlannedPut, now: number): PlainKind {
  if (way === "insert") return isPlainClaim(record, now) ? "claim" : null;
  if (before === null || !isPlainConfirm(before, record, now)) return null;
  // Within the millisecond, the time of the change is the row's already.
  return record.updatedAt === before.updatedAt ? "confirm-at-once" : "confirm";
}

/** The first claim of an intent, sent at once. */
function isPlainClaim(record: LedgerRecord, now: number): boolean {
  const { createdAt, lease, firstSentMark } = record;
  return (
    record.state === "sent" &&
    isPlainlyUnderWay(record, now) &&
    record.attempt === 1 &&
    record.fence === 1 &&
    record.tries === 1 &&
    record.input !== null &&
    record.draft === null &&
    record.scope === null &&
    record.holder !== null &&
    lease !== null &&
    lease.epoch === "" &&
    record.updatedAt === createdAt &&
    record.firstSentAt === createdAt &&
    record.lastSentAt === createdAt &&
    firstSentMark !== null &&
    firstSentMark.at === createdAt &&
    firstSentMark.epoch === ""
  );
}

/** The confirmation of what the row holds. */
function isPlainConfirm(before: LedgerRecord, after: LedgerRecord, now: number): boolean {
  return (
    after.state === "confirmed" &&
    isPlainClaim(before, now) &&
    after.attempt === before.attempt &&
    after.fence === before.fence &&
    after.tries === before.tries &&
    after.holder === before.holder &&
    after.tenant === before.tenant &&
    after.createdAt === before.createdAt &&
    after.firstSentAt === before.firstSentAt &&
    after.lastSentAt === before.lastSentAt &&
    after.lease === null &&
    after.firstSentMark === null &&
    after.settledAt === after.updatedAt &&
    after.expiresAt !== null &&
    after.result !== null &&
    hasNoFate(after)
  );
}

function isPlainlyUnderWay(record: LedgerRecord, now: number): boolean {
  return (
    record.tenant === "" &&
    !record.queued &&
    // From then on it wants attention.
    record.createdAt >= now - YOUNG_MS &&
    record.settledAt === null &&
    record.expiresAt === null &&
    record.result === null &&
    hasNoFate(record)
  );
}

function hasNoFate(record: LedgerRecord): boolean {
  return (
    record.dueAt === null &&
    record.doubtSince === null &&
    record.doubtMark === null &&
    record.why === null &&
    !record.final &&
    record.error === null
  );
}
