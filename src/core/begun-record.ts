/** A fresh record: begun, or begun and taken at once. */
import { replacedIn } from "./earlier-input.ts";
import { appended, note } from "./history.ts";
import { keepFrom } from "./keep.ts";
import type {
  Fingerprint,
  HistoryEntry,
  Instant,
  Lease,
  LedgerRecord,
  Payload,
  SteadyMark,
  WorkTerms,
} from "./record.ts";

/** What a record needs to begin. */
export interface Intent {
  readonly key: string;
  readonly tenant: string;
  readonly action: string;
  readonly version: number;
  readonly scope: string | null;
  /** Who means it; not part of the key. */
  readonly agent?: string | null;
  readonly fingerprint: Fingerprint;
  readonly input: Payload | null;
  readonly keepMs: number | null;
  /** Kept until then at least (epoch ms), whenever it is settled. */
  readonly guardUntil?: number | null;
  /** It guards the call until its answer has arrived at the caller, and for `keepMs` at most. */
  readonly untilDelivered?: boolean;
}

export function leaseFrom(at: Instant, leaseMs: number): Lease {
  return { until: at.steady + leaseMs, epoch: at.epoch };
}

export function markOf(at: Instant): SteadyMark {
  return { at: at.steady, epoch: at.epoch };
}

export interface Taking {
  readonly to: "claimed" | "sent";
  readonly holder: string;
  readonly leaseMs: number;
}

/** A fresh record, taken or not. It keeps counting the fence of the expired one it replaces, whose zombies must stay refused. */
export function begin(
  intent: Intent,
  replaced: LedgerRecord | null,
  at: Instant,
  by: Taking | null = null,
): LedgerRecord {
  const sent = by?.to === "sent";
  const tries = by === null ? 0 : 1;
  return {
    key: intent.key,
    tenant: intent.tenant,
    action: intent.action,
    version: intent.version,
    scope: intent.scope,
    agent: intent.agent ?? null,
    state: by === null ? "pending" : by.to,
    attempt: tries,
    fence: (replaced?.fence ?? 0) + tries,
    tries,
    holder: by === null ? null : by.holder,
    lease: by === null ? null : leaseFrom(at, by.leaseMs),
    queued: false,
    terms: intent.untilDelivered === true ? UNTIL_DELIVERED : null,
    createdAt: at.now,
    updatedAt: at.now,
    dueAt: null,
    firstSentAt: sent ? at.now : null,
    lastSentAt: sent ? at.now : null,
    firstSentMark: sent ? markOf(at) : null,
    doubted: false,
    doubtSince: null,
    doubtMark: null,
    why: null,
    settledAt: null,
    expiresAt: null,
    final: false,
    draft: null,
    result: null,
    providerId: null,
    error: null,
    history: replaced === null ? NO_HISTORY : inputsUntilNow(replaced, intent, at),
    fingerprint: intent.fingerprint,
    input: intent.input,
    keepMs: keepFrom(intent, at.now),
  };
}

/** All that is left of the history of an expired record: attempts from before may still tell of their success. */
function inputsUntilNow(replaced: LedgerRecord, { fingerprint }: Intent, at: Instant): readonly HistoryEntry[] {
  const inputs = replaced.history
    .filter((entry) => entry.replaced !== undefined)
    // None of them tells how the new record stands.
    .map((entry): HistoryEntry => ({ ...entry, event: "begun-anew", to: "pending" }));
  if (replaced.fingerprint.guarded === fingerprint.guarded) return inputs;
  return appended(inputs, note({ ...replaced, agent: null }, "begun-anew", "pending", at, replacedIn(replaced)));
}

const UNTIL_DELIVERED: WorkTerms = Object.freeze({ untilDelivered: true });
const NO_HISTORY: readonly HistoryEntry[] = Object.freeze([]);
