/** Whether a call's input is the one that a record is about, and what follows where it is another. The rule is core's. */

import { type OtherInput, otherInputMeets } from "../core/conflict.ts";
import { canCompare, differing } from "../core/key/fingerprint.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import type { DoubtPolicy } from "../core/policy.ts";
import { expired, type Instant, type LedgerRecord } from "../core/record.ts";
import type { Call } from "./call.ts";

export interface Other {
  /** The guarded fields that differ. */
  readonly differs: readonly string[];
  readonly meets: OtherInput;
}

/** Null: the record is about this input, or guards nothing any more. Throws where the two must be compared, and cannot be. */
export function otherInputOf(call: Call, record: LedgerRecord, at: Instant): Other | null {
  if (expired(record, at.now)) return null;
  if (!canCompare(record.fingerprint, call.print) && isReplacedByAny(record)) return null;
  const { guarded } = differing(record.fingerprint, call.print, call.definition.free);
  return guarded.length === 0 ? null : { differs: guarded, meets: otherInputMeets(record, at) };
}

/** Known not to have happened, refused or not by its input: every call goes on with its own. */
function isReplacedByAny({ state, final, queued }: LedgerRecord): boolean {
  return (state === "failed" && !final) || (state === "pending" && !queued);
}

/** The same for a call that runs nothing on a record which it cannot compare, and shows nothing of it. */
export function otherInputIfKnown(call: Call, record: LedgerRecord, at: Instant): Other | null {
  if (!canCompare(record.fingerprint, call.print) && isSafeUncompared(record, call)) return null;
  return otherInputOf(call, record, at);
}

/**
 * The record's digests belong to an encryption key that is not given. Answers that run nothing and show no result need
 * no comparison: a result that is sealed, and a doubt that this call will not run again with its own input.
 */
function isSafeUncompared({ state, result }: LedgerRecord, { definition }: Call): boolean {
  if (state === "confirmed") return result !== null && !("json" in result);
  return (state === "sent" || state === "unknown") && !runsItsOwnInput(definition.policy.doubt);
}

/** What is sent again after a doubt is the call's own input, and not the one on record. */
function runsItsOwnInput(doubt: DoubtPolicy): boolean {
  return doubt.kind === "retry" || (doubt.kind === "hold" && doubt.forMs !== undefined);
}

/** The call begins a new round on what is known not to have happened with the input on record. */
export function isCorrected(call: Call, record: LedgerRecord | null, at: Instant): boolean {
  return record !== null && otherInputIfKnown(call, record, at)?.meets === "new-round";
}

/** What a call that only looks is told: as an attempt with its input would be, as far as the two can be compared. */
export function asSeenBy(
  call: Call,
  record: LedgerRecord,
  outcome: Outcome<unknown> | Absent,
  at: Instant,
): Outcome<unknown> | Absent {
  const { fingerprint } = record;
  if (outcome.status === "absent" || !canCompare(fingerprint, call.print)) return outcome;
  const other = otherInputOf(call, record, at);
  if (other?.meets === "conflict") return { status: "conflict", key: outcome.key, differs: other.differs };
  return outcome.status === "done" ? withFreeDiffers(outcome, call, record) : withDiffers(outcome, other);
}

/** Done, with the free fields in which the call differs. */
export function withFreeDiffers<O extends Outcome<unknown>>(outcome: O, call: Call, { fingerprint }: LedgerRecord): O {
  const { free } = differing(fingerprint, call.print, call.definition.free);
  return free.length > 0 ? { ...outcome, differs: free } : outcome;
}

/** A doubt says in which fields the call differs from what may have been sent. */
export function withDiffers(outcome: Outcome<unknown>, other: Other | null): Outcome<unknown> {
  return outcome.status === "unknown" && other !== null ? { ...outcome, differs: other.differs } : outcome;
}
