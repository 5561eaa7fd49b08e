/** Records to test with: valid ones, in the states and at the times a test is about. */
import type { Instant, LedgerRecord } from "../core/record.ts";

export const MINUTE = 60_000;
// Far beyond any disagreement between a test's clock and a store's own.
export const LONG = 10 * MINUTE;

/** A valid record, with the times its state comes with; a test names only what it is about. */
export function sampleRecord(overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const { createdAt = 1_750_000_000_000, state = "pending" } = overrides;
  const settled = state === "confirmed" || state === "failed";
  return {
    key: "nt1_sample",
    tenant: "",
    action: "send_followup",
    version: 1,
    scope: null,
    agent: null,
    state,
    attempt: 0,
    fence: 0,
    tries: 0,
    holder: null,
    lease: null,
    queued: false,
    terms: null,
    createdAt,
    updatedAt: createdAt,
    dueAt: state === "pending" ? createdAt : null,
    firstSentAt: null,
    lastSentAt: null,
    firstSentMark: null,
    doubted: false,
    doubtSince: state === "unknown" ? createdAt : null,
    doubtMark: null,
    why: null,
    settledAt: settled ? createdAt : null,
    expiresAt: null,
    keepMs: 86_400_000,
    final: false,
    fingerprint: { guarded: "guarded-digest", free: null, fields: { leadId: "field-digest" } },
    input: null,
    draft: null,
    result: null,
    providerId: null,
    error: null,
    history: [],
    ...overrides,
  };
}

/** Every field set to something that is neither null, empty nor its neighbour's value. */
export function filledRecord(overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  return sampleRecord({
    key: "nt1_filled",
    tenant: "acme",
    version: 7,
    scope: "run-41",
    agent: "billing-bot",
    state: "unknown",
    attempt: 12,
    fence: 13,
    tries: 3,
    holder: "holder-1",
    lease: { until: 123_456.789, epoch: "boot-1" },
    queued: true,
    terms: {
      notAfter: 1_750_000_000_009,
      givesUpAt: 1_750_000_000_011,
      priority: 3,
      line: "nt1_line",
      place: 1_750_000_000_007,
      after: "nt1_before",
      keptUntilDone: true,
      untilDelivered: true,
    },
    createdAt: 1_750_000_000_001,
    updatedAt: 1_750_000_000_002,
    dueAt: 1_750_000_000_003,
    firstSentAt: 1_750_000_000_004,
    lastSentAt: 1_750_000_000_005,
    firstSentMark: { at: 1_234.5678, epoch: "boot-2" },
    doubted: true,
    doubtSince: 1_750_000_000_006,
    doubtMark: { at: 2_345.6789, epoch: "boot-3" },
    why: "the reply was lost",
    settledAt: 1_750_000_000_007,
    expiresAt: 9_007_199_254_740_991,
    keepMs: 3_155_760_000_000,
    final: true,
    fingerprint: { guarded: "g", free: "f", fields: { leadId: "a", "with space": "b", "": "c" } },
    input: { json: '{"leadId":1}' },
    draft: { sealed: "ntseal1.0badcafe.13.bm9uY2U.Y2lwaGVydGV4dA" },
    result: { omitted: "it is larger than 1024 bytes" },
    providerId: "msg_41",
    error: { name: "TypeError", message: "no", code: "E_NO" },
    history: [
      {
        at: 1,
        event: "doubt",
        from: "sent",
        to: "unknown",
        attempt: 1,
        agent: "mail-bot",
        by: "ana",
        reason: "asked",
        error: "reset",
      },
      {
        at: 2,
        event: "corrected",
        from: null,
        to: "sent",
        attempt: 2,
        replaced: { from: 1, to: 3, guarded: "g0", free: null, fields: { leadId: "z", "": "c" } },
      },
    ],
    ...overrides,
  });
}

export function dueRecord(at: Instant, key: string, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const dueAt = Math.floor(at.now) - LONG;
  return sampleRecord({ key, queued: true, createdAt: dueAt, dueAt, ...overrides });
}

export function leasedRecord(
  at: Instant,
  key: string,
  leftMs: number,
  overrides: Partial<LedgerRecord> = {},
): LedgerRecord {
  return sampleRecord({
    key,
    state: "claimed",
    queued: true,
    attempt: 1,
    fence: 1,
    tries: 1,
    holder: "first-holder",
    lease: { until: at.steady + leftMs, epoch: at.epoch },
    createdAt: Math.floor(at.now) - LONG,
    ...overrides,
  });
}

export function settledRecord(at: Instant, key: string, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const now = Math.floor(at.now);
  return sampleRecord({ key, state: "confirmed", createdAt: now - 2 * LONG, settledAt: now - LONG, ...overrides });
}

/** What has lapsed is `nt1_claimed_lapsed`, `nt1_sent_lapsed` and `nt1_otherboot`. */
export function lapsedAndNot(at: Instant): LedgerRecord[] {
  return [
    leasedRecord(at, "nt1_claimed_alive", LONG),
    leasedRecord(at, "nt1_claimed_lapsed", -LONG),
    leasedRecord(at, "nt1_sent_alive", LONG, { state: "sent" }),
    leasedRecord(at, "nt1_sent_lapsed", -LONG, { state: "sent", queued: false }),
    leasedRecord(at, "nt1_otherboot", 0, {
      state: "sent",
      lease: { until: at.steady + LONG, epoch: "an earlier boot" },
    }),
    leasedRecord(at, "nt1_unknown", -LONG, { state: "unknown", lease: null }),
    leasedRecord(at, "nt1_confirmed", -LONG, { state: "confirmed", lease: null }),
  ];
}

export function numberedKey(index: number): string {
  return `nt1_${String(index).padStart(5, "0")}`;
}

export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}
