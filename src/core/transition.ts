/**
 * The ledger's state machine: one pure function. Stores swap what it returns; nothing else decides what may follow what.
 *
 * Two rules run through it. Permissions (claim, mark, heartbeat) need a live lease and the present fence. Facts about
 * success are welcome late, from any fence: the effect happened, whoever says so. Facts about failure are not: an old
 * attempt's refusal says nothing about the attempt that followed it.
 */
import { begin, leaseFrom } from "./begun-record.ts";
import { corrected, otherInputMeets } from "./conflict.ts";
import { delivered, isOfCallBefore, silentSince } from "./delivered.ts";
import { heldLongEnough, quietInMs, windowOver } from "./doubt-time.ts";
import { earlierInput, replacedIn } from "./earlier-input.ts";
import { emptied, isEmptied, mayHaveHappenedUnsettled } from "./forgotten.ts";
import { actedBy, note } from "./history.ts";
import { isNoResult, lacksResult } from "./kept-result.ts";
import { isAlias } from "./key/formerly.ts";
import type { Change, LedgerEvent } from "./ledger-event.ts";
import { isOutOfTurn, withoutPlace } from "./order.ts";
import {
  bringForward,
  giveBack,
  giveBackOfGone,
  inNewRound,
  queueExisting,
  withEnd,
  withoutDeadline,
} from "./queued.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive, type StoredError } from "./record.ts";
import { accept, evidence, holds, idle, inDoubt, refuse, renew, sentNow, settled, take } from "./record-changes.ts";
import type { Refusal } from "./refusal.ts";
import { retained } from "./retention.ts";

export type { Intent } from "./begun-record.ts";
export type { Change, Hold, LedgerEvent, ResendPermit } from "./ledger-event.ts";

export function transition(current: LedgerRecord | null, event: LedgerEvent, at: Instant): Change {
  switch (event.type) {
    case "enqueue":
      return enqueue(current, event, at);
    case "claim":
      return claim(current, event, at);
    case "ran-unguarded":
      return ranUnguarded(current, event, at);
    default:
      return current === null ? refuse("absent") : transitionExisting(current, event, at);
  }
}

function transitionExisting(
  current: LedgerRecord,
  event: Exclude<LedgerEvent, { readonly type: "enqueue" | "claim" | "ran-unguarded" }>,
  at: Instant,
): Change {
  switch (event.type) {
    case "resend":
      return resend(current, event, at);
    case "mark":
      return mark(current, event, at);
    case "heartbeat":
      return heartbeat(current, event, at);
    case "confirm":
      return confirm(current, event, at);
    case "not-sent":
      return surelyNotSent(current, event, at);
    case "give-back":
      return giveBack(current, event, at);
    case "bring-forward":
      return bringForward(current, at);
    case "doubt":
      return doubt(current, event, at);
    case "lapse":
      return lapse(current, event, at);
    case "probed":
      return probed(current, event, at);
    case "resolve":
      return resolve(current, event, at);
    case "retry":
      return retry(current, event, at);
    case "delivered":
      return delivered(current, event.fence, at);
    case "forget":
      return forget(current, event, at);
    case "retain": {
      // Kept for longer, what was emptied would guard its key again.
      if (isEmptied(current)) return refuse("absent");
      const record = retained(current, event.keepMs, at);
      return record === null ? refuse("leased") : accept(record);
    }
  }
}

type EventOf<T extends LedgerEvent["type"]> = Extract<LedgerEvent, { readonly type: T }>;

function enqueue(current: LedgerRecord | null, event: EventOf<"enqueue">, at: Instant): Change {
  if (current !== null && !expired(current, at.now)) return queueExisting(current, event, at);
  const begun = begin(event.intent, current, at);
  return accept(
    { ...begun, queued: true, dueAt: event.dueAt, terms: event.terms ?? null, holder: event.holder ?? null },
    event.by === undefined ? null : note(begun, "enqueue", "pending", at, event),
  );
}

function claim(current: LedgerRecord | null, event: EventOf<"claim">, at: Instant): Change {
  if (current === null || expired(current, at.now)) {
    if (event.intent === undefined) return refuse("absent");
    // Begun and taken at once: two records for one claim would be in every call.
    if (event.by === undefined) return accept(begin(event.intent, current, at, event));
    const begun = begin(event.intent, current, at);
    const record = take(begun, event, at);
    return accept(record, note(begun, "resend", record.state, at, event));
  }
  const { otherInput = false } = event;
  const blocked = claimRefusal(current, otherInput, at);
  if (blocked !== null) return refuse(blocked);
  if (event.intent !== undefined && isOutOfTurn(current, event.place)) return refuse("not-its-turn");
  // Nothing was sent under this record, so the newer input (a reworded body, say) is the one to send.
  if (event.intent === undefined) return accept(take(current, event, at));
  const renewed = renew(otherInput ? corrected(current, event.to, at) : current, event.intent, at);
  return accept(take(actedBy(renewed, event.intent.agent ?? null, at), event, at));
}

/** A refusal for good is about the input that was refused: another one may follow it. */
function claimRefusal(current: LedgerRecord, otherInput: boolean, at: Instant): Refusal | null {
  const guarded = () => (otherInput && otherInputMeets(current, at) === "conflict" ? "other-input" : null);
  switch (current.state) {
    case "pending":
      return current.queued && (current.dueAt ?? 0) > at.now ? "not-due" : guarded();
    case "claimed":
      return leaseAlive(current, at) ? "leased" : guarded();
    case "failed":
      return current.final && !otherInput ? "final" : null;
    case "confirmed":
      return "final";
    case "sent":
      return leaseAlive(current, at) ? "leased" : "in-doubt";
    case "unknown":
      return "in-doubt";
  }
}

function resend(current: LedgerRecord, event: EventOf<"resend">, at: Instant): Change {
  if (current.state !== "unknown") return refuse(current.state === "sent" ? "leased" : "not-in-doubt");
  if (event.permit.because === "provider-key" && windowOver(current, event.permit.windowMs, at)) {
    return refuse("window-over");
  }
  if (event.permit.because === "held" && !heldLongEnough(current, event.permit.forMs, at)) return refuse("too-early");
  const record = {
    ...take(current, { ...event, to: "sent" }, at),
    doubted: true,
    agent: event.agent === undefined ? current.agent : event.agent,
  };
  return accept(record, note(current, "resend", "sent", at));
}

function mark(current: LedgerRecord, event: EventOf<"mark">, at: Instant): Change {
  if (current.state !== "claimed" || !holds(current, event.hold)) return refuse("stale");
  if (!leaseAlive(current, at)) return refuse("lease-lost");
  if (event.leaseMs < event.timeoutMs) return refuse("no-room");
  return accept({
    ...current,
    ...sentNow(current, at),
    state: "sent",
    updatedAt: at.now,
    lease: leaseFrom(at, event.leaseMs),
    draft: event.draft,
  });
}

function heartbeat(current: LedgerRecord, event: EventOf<"heartbeat">, at: Instant): Change {
  if ((current.state !== "claimed" && current.state !== "sent") || !holds(current, event.hold)) return refuse("stale");
  if (!leaseAlive(current, at)) return refuse("lease-lost");
  return accept({ ...current, updatedAt: at.now, lease: leaseFrom(at, event.leaseMs) });
}

function confirm(current: LedgerRecord, event: EventOf<"confirm">, at: Instant): Change {
  if (current.state === "confirmed") return refuse("final");
  // A fence that this record never handed out is not evidence about this intent.
  if (event.hold.fence < 1 || event.hold.fence > current.fence) return refuse("stale");
  if (isOfCallBefore(current, event.hold.fence)) return refuse("stale");
  const late = (current.state !== "sent" && current.state !== "claimed") || !holds(current, event.hold);
  const fingerprint = event.of?.fingerprint ?? earlierInput(current, event.hold.fence);
  if (late && fingerprint !== null && fingerprint.guarded !== current.fingerprint.guarded) {
    const input = event.of === undefined ? INPUT_REPLACED : event.of.input;
    return lateSuccessOfAnother(current, event, { fingerprint, input }, at);
  }
  const record = settled(actedBy(current, event.agent, at), "confirmed", at, { ...evidence(event), error: null });
  return accept(record, late ? note(current, "late-success", "confirmed", at) : null);
}

/**
 * It happened, with an input that was corrected since. What is being run, or may have happened, goes on as it is, and its failure
 * no longer means that nothing happened. Where the corrected input was not run, the record is about the one that was.
 */
function lateSuccessOfAnother(
  current: LedgerRecord,
  event: EventOf<"confirm">,
  of: Pick<LedgerRecord, "fingerprint" | "input">,
  at: Instant,
): Change {
  const about = { reason: BEFORE_CORRECTION };
  if (current.state === "sent" || current.state === "unknown" || leaseAlive(current, at)) {
    // Told again: the answer was lost.
    if (current.history.at(-1)?.reason === BEFORE_CORRECTION) return accept(current);
    const sent = current.firstSentAt === null ? sentNow(current, at) : null;
    return accept({ ...current, ...sent, doubted: true }, note(current, "late-success", current.state, at, about));
  }
  const before = { ...actedBy(current, event.agent, at), ...of };
  const entry = note(current, "late-success", "confirmed", at, { ...about, ...replacedIn(current) });
  return accept(settled(before, "confirmed", at, { ...evidence(event), error: null }), entry);
}

export const BEFORE_CORRECTION = "with the input before its correction";
export const INPUT_REPLACED = { omitted: "it was replaced by a correction before its success was known" } as const;

function surelyNotSent(before: LedgerRecord, event: EventOf<"not-sent">, at: Instant): Change {
  if ((before.state !== "claimed" && before.state !== "sent") || !holds(before, event.hold)) return refuse("stale");
  const current = actedBy(before, event.agent, at);
  if (current.doubted) return stillInDoubt(current, event, at);
  const to = event.retryAt === null ? "failed" : "pending";
  const entry = note(current, event.final ? "rejected" : "not-sent", to, at, { error: event.error.message });
  if (event.retryAt === null) {
    return accept(settled(current, "failed", at, { error: event.error, final: event.final }), entry);
  }
  const terms = withEnd(current.terms, event.givesUpAt);
  return accept({ ...idle(current, at, event.retryAt), terms, error: event.error }, entry);
}

/** A resend that was not sent, or was refused, leaves the attempt before it as doubtful as it was. */
function stillInDoubt(current: LedgerRecord, event: { readonly error: StoredError }, at: Instant): Change {
  const why = "an earlier attempt may have happened; the last one did not";
  const entry = note(current, "not-sent", "unknown", at, { error: event.error.message });
  return accept({ ...inDoubt(current, at, why), error: event.error }, entry);
}

function doubt(current: LedgerRecord, event: EventOf<"doubt">, at: Instant): Change {
  if (current.state !== "sent" || !holds(current, event.hold)) return refuse("stale");
  return accept(
    { ...inDoubt(current, at, event.why), error: event.error },
    note(current, "doubt", "unknown", at, { reason: event.why, ...(event.error && { error: event.error.message }) }),
  );
}

function lapse(current: LedgerRecord, { gone }: EventOf<"lapse">, at: Instant): Change {
  if (current.state === "claimed" && gone) return giveBackOfGone(current, at);
  if (current.state !== "sent") return refuse("not-in-doubt");
  if (leaseAlive(current, at) && !gone) return refuse("leased");
  const why = gone
    ? "its holder's process has ended without reporting a result"
    : "its holder stopped answering after the send mark: the lease ran out";
  return accept({ ...inDoubt(current, at, why), ...silentSince(current) }, note(current, "lapse", "unknown", at));
}

function probed(current: LedgerRecord, event: EventOf<"probed">, at: Instant): Change {
  if (current.state !== "unknown") return refuse("not-in-doubt");
  if (current.fence !== event.fence) return refuse("stale");
  if (quietInMs(current, event.quietForMs, at) > 0) return refuse("too-early");
  if (event.answer.as === "done") {
    const record = settled(current, "confirmed", at, { ...evidence(event.answer), error: null });
    return accept(record, note(current, "probed-done", "confirmed", at));
  }
  if (event.answer.as === "unknown") {
    const { why, error } = event.answer;
    return accept(
      { ...current, updatedAt: at.now, why, error },
      note(current, "probed-unknown", "unknown", at, { reason: why, error: error.message }),
    );
  }
  if (event.answer.noneLeft !== true)
    return accept(idle(current, at, at.now), note(current, "probed-not-done", "pending", at));
  const error = event.answer.error ??
    current.error ?? { name: "NotDone", message: current.why ?? "the probe answered that it was not done" };
  return accept(settled(current, "failed", at, { error }), note(current, "probed-not-done", "failed", at));
}

function resolve(current: LedgerRecord, event: EventOf<"resolve">, at: Instant): Change {
  if (current.state === "sent" && leaseAlive(current, at)) return refuse("leased");
  const event_ = `resolved-${event.as}`;
  // Done it stays; what it returned was not on record, and is added.
  if (event.as === "done" && givesResult(event) && lacksResult(current) && !isAlias(current))
    return accept({ ...current, updatedAt: at.now, ...evidence(event) }, note(current, event_, "confirmed", at, event));
  if (current.state !== "unknown" && current.state !== "sent") return refuse("not-in-doubt");
  switch (event.as) {
    case "done":
      return accept(
        settled(current, "confirmed", at, { ...evidence(event), error: null }),
        note(current, event_, "confirmed", at, event),
      );
    case "not-done":
      return accept(inNewRound(idle(current, at, at.now)), note(current, event_, "pending", at, event));
    case "failed": {
      const error: StoredError = { name: "Resolved", message: event.reason };
      return accept(settled(current, "failed", at, { error, final: true }), note(current, event_, "failed", at, event));
    }
  }
}

const givesResult = ({ result }: EventOf<"resolve">) =>
  result !== null && (!("omitted" in result) || isNoResult(result));

function retry(current: LedgerRecord, event: EventOf<"retry">, at: Instant): Change {
  if (current.state !== "failed") return refuse("not-failed");
  // Those behind it went on without it, so its old place is gone: it goes to the end of its order.
  const revived = withoutDeadline({ ...idle(current, at, at.now), tries: 0, terms: withoutPlace(current.terms) });
  return accept(revived, note(current, "retry", "pending", at, event));
}

function forget(current: LedgerRecord, { evenInDoubt }: EventOf<"forget">, at: Instant): Change {
  const leased = current.state === "claimed" || current.state === "sent";
  if (leased && leaseAlive(current, at)) return refuse("leased");
  if (mayHaveHappenedUnsettled(current) && !evenInDoubt) return refuse("in-doubt");
  return accept(emptied(current, at));
}

/** A fact in hindsight, welcome as a late success is. A failure says nothing about an attempt that the ledger knows of. */
function ranUnguarded(current: LedgerRecord | null, event: EventOf<"ran-unguarded">, at: Instant): Change {
  const { intent, holder, end } = event;
  const known = current === null || expired(current, at.now) ? null : current;
  const isOurs = known !== null && known.holder === holder && (known.state === "claimed" || known.state === "sent");
  if (known?.state === "confirmed" || (known?.state === "failed" && known.final)) {
    if (known.state === "confirmed" || end.as === "failed") return refuse("final");
  }
  if (end.as === "failed" && known !== null && !isOurs) return refuse("exists");
  const claimed = { to: "sent", holder, leaseMs: 0, newRound: true } as const;
  // What the ledger knows may have happened with its own input; nothing else has.
  const happened = known?.state === "sent" || known?.state === "unknown";
  const renewed = (of: LedgerRecord) =>
    renew(of.fingerprint.guarded === intent.fingerprint.guarded ? of : corrected(of, "sent", at), intent, at);
  const wanted = () => (happened ? (known as LedgerRecord) : renewed(known as LedgerRecord));
  const taken = () => take(actedBy(wanted(), intent.agent ?? null, at), claimed, at);
  const ran = isOurs
    ? { ...known, ...sentNow(known, at) }
    : known === null
      ? begin(intent, current, at, claimed)
      : taken();
  switch (end.as) {
    case "done":
      return accept(
        settled(ran, "confirmed", at, { ...evidence(end), error: null }),
        note(ran, "ran-unguarded", "confirmed", at),
      );
    case "failed":
      if (ran.doubted) return stillInDoubt(ran, end, at);
      return accept(
        settled(ran, "failed", at, { error: end.error, final: end.final }),
        note(ran, "ran-unguarded", "failed", at, { error: end.error.message }),
      );
    case "unknown": {
      const entry = note(ran, "ran-unguarded", "unknown", at, { reason: end.why });
      // Another attempt is sending: the doubt is kept beside it, so that its failure does not end it.
      if (known?.state === "sent" && !isOurs && leaseAlive(known, at))
        return accept({ ...known, doubted: true }, entry);
      return accept({ ...inDoubt(ran, at, end.why), error: end.error }, entry);
    }
  }
}
