import { describe, expect, it } from "vitest";
import { otherInputMeets } from "./conflict.ts";
import { nextStep } from "./plan.ts";
import { resolvePolicy } from "./policy.ts";
import { BLANK_RECORD, type HistoryEntry, type Instant, type LedgerRecord } from "./record.ts";
import { transition } from "./transition.ts";

const AT: Instant = { now: 1_000_000, steady: 5_000, epoch: "boot" };
const LIVE = { until: 6_000, epoch: "boot" };
const LAPSED = { until: 4_000, epoch: "boot" };

const entry = (event: string): HistoryEntry => ({ at: 1, event, from: null, to: "pending", attempt: 1 });
const record = (of: Partial<LedgerRecord>): LedgerRecord => ({ ...BLANK_RECORD, key: "nt1_k", holder: "h", ...of });

const TABLE: readonly [what: string, of: Partial<LedgerRecord>, meets: string][] = [
  ["confirmed", { state: "confirmed" }, "conflict"],
  ["confirmed, past its keep", { state: "confirmed", expiresAt: AT.now }, "new-round"],
  ["sent", { state: "sent", lease: LIVE }, "conflict"],
  ["sent, its lease lapsed", { state: "sent", lease: LAPSED }, "in-doubt"],
  ["sent, before a reboot", { state: "sent", lease: { ...LIVE, epoch: "before" } }, "in-doubt"],
  ["unknown", { state: "unknown" }, "in-doubt"],
  ["unknown, queued", { state: "unknown", queued: true }, "in-doubt"],
  ["claimed", { state: "claimed", lease: LIVE }, "conflict"],
  ["claimed, its lease lapsed", { state: "claimed", lease: LAPSED }, "new-round"],
  ["claimed, its lease lapsed, queued", { state: "claimed", lease: LAPSED, queued: true }, "conflict"],
  ["pending, not queued", { state: "pending", dueAt: 2 * AT.now }, "new-round"],
  ["pending, queued", { state: "pending", queued: true, dueAt: 0 }, "conflict"],
  ["pending, queued, tried", { state: "pending", queued: true, history: [entry("not-sent")] }, "conflict"],
  ["pending, queued, brought back", { state: "pending", queued: true, history: [entry("retry")] }, "conflict"],
  [
    "pending, queued, resolved as not done",
    { state: "pending", queued: true, history: [entry("doubt"), entry("resolved-not-done")] },
    "new-round",
  ],
  [
    "pending, queued, resolved as not done, then handed on",
    { state: "pending", queued: true, history: [entry("resolved-not-done"), entry("taken-over")] },
    "new-round",
  ],
  [
    "pending, queued, resolved as not done, then corrected",
    { state: "pending", queued: true, history: [entry("resolved-not-done"), entry("corrected")] },
    "conflict",
  ],
  ["failed", { state: "failed" }, "new-round"],
  ["failed for good", { state: "failed", final: true }, "new-round"],
  ["failed for good, queued", { state: "failed", final: true, queued: true }, "new-round"],
];

const intent = {
  ...{ key: "nt1_k", tenant: "", action: "mail", version: 1, scope: null, keepMs: 1_000 },
  ...{ fingerprint: { guarded: "other", free: null, fields: {} }, input: { json: "2" } },
};
const claim = { type: "claim", intent, to: "sent", holder: "me", leaseMs: 100, newRound: true } as const;
const enqueue = { type: "enqueue", intent, dueAt: AT.now, holder: "me" } as const;

describe("the same key with another input", () => {
  it.each(TABLE)("%s", (_, of, meets) => {
    expect(otherInputMeets(record(of), AT)).toBe(meets);
  });

  it.each(TABLE)("%s: the state machine gives the other input nothing else", (_, of, meets) => {
    const before = record(of);
    for (const event of [
      { ...claim, otherInput: true },
      { ...enqueue, otherInput: true },
    ]) {
      const change = transition(before, event, AT);
      expect(change.ok).toBe(meets === "new-round");
      if (!change.ok) continue;
      expect(change.record).toMatchObject({ fingerprint: intent.fingerprint, input: intent.input, final: false });
      expect(change.record.tries).toBe(event.type === "claim" ? 1 : 0);
      if (before.expiresAt === null) expect(change.record.history.at(-1)).toMatchObject({ event: "corrected" });
    }
  });

  it.each(["retry", { resendWithin: "1h" }] as const)("in doubt, nothing is sent again: %o", (doubt) => {
    const policy = resolvePolicy({ doubt }, "mail");
    const before = record({ state: "unknown", doubtSince: AT.now, firstSentAt: AT.now });
    const situation = { policy, at: AT, newRound: true, sameBytes: true };
    expect(nextStep(before, situation).do).toBe("resend");
    expect(nextStep(before, { ...situation, otherInput: true }).do).toBe("answer");
  });

  it("G1: the same input after a refusal for good is refused by claim and by enqueue", () => {
    const before = record({ state: "failed", final: true });
    expect(transition(before, claim, AT)).toEqual({ ok: false, refusal: "final" });
    expect(transition(before, enqueue, AT)).toEqual({ ok: false, refusal: "exists" });
  });
});
