/**
 * The words, one meaning each:
 *
 * action   a named kind of side effect, and how to key, run and settle it
 * intent   one thing an agent means to do
 * key      the digest that names an intent
 * record   the ledger's row for an intent
 * attempt  one numbered try
 * fence    grows by one at each claim; a write with an old fence is refused
 * holder   random id of the claimer, so that it knows its own claim when a reply was lost
 * lease    how long a holder may act without a heartbeat
 * doubt    sent, no answer
 * scope    a run, session or thread id
 * agent    the name of the program, bot or model that acted; it is not part of the key
 */

/** pending: waiting until dueAt · claimed: leased, surely not sent · sent: leased, may have happened. */
export type State = "pending" | "claimed" | "sent" | "confirmed" | "failed" | "unknown";

export const STATES: readonly State[] = ["pending", "claimed", "sent", "confirmed", "failed", "unknown"];

/**
 * A moment, read once and handed to pure functions. `now` is wall time (epoch ms) for what people read: created, due,
 * expired. `steady` never jumps and is what leases are measured on; `epoch` names its origin, so that a lease taken
 * before a reboot is known to be over.
 */
export interface Instant {
  readonly now: number;
  readonly steady: number;
  readonly epoch: string;
}

export interface Lease {
  /** On the steady clock of `epoch`. */
  readonly until: number;
  readonly epoch: string;
}

/** A point on the steady clock, kept beside a wall time so that spans can be judged by both. */
export interface SteadyMark {
  readonly at: number;
  readonly epoch: string;
}

/**
 * A stored input, draft or result: as JSON text, sealed by `encrypt`, or left out (with the reason). Text, not a value:
 * each reader parses an object of its own, and a settle does not serialise the input again.
 */
export type Payload = { readonly json: string } | { readonly sealed: string } | { readonly omitted: string };

/** Digests of an input: enough to tell a repeat from another input, and to name the fields that differ. */
export interface Fingerprint {
  /** Digest of all guarded fields together. */
  readonly guarded: string;
  /** Digest of all free fields together; null when there are none. */
  readonly free: string | null;
  /** One digest per top-level field, guarded and free; "" stands for an input that is not an object. */
  readonly fields: Readonly<Record<string, string>>;
}

export interface StoredError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
}

/** What happened to a record besides the plain way (claim, send, confirm). Newest last, bounded. */
export interface HistoryEntry {
  readonly at: number;
  readonly event: string;
  readonly from: State | null;
  readonly to: State;
  readonly attempt: number;
  /** Who made that attempt. */
  readonly agent?: string;
  readonly by?: string;
  readonly reason?: string;
  readonly error?: string;
  /** Another input took the place of this one. */
  readonly replaced?: ReplacedInput;
}

/** The input of the attempts with the fences `from` to `to`. */
export interface ReplacedInput extends Fingerprint {
  readonly from: number;
  readonly to: number;
}

export const HISTORY_LIMIT = 30;

/** How workers are to take a queued record; what is absent is as usual. */
export interface WorkTerms {
  /** Not to be begun after this (epoch ms): then it fails as expired. */
  readonly notAfter?: number;
  /** Its tries end here (epoch ms). Absent: it has not failed yet, or its number of tries is the only bound. */
  readonly givesUpAt?: number;
  /** It goes ahead of work that became due up to this many steps before it (PRIORITY_STEP_MS). */
  readonly priority?: number;
  /** The order it belongs to, by the key of the order's note. */
  readonly line?: string;
  /** Its place in that order. Absent: not placed yet, and not to be begun. */
  readonly place?: number;
  /** The key of the record before it in its order: not begun until that one is settled. Absent: it is the first. */
  readonly after?: string;
  /** Once failed it is kept without an end: it is forgotten only after it was done, or given another `keep`. */
  readonly keptUntilDone?: boolean;
  /** A call whose record guards it until its answer has arrived at whoever called, and for `keepMs` at most. */
  readonly untilDelivered?: boolean;
}

/**
 * Priority is a head start, not a class: a step is a minute, so that work of the highest priority passes a backlog of
 * nine minutes, and no flood of it keeps older work waiting for longer than that.
 */
export const PRIORITY_STEP_MS = 60_000;

export interface LedgerRecord {
  readonly key: string;
  /** "" when no tenant was given. */
  readonly tenant: string;
  readonly action: string;
  /** The intent's version, part of the key: 1, and one more at each deliberate resend. */
  readonly version: number;
  readonly scope: string | null;
  /** Who made the last attempt, or enqueued what was not attempted yet; null: nobody named one. */
  readonly agent: string | null;
  readonly state: State;
  /** Numbered tries since the record began. */
  readonly attempt: number;
  readonly fence: number;
  /** Tries in the present round; a new call, `retry` or `resolve` begins a new one. */
  readonly tries: number;
  readonly holder: string | null;
  readonly lease: Lease | null;
  /** True when a worker is to run it (outbox); false when only calls drive it. */
  readonly queued: boolean;
  readonly terms: WorkTerms | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** pending: not before this. */
  readonly dueAt: number | null;
  /** The first and the last time the effect may have left, since the record was last known not to have happened. */
  readonly firstSentAt: number | null;
  readonly lastSentAt: number | null;
  readonly firstSentMark: SteadyMark | null;
  /** An earlier attempt than the present one is still in doubt: what the present one fails with says nothing about it. */
  readonly doubted: boolean;
  /** unknown: since when, and why. */
  readonly doubtSince: number | null;
  readonly doubtMark: SteadyMark | null;
  readonly why: string | null;
  /** confirmed, failed: when it was settled, and until when it guards its key (null: forever). */
  readonly settledAt: number | null;
  readonly expiresAt: number | null;
  /** How long it will guard once settled; null: forever. Kept here so that a settler without the action's code can apply it. */
  readonly keepMs: number | null;
  /** failed: refused for good. A failure that is not final may be claimed again by a call. */
  readonly final: boolean;
  readonly fingerprint: Fingerprint;
  /** As given, before parsing. */
  readonly input: Payload | null;
  readonly draft: Payload | null;
  readonly result: Payload | null;
  /** confirmed: the provider's own id of the effect, such as a message id or a charge id; a keyed digest with `encrypt`. */
  readonly providerId: string | null;
  readonly error: StoredError | null;
  readonly history: readonly HistoryEntry[];
}

export function leaseAlive(record: Pick<LedgerRecord, "lease">, at: Instant): boolean {
  return record.lease !== null && record.lease.epoch === at.epoch && record.lease.until > at.steady;
}

/** Past `keep`: the record no longer guards its key, whether or not a sweep has removed it yet. */
export function expired(record: LedgerRecord, now: number): boolean {
  return record.expiresAt !== null && record.expiresAt <= now;
}

/**
 * How long ago, at least and at most. The wall clock may have been set, the steady one may have slept with the machine;
 * who waits for a span to pass uses `least`, who must act before it passes uses `most`.
 */
export function elapsed(since: number, mark: SteadyMark | null, at: Instant): { least: number; most: number } {
  const wall = at.now - since;
  const steady = mark !== null && mark.epoch === at.epoch ? at.steady - mark.at : wall;
  return { least: Math.min(wall, steady), most: Math.max(wall, steady) };
}

/** When the record began to want attention: due work, doubts, dead letters. A plain claim and confirm never set it. */
export function attentionAt(
  record: Pick<LedgerRecord, "state" | "dueAt" | "updatedAt" | "terms" | "doubtSince" | "settledAt">,
): number | null {
  switch (record.state) {
    case "pending":
      return placeInQueue(record);
    case "unknown":
      return record.doubtSince;
    case "failed":
      return record.settledAt;
    default:
      return null;
  }
}

/** Where pending work stands among its like: by its due time, with the head start of its priority if it is due already. */
function placeInQueue({ dueAt, updatedAt, terms }: Pick<LedgerRecord, "dueAt" | "updatedAt" | "terms">): number | null {
  const priority = terms?.priority ?? 0;
  // What is due later must not be found early; it takes its place by the time it is due.
  return dueAt === null || priority === 0 || dueAt > updatedAt ? dueAt : dueAt - priority * PRIORITY_STEP_MS;
}

/** Every field, saying nothing: for records that are no intents. */
export const BLANK_RECORD: LedgerRecord = {
  key: "",
  tenant: "",
  action: "",
  version: 1,
  scope: null,
  agent: null,
  state: "confirmed",
  attempt: 1,
  fence: 1,
  tries: 1,
  holder: null,
  lease: null,
  queued: false,
  terms: null,
  createdAt: 0,
  updatedAt: 0,
  dueAt: null,
  firstSentAt: null,
  lastSentAt: null,
  firstSentMark: null,
  doubted: false,
  doubtSince: null,
  doubtMark: null,
  why: null,
  settledAt: 0,
  expiresAt: null,
  keepMs: null,
  final: false,
  fingerprint: { guarded: "", free: null, fields: {} },
  input: null,
  draft: null,
  result: null,
  providerId: null,
  error: null,
  history: [],
};
