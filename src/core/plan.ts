/** What a caller does next, given the record as it stands. Pure: the engine only carries it out. */

import { heldLongEnough, quietInMs, windowOver } from "./doubt-time.ts";
import type { Policy } from "./policy.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive } from "./record.ts";
import { hasTriesLeft, mayResend } from "./retry.ts";
import type { ResendPermit } from "./transition.ts";

export type Step =
  /** Nothing stands in the way: claim it. */
  | { readonly do: "claim" }
  /** Say what is true. */
  | { readonly do: "answer" }
  /** Another attempt holds it. */
  | { readonly do: "wait-for-holder" }
  /** It belongs to an order: see to its place, and claim it if nothing stands before it. */
  | { readonly do: "take-turn" }
  /** Something may be done, but not before. */
  | { readonly do: "wait"; readonly ms: number }
  /** A holder fell silent: make the doubt visible first. */
  | { readonly do: "lapse" }
  | { readonly do: "resend"; readonly permit: ResendPermit }
  | { readonly do: "probe"; readonly quietForMs: number };

export interface Situation {
  readonly policy: Policy;
  readonly at: Instant;
  /** The first claim of this call: a new round of tries. */
  readonly newRound: boolean;
  /** The call keeps to the pause after the last try, whoever made it. */
  readonly paced?: boolean;
  /** The call's input differs from the one on record in guarded fields, and the record is no conflict for it. */
  readonly otherInput?: boolean;
  /** The bytes of the attempt in doubt are at hand, so that a resend can be the same. */
  readonly sameBytes: boolean;
}

export function nextStep(record: LedgerRecord | null, situation: Situation): Step {
  const { at, newRound, policy, otherInput = false } = situation;
  if (record === null || expired(record, at.now)) return { do: "claim" };
  const claim: Step = record.terms?.line === undefined ? { do: "claim" } : { do: "take-turn" };
  switch (record.state) {
    case "pending": {
      // The pause and the tries are those of the input on record: another one begins its own round.
      const early = record.queued || (situation.paced && !otherInput) ? (record.dueAt ?? 0) - at.now : 0;
      if (early > 0) return { do: "wait", ms: early };
      return otherInput || newRound || hasTriesLeft(policy, record, at.now) ? claim : { do: "answer" };
    }
    case "claimed":
      return leaseAlive(record, at) ? { do: "wait-for-holder" } : claim;
    case "sent":
      return leaseAlive(record, at) ? { do: "wait-for-holder" } : { do: "lapse" };
    case "confirmed":
      return { do: "answer" };
    case "failed":
      if (otherInput) return claim;
      // A call that keeps to the pauses of earlier ones goes by them here too: no next try was set, so there is none.
      if (record.final || (situation.paced === true && !newRound)) return { do: "answer" };
      return newRound || hasTriesLeft(policy, record, at.now) ? claim : { do: "answer" };
    case "unknown":
      return settleStep(record, situation);
  }
}

function settleStep(record: LedgerRecord, { policy, at, newRound, sameBytes, otherInput }: Situation): Step {
  // What may have happened is never sent again with another input: only a probe can settle it for this call.
  const triesLeft = otherInput !== true && (newRound || mayResend(policy, record));
  if (policy.doubt.kind === "hold") {
    const { forMs } = policy.doubt;
    if (forMs === undefined || !triesLeft || !heldLongEnough(record, forMs, at)) return { do: "answer" };
    return { do: "resend", permit: { because: "held", forMs } };
  }
  if (policy.doubt.kind === "retry") {
    return triesLeft ? { do: "resend", permit: { because: "asked-for" } } : { do: "answer" };
  }
  const { resendWithinMs, probe } = policy.doubt;
  if (resendWithinMs !== null && triesLeft && sameBytes && !windowOver(record, resendWithinMs, at)) {
    return { do: "resend", permit: { because: "provider-key", windowMs: resendWithinMs } };
  }
  if (probe === null) return { do: "answer" };
  const early = quietInMs(record, probe.quietForMs, at);
  return early > 0 ? { do: "wait", ms: early } : { do: "probe", quietForMs: probe.quietForMs };
}
