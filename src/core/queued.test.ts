import { describe, expect, it } from "vitest";
import { sampleRecord } from "../testing/sample-record.ts";
import { attentionAt, type Instant, type LedgerRecord, PRIORITY_STEP_MS } from "./record.ts";
import { transition } from "./transition.ts";

const AT: Instant = { now: 1_750_000_100_000, steady: 1_000, epoch: "boot" };
const INTENT = {
  key: "nt1_sample",
  tenant: "",
  action: "send_followup",
  version: 1,
  scope: null,
  fingerprint: { guarded: "newer", free: null, fields: {} },
  input: { json: '{"newer":true}' },
  keepMs: 1_000,
};
const enqueue = { type: "enqueue", intent: INTENT, dueAt: AT.now + 7, terms: { priority: 2 } } as const;
const enqueued = (record: LedgerRecord) => {
  const change = transition(record, enqueue, AT);
  return change.ok ? change.record : change.refusal;
};
const held = { holder: "h", fence: 3, attempt: 3, tries: 2, lease: { until: 900, epoch: "boot" } };

describe("enqueue of an intent that is known", () => {
  it.each(["confirmed", "failed"] as const)("settled for good (%s): nothing changes", (state) => {
    expect(enqueued(sampleRecord({ state, final: true }))).toBe("exists");
  });

  it("O4: what failed but not for good is queued anew, with the newer input: it never happened", () => {
    const error = { name: "Error", message: "503" };
    expect(enqueued(sampleRecord({ state: "failed", tries: 5, error, expiresAt: AT.now + 1_000 }))).toMatchObject({
      state: "pending",
      queued: true,
      tries: 0,
      dueAt: AT.now + 7,
      terms: { priority: 2 },
      input: INTENT.input,
      fingerprint: INTENT.fingerprint,
      settledAt: null,
      expiresAt: null,
      error: null,
    });
  });

  it("what waits for its next call becomes a worker's", () => {
    expect(enqueued(sampleRecord({ state: "pending", queued: false }))).toMatchObject({
      state: "pending",
      queued: true,
    });
    expect(enqueued(sampleRecord({ state: "pending", queued: true }))).toBe("exists");
  });

  it.each(["claimed", "sent", "unknown"] as const)("%s by a call: only who sees to its rest changes", (state) => {
    const record = sampleRecord({ ...held, state, input: { json: "1" } });
    expect(enqueued(record)).toEqual({ ...record, queued: true });
    expect(enqueued({ ...record, queued: true })).toBe("exists");
  });
});

describe("work whose wait is over", () => {
  const putOff = { ...held, state: "pending", queued: true, lease: null, dueAt: AT.now + 50 } as const;

  it("is due now", () => {
    const change = transition(sampleRecord(putOff), { type: "bring-forward" }, AT);
    expect(change).toEqual({ ok: true, record: sampleRecord({ ...putOff, dueAt: AT.now, updatedAt: AT.now }) });
  });

  it.each([
    ["what is due already", { dueAt: AT.now }],
    ["what only calls drive", { queued: false }],
    ["what is held", { state: "claimed" }],
    ["what is settled", { state: "confirmed" }],
  ] as const)("leaves %s alone", (_what, other) => {
    expect(transition(sampleRecord({ ...putOff, ...other }), { type: "bring-forward" }, AT)).toMatchObject({
      ok: false,
    });
  });
});

describe("work handed back before it was begun", () => {
  const hold = { fence: 3, holder: "h" };
  const giveBack = { type: "give-back", hold, dueAt: AT.now + 50 } as const;

  it.each(["claimed", "sent"] as const)("%s → pending: the attempt does not count, the fence does", (state) => {
    const change = transition(sampleRecord({ ...held, queued: true, state, firstSentAt: 5 }), giveBack, AT);
    expect(change).toMatchObject({
      ok: true,
      record: { state: "pending", attempt: 2, tries: 1, fence: 3, dueAt: AT.now + 50, lease: null, firstSentAt: null },
    });
  });

  it("keeps its place in its order, or leaves it where it is to let others pass", () => {
    const placed = sampleRecord({
      ...held,
      queued: true,
      state: "claimed",
      terms: { line: "l", place: 7, after: "k" },
    });
    const kept = transition(placed, giveBack, AT);
    expect(kept).toMatchObject({ ok: true, record: { terms: { line: "l", place: 7, after: "k" } } });
    const left = transition(placed, { ...giveBack, yieldsPlace: true }, AT);
    expect(left.ok && left.record.terms).toEqual({ line: "l" });
  });

  it("unknown because the lease ran out → pending, and the history says so: only its holder knows that nothing was begun", () => {
    const silent = transition(
      sampleRecord({ ...held, queued: true, state: "sent", firstSentAt: 5, lease: null }),
      { type: "lapse" },
      AT,
    );
    expect(silent).toMatchObject({ ok: true, record: { state: "unknown" } });
    if (!silent.ok) return;
    expect(transition(silent.record, giveBack, AT)).toMatchObject({
      ok: true,
      record: { state: "pending", attempt: 2, tries: 1, fence: 3, doubtSince: null, doubtMark: null, why: null },
    });
    expect(transition(silent.record, { ...giveBack, hold: { fence: 3, holder: "other" } }, AT)).toEqual({
      ok: false,
      refusal: "stale",
    });
    const change = transition(silent.record, giveBack, AT);
    expect(change.ok && change.record.history.at(-1)).toMatchObject({
      event: "not-begun",
      from: "unknown",
      to: "pending",
    });
  });

  it("an attempt that reported a doubt was begun: its own give-back is refused", () => {
    const sent = sampleRecord({ ...held, queued: true, state: "sent", firstSentAt: 5 });
    const doubted = transition(sent, { type: "doubt", hold, why: "no answer", error: null }, AT);
    expect(doubted.ok && transition(doubted.record, giveBack, AT)).toEqual({ ok: false, refusal: "stale" });
  });

  it("is refused to others, and after a doubt", () => {
    const refused = (overrides: Partial<LedgerRecord>) =>
      transition(sampleRecord({ ...held, state: "sent", ...overrides }), giveBack, AT);
    expect(refused({ fence: 4 })).toEqual({ ok: false, refusal: "stale" });
    expect(refused({ holder: "other" })).toEqual({ ok: false, refusal: "stale" });
    expect(refused({ doubted: true })).toEqual({ ok: false, refusal: "stale" });
  });
});

it("retry brings back what had expired in the queue, without its deadline", () => {
  const record = sampleRecord({ state: "failed", queued: true, terms: { notAfter: 5, priority: 1 } });
  const change = transition(record, { type: "retry", by: "ana", reason: "still wanted" }, AT);
  expect(change).toMatchObject({ ok: true, record: { state: "pending", terms: { priority: 1 } } });
  expect(change.ok && change.record.terms).not.toHaveProperty("notAfter");
});

describe("priority is a head start", () => {
  const waiting = (dueAt: number, priority?: number) =>
    sampleRecord({ dueAt, updatedAt: AT.now, queued: true, terms: priority === undefined ? null : { priority } });

  it("of a minute a step, so that nothing starves", () => {
    expect(attentionAt(waiting(AT.now))).toBe(AT.now);
    expect(attentionAt(waiting(AT.now, 3))).toBe(AT.now - 3 * PRIORITY_STEP_MS);
  });

  it("never makes work come before its time", () => {
    expect(attentionAt(waiting(AT.now + 1, 3))).toBe(AT.now + 1);
  });
});
