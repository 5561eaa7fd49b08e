/** How long a record is kept, decided later than at its claim: a part of something longer is kept until the whole has ended. */
import type { Instant, LedgerRecord } from "./record.ts";

/** Null: the record is claimed or sent, and whoever settles it decides. Nothing but the retention changes. */
export function retained(current: LedgerRecord, keepMs: number | null, at: Instant): LedgerRecord | null {
  if (current.state === "claimed" || current.state === "sent") return null;
  const isSettled = current.state === "confirmed" || current.state === "failed";
  // What is not settled yet takes its expiry from `keepMs` when it is.
  const expiresAt = isSettled && keepMs !== null ? at.now + keepMs : null;
  return { ...current, updatedAt: at.now, keepMs, expiresAt };
}
