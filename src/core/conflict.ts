/**
 * The same key with another input: what the record means for it. One rule for calls, transactions, queued work, attempts
 * made outside of the process, imports, and the functions inside PostgreSQL.
 *
 * A conflict guards what happened, what happens now, and what is going to happen with the input on record. What may have
 * happened is reported as the doubt that it is. What is known not to have happened, and is nobody's to run, may be
 * corrected: the other input starts a new round.
 */
import { replacedIn } from "./earlier-input.ts";
import { appended, note } from "./history.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive } from "./record.ts";

export type OtherInput =
  /** It happened, it happens, or a worker is going to run it with the input on record. */
  | "conflict"
  /** It may have happened: nothing is run with the other input until the doubt is settled. */
  | "in-doubt"
  /** Known not to have happened: the other input replaces the one on record, and a new round of tries begins. */
  | "new-round";

/** Of a record whose guarded fields differ from those of the call. */
export function otherInputMeets(record: LedgerRecord, at: Instant): OtherInput {
  if (expired(record, at.now)) return "new-round";
  switch (record.state) {
    case "confirmed":
      return "conflict";
    case "unknown":
      return "in-doubt";
    case "sent":
      return leaseAlive(record, at) ? "conflict" : "in-doubt";
    case "claimed":
      // Doubted: an attempt with an earlier input has had the effect, and nobody has decided about it yet.
      return leaseAlive(record, at) || record.doubted || isGoingToRun(record) ? "conflict" : "new-round";
    case "pending":
      return isGoingToRun(record) ? "conflict" : "new-round";
    case "failed":
      return "new-round";
  }
}

/** As another input begins a new round on it: the history says so. */
export function corrected(record: LedgerRecord, to: LedgerRecord["state"], at: Instant): LedgerRecord {
  return { ...record, history: appended(record.history, note(record, "corrected", to, at, replacedIn(record))) };
}

/**
 * Queued: a worker runs it with the input on record. After somebody decided that it did not happen, a corrected input may
 * take its place until a worker has begun it.
 */
function isGoingToRun({ queued, history }: Pick<LedgerRecord, "queued" | "history">): boolean {
  return queued && history.findLast(({ event }) => event !== "taken-over")?.event !== "resolved-not-done";
}
