/**
 * A call that is guarded until its answer has arrived: a repeat is one only while the first answer may be lost. That the guard
 * ends with the delivery is promised by the claim, so it shortens nothing that anybody relies on. What is confirmed stays
 * confirmed while it is kept.
 */

import type { Change } from "./ledger-event.ts";
import type { Instant, LedgerRecord } from "./record.ts";
import { accept, refuse } from "./record-changes.ts";

/** The answer of the attempt with this fence has arrived at everybody who asked: from now on the same call is another one. */
export function delivered(current: LedgerRecord, fence: number, at: Instant): Change {
  // A later attempt, or a later record: its answer is another one.
  if (current.fence !== fence) return refuse("stale");
  if (current.state === "claimed" || current.state === "sent") return refuse("leased");
  if (current.state === "unknown") return refuse("in-doubt");
  if (current.terms?.untilDelivered !== true) return refuse("kept");
  if (current.state === "pending") return refuse("not-due");
  return accept({ ...current, updatedAt: at.now, expiresAt: at.now });
}

/**
 * Whether an attempt belongs to the call before: one whose answer had arrived, so that a new record took its place. The fence
 * counts on across records, the attempts begin again.
 */
export function isOfCallBefore({ terms, fence, attempt }: LedgerRecord, claimed: number): boolean {
  return terms?.untilDelivered === true && claimed <= fence - attempt;
}

/** A doubt that is held for a time counts it from the holder's last sign of life, however late the silence was noticed. */
export function silentSince(before: LedgerRecord): Pick<LedgerRecord, "doubtSince" | "doubtMark"> | null {
  return before.terms?.untilDelivered === true ? { doubtSince: before.updatedAt, doubtMark: null } : null;
}
