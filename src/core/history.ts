/** An entry of a record's history: what happened to it, by whom and why. */
import { HISTORY_LIMIT, type HistoryEntry, type Instant, type LedgerRecord, type ReplacedInput } from "./record.ts";

export function note(
  from: LedgerRecord,
  event: string,
  to: LedgerRecord["state"],
  at: Instant,
  about: {
    by?: string | undefined;
    reason?: string | undefined;
    error?: string | undefined;
    replaced?: ReplacedInput;
  } = {},
): HistoryEntry {
  return {
    at: at.now,
    event,
    from: from.attempt === 0 ? null : from.state,
    to,
    attempt: from.attempt,
    ...(from.agent !== null && { agent: from.agent }),
    ...(about.by !== undefined && { by: about.by }),
    ...(about.reason !== undefined && { reason: about.reason }),
    ...(about.error !== undefined && { error: about.error }),
    ...(about.replaced !== undefined && { replaced: about.replaced }),
  };
}

/** With one more entry. The oldest go, but not the last that names an input: late successes are judged by it. */
export function appended(history: readonly HistoryEntry[], entry: HistoryEntry): readonly HistoryEntry[] {
  const all = [...history, entry];
  const kept = all.slice(-HISTORY_LIMIT);
  const last = all.findLast(({ replaced }) => replaced !== undefined);
  return last === undefined || kept.includes(last) ? kept : [last, ...kept.slice(1)];
}

/** The record as another agent goes on with it. Who was at it before is kept, unless the history names it already. */
export function actedBy(record: LedgerRecord, agent: string | null | undefined, at: Instant): LedgerRecord {
  if (agent === undefined || agent === record.agent) return record;
  const last = record.history.at(-1);
  const isNamed = last !== undefined && last.attempt === record.attempt && last.agent === record.agent;
  if (record.agent === null || isNamed) return { ...record, agent };
  return { ...record, agent, history: appended(record.history, note(record, "taken-over", record.state, at)) };
}
