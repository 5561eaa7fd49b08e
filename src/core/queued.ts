/** What only queued records go through: an enqueue that finds a record, and work handed back before it was begun. */
import type { Instant, LedgerRecord } from "./record.ts";
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
  const { fingerprint, input, keepMs } = event.intent;
  const waiting = {
    ...unsent(current, at, event.dueAt),
    queued: true,
    tries: 0,
    error: null,
    holder: event.holder ?? null,
  };
  return { ok: true, record: { ...waiting, fingerprint, input, keepMs, terms: event.terms ?? null } };
}

/** Nothing was begun under this lease: the attempt is not counted. The fence is, so that nobody can use it again. */
export function giveBack(current: LedgerRecord, { hold, dueAt }: EventOf<"give-back">, at: Instant): Change {
  const { state, fence, holder, doubted, attempt, tries } = current;
  const held = (state === "claimed" || state === "sent") && fence === hold.fence && holder === hold.holder;
  if (!held || doubted) return { ok: false, refusal: "stale" };
  const record = { ...unsent(current, at, dueAt), attempt: attempt - 1, tries: Math.max(0, tries - 1) };
  return { ok: true, record };
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
