/** What only queued records go through: an enqueue that finds a record, and work handed back before it was begun. */

import { corrected, otherInputMeets } from "./conflict.ts";
import { appended } from "./history.ts";
import { keepFrom } from "./keep.ts";
import type { Change, LedgerEvent } from "./ledger-event.ts";
import { withoutPlace } from "./order.ts";
import type { Instant, LedgerRecord, StoredError, WorkTerms } from "./record.ts";
import { keptFor, longerKeep } from "./retention.ts";

type EventOf<T extends LedgerEvent["type"]> = Extract<LedgerEvent, { readonly type: T }>;

/** Not begun before its deadline: surely never sent. */
const EXPIRED = "EXPIRED";

export function expiredError(message: string): StoredError {
  return { name: "Expired", message, code: EXPIRED };
}

/**
 * The intent is known already. Settled for good, or queued: nothing changes but how long it is known, and a later deadline
 * replaces the one that it has. Known not to have happened: it is queued anew, with the input that is given, for a send that
 * never happened must not be suppressed. Under way or in doubt by a call's doing: from now on its rest is a worker's business too, or nobody would see
 * to it once the call has given up.
 */
export function queueExisting(current: LedgerRecord, event: EventOf<"enqueue">, at: Instant): Change {
  const { state, queued } = current;
  const meets = event.otherInput === true ? otherInputMeets(current, at) : null;
  if (meets === "conflict") return { ok: false, refusal: "other-input" };
  if (meets === "in-doubt") return { ok: false, refusal: "in-doubt" };
  const isFree = state === "failed" || (state === "pending" && !queued) || meets === "new-round";
  if (!isFree || isOver(current, event, at)) return knownLonger(current, event, at);
  const { fingerprint, input } = event.intent;
  const keepMs = longerKeep(current.keepMs, keepFrom(event.intent, at.now));
  const waiting = {
    ...unsent(meets === null ? current : corrected(current, "pending", at), at, event.dueAt),
    final: false,
    queued: true,
    tries: 0,
    error: null,
    holder: event.holder ?? null,
  };
  const agent = event.intent.agent ?? null;
  const terms = state === "failed" ? (event.terms ?? null) : inItsPlace(current, event.terms ?? null);
  return { ok: true, record: { ...waiting, agent, fingerprint, input, keepMs, terms } };
}

/** Those behind it in its order wait for it, whatever its input is. */
function inItsPlace({ terms }: LedgerRecord, given: WorkTerms | null): WorkTerms | null {
  if (terms?.line === undefined || terms.place === undefined) return given;
  const { line, place, after } = terms;
  return { ...given, line, place, ...(after !== undefined && { after }) };
}

/** Nothing is to be queued again. What has expired would expire again where the deadline that is given has passed too. */
function isOver({ state, final, error }: LedgerRecord, event: EventOf<"enqueue">, at: Instant): boolean {
  const { terms, otherInput = false } = event;
  if (state === "confirmed" || (state === "failed" && final && !otherInput)) return true;
  return state === "failed" && error?.code === EXPIRED && terms?.notAfter !== undefined && terms.notAfter <= at.now;
}

function knownLonger(current: LedgerRecord, { intent, terms }: EventOf<"enqueue">, at: Instant): Change {
  let record = keptFor(current, intent, at) ?? current;
  const isSettled = current.state === "confirmed" || current.state === "failed";
  if (!isSettled && !current.queued) record = { ...record, queued: true };
  const deadline = current.terms?.notAfter;
  if (!isSettled && deadline !== undefined && (terms?.notAfter ?? 0) > deadline)
    record = { ...record, terms: { ...record.terms, notAfter: terms?.notAfter as number } };
  return record === current ? { ok: false, refusal: "exists" } : { ok: true, record };
}

/**
 * Nothing was begun under this lease: the attempt is not counted. The fence is, so that nobody can use it again. Its holder
 * is believed as long as no attempt came after: also when the lease is over, and when the record is unknown for no other
 * reason than that.
 */
export function giveBack(current: LedgerRecord, event: EventOf<"give-back">, at: Instant): Change {
  const { hold, dueAt, yieldsPlace = false } = event;
  const { state, fence, holder, doubted, attempt, tries, history } = current;
  const lapsed = state === "unknown" && history.at(-1)?.event === "lapse";
  const held = state === "claimed" || state === "sent" || lapsed;
  if (!held || fence !== hold.fence || holder !== hold.holder || doubted) return { ok: false, refusal: "stale" };
  const terms = yieldsPlace ? withoutPlace(current.terms) : current.terms;
  const back = { ...unsent(current, at, dueAt), terms, attempt: attempt - 1, tries: Math.max(0, tries - 1) };
  if (!lapsed) return { ok: true, record: back };
  // Somebody may have seen the doubt: how it went away is kept.
  const entry = { at: at.now, event: "not-begun", from: state, to: back.state, attempt };
  return { ok: true, record: { ...back, history: appended(history, entry) } };
}

/** Its holder cannot say so any more: a claimed record whose holder's process has ended was surely not begun, and never will be. */
export function giveBackOfGone(current: LedgerRecord, at: Instant): Change {
  const { state, fence, holder, attempt } = current;
  const hold = { fence, holder: holder as string };
  const back = giveBack(current, { type: "give-back", hold, dueAt: at.now }, at);
  if (!back.ok) return back;
  const reason = "its holder's process had ended before anything was sent";
  const entry = { at: at.now, event: "not-begun", from: state, to: back.record.state, attempt, reason };
  return { ok: true, record: { ...back.record, history: appended(current.history, entry) } };
}

/** The caller names the revision that it put off itself: what others have delayed since is not brought forward. */
export function bringForward(current: LedgerRecord, at: Instant): Change {
  const { state, queued, dueAt } = current;
  if (state !== "pending" || !queued || (dueAt ?? 0) <= at.now) return { ok: false, refusal: "stale" };
  return { ok: true, record: { ...current, dueAt: at.now, updatedAt: at.now } };
}

/** Pending from `dueAt` on, with nothing left of attempts that surely sent nothing. */
function unsent(record: LedgerRecord, at: Instant, dueAt: number): LedgerRecord {
  return {
    ...record,
    state: "pending",
    updatedAt: at.now,
    lease: null,
    dueAt,
    firstSentAt: null,
    lastSentAt: null,
    firstSentMark: null,
    doubtSince: null,
    doubtMark: null,
    why: null,
    settledAt: null,
    expiresAt: null,
    draft: null,
  };
}

/** Who brings a dead letter back wants it done, stale or not, and for as long as at first. */
export function withoutDeadline(record: LedgerRecord): LedgerRecord {
  if (record.terms?.notAfter === undefined) return withoutEnd(record);
  const { notAfter: _over, ...terms } = record.terms;
  return withoutEnd({ ...record, terms });
}

/** Tried from the beginning, with all of its time. */
export function inNewRound(record: LedgerRecord): LedgerRecord {
  return { ...withoutEnd(record), tries: 0 };
}

function withoutEnd(record: LedgerRecord): LedgerRecord {
  if (record.terms?.givesUpAt === undefined) return record;
  const { givesUpAt: _over, ...terms } = record.terms;
  return { ...record, terms: Object.keys(terms).length === 0 ? null : terms };
}

export function withEnd(terms: WorkTerms | null, givesUpAt: number | undefined): WorkTerms | null {
  return givesUpAt === undefined || terms?.givesUpAt === givesUpAt ? terms : { ...terms, givesUpAt };
}
