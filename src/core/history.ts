/** An entry of a record's history: what happened to it, by whom and why. */
import type { HistoryEntry, Instant, LedgerRecord } from "./record.ts";

export function note(
  from: LedgerRecord,
  event: string,
  to: LedgerRecord["state"],
  at: Instant,
  about: { by?: string | undefined; reason?: string | undefined; error?: string | undefined } = {},
): HistoryEntry {
  return {
    at: at.now,
    event,
    from: from.attempt === 0 ? null : from.state,
    to,
    attempt: from.attempt,
    ...(about.by !== undefined && { by: about.by }),
    ...(about.reason !== undefined && { reason: about.reason }),
    ...(about.error !== undefined && { error: about.error }),
  };
}
