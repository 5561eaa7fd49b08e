/** What only queued records go through: an enqueue that finds a record, and work handed back before it was begun. */
import { keepFrom } from "./keep.ts";
import { withoutPlace } from "./order.ts";
import { HISTORY_LIMIT, type Instant, type LedgerRecord } from "./record.ts";
import type { Change, LedgerEvent } from "./transition.ts";

type EventOf<T extends LedgerEvent["type"]> = Extract<LedgerEvent, { readonly type: T }>;

/**
 * The intent is known already. Settled for good: nothing to do. Known not to have happened: it is queued anew, for a
 * send that never happened must not be suppressed. Under way or in doubt by a call's doing: from now on its rest is a
 * worker's business too, or nobody would see to it once the call has given up.
 */
export function queueExisting(current: LedgerRecord, event: EventOf<"enqueue">, at: Instant): Change {
  const { state, queued, final } = current;
  if (state === "confirmed" || (state === "failed" && final)) return { ok: false, refusal: "exists" };
  if (state !== "failed" && queued) return { ok: false, refusal: "exists" };
  if (state !== "failed" && state !== "pending") return { ok: true, record: { ...current, queued: true } };
  const { fingerprint, input } = event.intent;
  const keepMs = keepFrom(event.intent, at.now);
  const waiting = {
    ...unsent(current, at, event.dueAt),
    queued: true,
    tries: 0,
    error: null,
    holder: event.holder ?? null,
  };
  return { ok: true, record: { ...waiting, fingerprint, input, keepMs, terms: event.terms ?? null } };
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
  return { ok: true, record: { ...back, history: [...history, entry].slice(-HISTORY_LIMIT) } };
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

/** Who brings a dead letter back wants it done, stale or not. */
export function withoutDeadline(record: LedgerRecord): LedgerRecord {
  if (record.terms?.notAfter === undefined) return record;
  const { notAfter: _over, ...terms } = record.terms;
  return { ...record, terms };
}
