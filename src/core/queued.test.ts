import { describe, expect, it } from "vitest";
import { sampleRecord } from "../testing/sample-record.ts";
import { expiredError } from "./queued.ts";
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

describe("an intent is known for as long as anybody was promised", () => {
  const DAY = 86_400_000;
  const SHORT = { ...INTENT, keepMs: DAY };
  const until = (days: number) => AT.now + days * DAY;
  const byDeadline = (days: number) => ({
    ...enqueue,
    intent: { ...SHORT, guardUntil: until(days) },
    terms: { notAfter: until(days) },
  });
  const settledAt = { settledAt: AT.now - 1, keepMs: DAY, expiresAt: AT.now - 1 + DAY };

  it.each([
    ["confirmed", sampleRecord({ state: "confirmed", result: { json: "1" }, ...settledAt })],
    ["refused for good", sampleRecord({ state: "failed", final: true, ...settledAt })],
  ])("%s: an enqueue with a later deadline extends how long it is kept, and nothing else", (_, record) => {
    expect(transition(record, byDeadline(10), AT)).toEqual({
      ok: true,
      record: { ...record, updatedAt: AT.now, keepMs: 10 * DAY, expiresAt: until(10) },
    });
    for (const kept of [
      { ...record, expiresAt: until(10) },
      { ...record, keepMs: null, expiresAt: null },
    ])
      expect(transition(kept, byDeadline(10), AT)).toEqual({ ok: false, refusal: "exists" });
    expect(transition(record, { ...enqueue, intent: SHORT }, AT)).toEqual({ ok: false, refusal: "exists" });
  });

  it.each(["pending", "claimed", "sent", "unknown"] as const)("%s and queued: the later deadline counts", (state) => {
    const terms = { notAfter: until(10), priority: 2, line: "nt1_l", place: 4 };
    const record = sampleRecord({ state, queued: true, keepMs: 10 * DAY, terms });
    expect(transition(record, byDeadline(20), AT)).toEqual({
      ok: true,
      record: { ...record, keepMs: 20 * DAY, terms: { ...terms, notAfter: until(20) } },
    });
    expect(transition(record, byDeadline(5), AT)).toEqual({ ok: false, refusal: "exists" });
    expect(transition(record, { ...enqueue, intent: SHORT }, AT)).toEqual({ ok: false, refusal: "exists" });
    const forever = { ...record, keepMs: null, terms: null };
    expect(transition(forever, byDeadline(20), AT)).toEqual({ ok: false, refusal: "exists" });
  });

  it.each(["pending", "failed"] as const)(
    "%s: a call or an enqueue that asks for less does not shorten it",
    (state) => {
      const claim = { type: "claim", to: "sent", holder: "a", leaseMs: 1, newRound: true } as const;
      for (const [keepMs, asked, kept] of [
        [10 * DAY, DAY, 10 * DAY],
        [DAY, 10 * DAY, 10 * DAY],
        [null, DAY, null],
        [DAY, null, null],
      ] as const) {
        const record = sampleRecord({ state, keepMs });
        const intent = { ...INTENT, keepMs: asked };
        for (const event of [
          { ...claim, intent },
          { ...enqueue, intent },
        ])
          expect(transition(record, event, AT)).toMatchObject({ ok: true, record: { keepMs: kept } });
      }
    },
  );
});

describe("what has expired was surely never sent", () => {
  const record = sampleRecord({
    state: "failed",
    queued: true,
    error: expiredError("expired: it was not to be begun after then"),
    terms: { notAfter: AT.now - 5 },
  });

  it.each([
    ["a later deadline", { notAfter: AT.now + 5 }],
    ["none", null],
  ])("it is queued anew with %s", (_, terms) => {
    expect(transition(record, { ...enqueue, terms }, AT)).toMatchObject({
      ok: true,
      record: { state: "pending", queued: true, tries: 0, error: null, terms },
    });
  });

  it("it stays expired where the deadline that is given has passed too", () => {
    expect(transition(record, { ...enqueue, terms: { notAfter: AT.now } }, AT)).toEqual({
      ok: false,
      refusal: "exists",
    });
  });

  it("a call runs it, without the deadline: a try that failed is not to expire between two tries", () => {
    const claim = { type: "claim", intent: INTENT, to: "sent", holder: "a", leaseMs: 1, newRound: true } as const;
    expect(transition(record, claim, AT)).toMatchObject({ ok: true, record: { state: "sent", terms: {} } });
    const waiting = { ...record, state: "pending" as const, error: null };
    expect(transition(waiting, claim, AT)).toMatchObject({ ok: true, record: { terms: { notAfter: AT.now - 5 } } });
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
