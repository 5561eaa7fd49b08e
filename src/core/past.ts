/**
 * What happened before the ledger knew of it, as the record that the state machine would have made. Evidence of success is
 * accepted whatever the record says. A failure changes no record that is there. A doubt changes only one that a worker or a
 * call would run next: what may have happened elsewhere is not run.
 */

import { type OtherInput, otherInputMeets } from "./conflict.ts";
import { keepFrom } from "./keep.ts";
import { canCompare, differingKnown, type InputPrint } from "./key/fingerprint.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive, type Payload, type StoredError } from "./record.ts";
import { longerKeep } from "./retention.ts";
import { type Hold, type Intent, type LedgerEvent, transition } from "./transition.ts";

export type PastEnd =
  | { readonly as: "done"; readonly result: (fence: number) => Payload | null; readonly providerId?: string | null }
  | { readonly as: "failed"; readonly error: StoredError }
  | { readonly as: "doubt"; readonly why: string }
  /** Recorded and never begun: a worker is to run it, not before `dueAt`. */
  | { readonly as: "queued"; readonly dueAt: number };

export interface Past {
  readonly intent: Intent;
  readonly end: PastEnd;
  /** When it happened (epoch ms); null: not known. */
  readonly at: number | null;
  /** It was in an outbox: brought back by `retry` or `resolve`, it is a worker's to run. */
  readonly queued?: boolean;
}

type Ended = Exclude<PastEnd, { readonly as: "queued" }>;

const HOLDER = "import";
/** Not the claim's own: success is then noted as late, and what comes before it in its order is still looked at. */
const WITNESS = "import of a later row";

/** The record to write in place of `current`; null: `current` stays as it is. */
export function recordPast(current: LedgerRecord | null, past: Past, now: Instant): LedgerRecord | null {
  const { end } = past;
  if (current === null || expired(current, now.now)) {
    if (end.as === "queued") return changed(current, enqueueOf(past, end.dueAt), now);
    // Its successor is dated now: a record that began before the one it replaces would be read as that one.
    return begun(current, past, end, current === null ? { ...now, now: past.at ?? now.now } : now);
  }
  if (current.state === "confirmed" || leaseAlive(current, now)) return null;
  if (end.as === "doubt" && mayRunNext(current, past)) return taken(current, past, end, now);
  if (end.as !== "done") return null;
  if (current.fence === 0) return taken(current, past, end, now);
  const hold = { fence: current.fence, holder: HOLDER };
  const { result, providerId = null } = end;
  const evidence = { type: "confirm", hold, of: current, result: result(current.fence), providerId } as const;
  return changed(withKeep(current, past, now), evidence, now);
}

/**
 * Whether a worker or a call would run the record although the row, which is newer, says that it may have happened. A record
 * that was never tried is not compared by time: nothing about it is newer.
 */
function mayRunNext({ state, queued, final, fence, updatedAt }: LedgerRecord, { at }: Past): boolean {
  if (state === "pending" && queued && fence === 0) return true;
  return (state === "pending" || (state === "failed" && !final)) && at !== null && at > updatedAt;
}

const CLAIM = { type: "claim", to: "sent", holder: HOLDER, leaseMs: 0, newRound: true } as const;

function begun(expiredOne: LedgerRecord | null, past: Past, end: Ended, at: Instant): LedgerRecord | null {
  const queued = past.queued === true ? changed(expiredOne, enqueueOf(past, at.now), at) : null;
  const claimed = changed(queued ?? expiredOne, queued === null ? { ...CLAIM, intent: past.intent } : CLAIM, at);
  return claimed && changed(claimed, endOf(end, { fence: claimed.fence, holder: HOLDER }), at);
}

/** Its input stays: the row may know less of it. As a worker claims, without a turn in its order, because nothing is run. */
function taken(current: LedgerRecord, past: Past, end: Ended, at: Instant): LedgerRecord | null {
  const due = changed(current, { type: "bring-forward" }, at) ?? current;
  const claimed = changed(withKeep(due, past, at), CLAIM, at);
  const holder = end.as === "done" ? WITNESS : HOLDER;
  return claimed && changed(claimed, endOf(end, { fence: claimed.fence, holder }), at);
}

function withKeep(current: LedgerRecord, { intent }: Past, { now }: Instant): LedgerRecord {
  return { ...current, keepMs: longerKeep(current.keepMs, keepFrom(intent, now)) };
}

function enqueueOf({ intent }: Past, dueAt: number): LedgerEvent {
  return { type: "enqueue", intent, dueAt, holder: HOLDER };
}

function endOf(end: Ended, hold: Hold): LedgerEvent {
  switch (end.as) {
    case "done":
      return { type: "confirm", hold, result: end.result(hold.fence), providerId: end.providerId ?? null };
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
  /** A worker is to run it, once. */
  | { readonly as: "queued" }
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
  const mustCompare = record.state === "confirmed" || canCompare(record.fingerprint, print);
  const guarded = mustCompare ? differingKnown(record.fingerprint, print, free).guarded : [];
  if (guarded.length > 0) return nextOther(otherInputMeets(record, now), guarded);
  if (record.state === "unknown" || record.state === "sent" || leaseAlive(record, now)) return { as: "held" };
  if (record.state === "pending" && record.queued) return { as: "queued" };
  if (record.state === "confirmed") return { as: "repeat" };
  return record.final ? { as: "held" } : { as: "runs" };
}

function nextOther(meets: OtherInput, differs: readonly string[]): NextCall {
  if (meets === "new-round") return { as: "runs" };
  return meets === "in-doubt" ? { as: "held" } : { as: "conflict", differs };
}
