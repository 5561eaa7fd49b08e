/** How long a record is kept, decided later than at its claim: a part of something longer is kept until the whole has ended. */

import type { Intent } from "./begun-record.ts";
import { LONGEST_DURATION_MS } from "./duration.ts";
import { keepFrom } from "./keep.ts";
import type { Instant, LedgerRecord, StoredError } from "./record.ts";

/** Null: the record is claimed or sent, and whoever settles it decides. Nothing but the retention changes. */
export function retained(current: LedgerRecord, keepMs: number | null, at: Instant): LedgerRecord | null {
  if (current.state === "claimed" || current.state === "sent") return null;
  const isSettled = current.state === "confirmed" || current.state === "failed";
  // What is not settled yet takes its expiry from `keepMs` when it is.
  const expiresAt = isSettled && keepMs !== null ? at.now + keepMs : null;
  return { ...current, updatedAt: at.now, keepMs, expiresAt };
}

/** The code of a failure that nobody will make good: what it was for has gone on without it. */
export const NO_LONGER_NEEDED = "NO_LONGER_NEEDED";

/** Whether a record is kept forever once it is settled in this way. */
export function hasNoEnd(
  { keepMs, terms }: LedgerRecord,
  state: "confirmed" | "failed",
  error: StoredError | null,
): boolean {
  if (keepMs === null) return true;
  return state === "failed" && terms?.keptUntilDone === true && error?.code !== NO_LONGER_NEEDED;
}

/** The longer of two retentions; null is forever. */
export function longerKeep(one: number | null, other: number | null): number | null {
  return one === null || other === null ? null : Math.max(one, other);
}

/**
 * The record, kept for at least as long as this intent asks: what was once promised to be known is never forgotten earlier.
 * Null: it is kept for that long already. A settled record is extended by a deadline only. Its `keep` counts from when it was
 * settled, not from each repeat.
 */
export function keptFor(current: LedgerRecord, intent: Intent, at: Instant): LedgerRecord | null {
  if (current.state !== "confirmed" && current.state !== "failed") {
    const keepMs = longerKeep(current.keepMs, keepFrom(intent, at.now));
    return keepMs === current.keepMs ? null : { ...current, keepMs };
  }
  const leftMs = Math.min(Math.ceil((intent.guardUntil ?? 0) - at.now), LONGEST_DURATION_MS);
  if (current.expiresAt === null || at.now + leftMs <= current.expiresAt) return null;
  return {
    ...current,
    updatedAt: at.now,
    keepMs: longerKeep(current.keepMs, leftMs),
    expiresAt: at.now + leftMs,
  };
}
