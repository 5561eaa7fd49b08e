/**
 * What happened before the ledger knew of it, as the record that the state machine would have made. Evidence of success is
 * accepted whatever the record says. A failure or a doubt changes no record that is there: it never weakens one.
 */
import { differing, type InputPrint } from "./fingerprint.ts";
import { keepFrom } from "./keep.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive, type Payload, type StoredError } from "./record.ts";
import { longerKeep } from "./retention.ts";
import { type Intent, type LedgerEvent, transition } from "./transition.ts";

export type PastEnd =
  | { readonly as: "done"; readonly result: (fence: number) => Payload | null; readonly providerId?: string | null }
  | { readonly as: "failed"; readonly error: StoredError }
  | { readonly as: "doubt"; readonly why: string };

export interface Past {
  readonly intent: Intent;
  readonly end: PastEnd;
  /** When it happened (epoch ms). */
  readonly at: number;
}

const HOLDER = "import";

/** The record to write in place of `current`; null: `current` stays as it is. */
export function recordPast(current: LedgerRecord | null, past: Past, now: Instant): LedgerRecord | null {
  if (current === null) return begunAndEnded(null, past, { ...now, now: past.at });
  // Its successor is dated now: a record that began before the one it replaces would be read as that one.
  if (expired(current, now.now)) return begunAndEnded(current, past, now);
  if (past.end.as !== "done" || current.state === "confirmed" || leaseAlive(current, now)) return null;
  if (current.fence === 0) return begunAndEnded(current, past, now);
  const hold = { fence: current.fence, holder: HOLDER };
  const keepMs = longerKeep(current.keepMs, keepFrom(past.intent, now.now));
  const { result, providerId = null } = past.end;
  return changed({ ...current, keepMs }, { type: "confirm", hold, result: result(current.fence), providerId }, now);
}

function begunAndEnded(current: LedgerRecord | null, { intent, end }: Past, at: Instant): LedgerRecord | null {
  const claim = { type: "claim", intent, to: "sent", holder: HOLDER, leaseMs: 0, newRound: true } as const;
  const claimed = changed(current, claim, at);
  return claimed && changed(claimed, endOf(end, claimed.fence), at);
}

function endOf(end: PastEnd, fence: number): LedgerEvent {
  const hold = { fence, holder: HOLDER };
  switch (end.as) {
    case "done":
      return { type: "confirm", hold, result: end.result(fence), providerId: end.providerId ?? null };
    case "failed":
      return { type: "not-sent", hold, error: end.error, retryAt: null, final: false };
    case "doubt":
      return { type: "doubt", hold, why: end.why, error: null };
  }
}

function changed(record: LedgerRecord | null, event: LedgerEvent, at: Instant): LedgerRecord | null {
  const change = transition(record, event, at);
  return change.ok ? change.record : null;
}

/** What a call with this input would meet. */
export type NextCall =
  /** It is answered with the stored result. */
  | { readonly as: "repeat" }
  /** It is not run: the record is in doubt, or held by an attempt. */
  | { readonly as: "held" }
  /** It is refused: the record was made with another input. */
  | { readonly as: "conflict"; readonly differs: readonly string[] }
  | { readonly as: "runs" };

export function nextCallOf(
  record: LedgerRecord | null,
  print: InputPrint,
  free: readonly string[],
  now: Instant,
): NextCall {
  if (record === null || expired(record, now.now)) return { as: "runs" };
  if (record.state === "unknown" || record.state === "sent" || leaseAlive(record, now)) return { as: "held" };
  if (record.state !== "confirmed") return record.final ? { as: "held" } : { as: "runs" };
  const { guarded } = differing(record.fingerprint, print, free);
  return guarded.length > 0 ? { as: "conflict", differs: guarded } : { as: "repeat" };
}
