import { describe, expect, it } from "vitest";
import { type Absent, errorForOutcome, type Outcome, outcomeOfRecord } from "./outcome.ts";
import type { Instant, LedgerRecord } from "./record.ts";
import { type Intent, type LedgerEvent, transition } from "./transition.ts";

const T0: Instant = { now: 1_750_000_000_000, steady: 5_000.5, epoch: "boot-1" };
const later = (ms: number, wallMs = ms): Instant => ({ ...T0, now: T0.now + wallMs, steady: T0.steady + ms });
const key = "nt1_key";
const INTENT: Intent = {
  key,
  tenant: "",
  action: "mail",
  version: 1,
  scope: null,
  fingerprint: { guarded: "g", free: null, fields: {} },
  input: null,
  keepMs: 86_400_000,
};
const hold = { fence: 1, holder: "a" };
const error = { name: "Error", message: "refused" };
const claim = { type: "claim", intent: INTENT, to: "claimed", holder: "a", leaseMs: 60_000, newRound: true } as const;
const send = { ...claim, to: "sent" } as const;
const confirm = { type: "confirm", hold, result: { json: '"m1"' } } as const;
const notSent = { type: "not-sent", hold, error, retryAt: null, final: false } as const;
const doubt = { type: "doubt", hold, why: "the reply was lost", error: null } as const;

function outcome(events: readonly LedgerEvent[], at: Instant = T0, omitted?: string): Outcome<unknown> | Absent {
  let record: LedgerRecord | null = null;
  for (const event of events) {
    const change = transition(record, event, T0);
    if (!change.ok) throw new Error(`refused: ${change.refusal}`);
    record = change.record;
  }
  return outcomeOfRecord(record as LedgerRecord, at, {
    result: () => ({ value: "m1", ...(omitted !== undefined && { omitted }) }),
    error: (failed) => failed.error?.message,
  });
}

describe("how a record reads", () => {
  it("confirmed: done, replayed", () => {
    const done = { status: "done", key, result: "m1", replayed: true, attempt: 1, at: T0.now };
    expect(outcome([send, confirm])).toEqual(done);
    expect(outcome([send, confirm], T0, "too large")).toEqual({ ...done, resultOmitted: "too large" });
  });

  it("confirmed past its keep: absent, whether swept or not", () => {
    expect(outcome([send, confirm], later(86_400_000))).toEqual({ status: "absent", key });
  });

  it("failed, for good or not", () => {
    expect(outcome([claim, notSent])).toEqual({ status: "failed", key, error: "refused", final: false });
    expect(outcome([claim, { ...notSent, final: true }])).toMatchObject({ status: "failed", final: true });
  });

  it("pending: queued where a worker will run it, failed with a time where only calls do", () => {
    const dueAt = T0.now + 9_000;
    expect(outcome([{ type: "enqueue", intent: INTENT, dueAt }])).toEqual({ status: "queued", key, dueAt });
    const waiting = { status: "failed", key, error: "refused", final: false, retryAt: dueAt };
    expect(outcome([claim, { ...notSent, retryAt: dueAt }])).toEqual(waiting);
  });

  it("claimed and sent: in flight, until when in wall time, whatever the wall clock did since", () => {
    expect(outcome([claim])).toEqual({ status: "in_flight", key, since: T0.now, until: T0.now + 60_000 });
    const at = later(20_000, -600_000);
    expect(outcome([send], at)).toEqual({ status: "in_flight", key, since: T0.now, until: at.now + 40_000 });
  });

  it("sent with a lapsed lease: unknown at once, before any sweep (G4)", () => {
    const answer = outcome([send], later(60_000));
    expect(answer).toMatchObject({ status: "unknown", key, since: T0.now, attempt: 1 });
    expect(answer).toMatchObject({ why: expect.stringMatching(/lease ran out/) });
    expect(outcome([send], { ...later(1), epoch: "boot-2" })).toMatchObject({ status: "unknown" });
  });

  it("claimed with a lapsed lease: not in flight, since nobody holds it and nothing was sent", () => {
    const over = T0.now + 60_000;
    const at = later(61_500);
    expect(outcome([claim], later(59_999))).toMatchObject({ status: "in_flight" });
    const abandoned = { status: "failed", key, final: false, retryAt: over };
    const why = expect.stringMatching(/stopped answering before anything was sent/);
    expect(outcome([claim], at)).toEqual({ ...abandoned, error: why });
    const queued: LedgerEvent[] = [{ type: "enqueue", intent: INTENT, dueAt: T0.now }, claim];
    expect(outcome(queued, later(59_999))).toMatchObject({ status: "in_flight" });
    expect(outcome(queued, at)).toEqual({ status: "queued", key, dueAt: over });
  });

  it("claimed before a reboot: free since its last sign of life", () => {
    const rebooted = { ...later(30_000), epoch: "boot-2" };
    expect(outcome([claim], rebooted)).toMatchObject({ status: "failed", final: false, retryAt: T0.now });
    const queued: LedgerEvent[] = [{ type: "enqueue", intent: INTENT, dueAt: T0.now }, claim];
    expect(outcome(queued, rebooted)).toEqual({ status: "queued", key, dueAt: T0.now });
  });

  it("unknown: since when and why", () => {
    expect(outcome([send, doubt])).toEqual({
      status: "unknown",
      key,
      since: T0.now,
      attempt: 1,
      why: "the reply was lost",
    });
  });
});

describe("the error for an outcome: a code, the key, and what to do next", () => {
  it.each<[Outcome<unknown>, string, RegExp]>([
    [
      { status: "in_flight", key, since: 0, until: 59_500 },
      "IN_FLIGHT",
      /another attempt is under way \(its lease spans 1m\).*wait and call again, or raise `wait`/,
    ],
    [
      { status: "queued", key, dueAt: 0 },
      "IN_FLIGHT",
      /queued, due at 1970-01-01T00:00:00\.000Z\. Nothing to do: a worker will run it/,
    ],
    [{ status: "failed", key, error: 1, final: false }, "FAILED", /it did not happen\. Call again to try once more\./],
    [
      { status: "failed", key, error: 1, final: true },
      "FAILED",
      /refused for good, and it did not happen\..*a call with a corrected input is\..*nevertwice retry nt1_key --reason "…".*resend\(\)/,
    ],
    [
      { status: "unknown", key, since: 0, attempt: 2, why: "reset" },
      "OUTCOME_UNKNOWN",
      /attempt 2 may or may not have happened \(reset: cause\)\..*not be run again by itself\..*resolve\(\{ key \}.*nevertwice resolve nt1_key --done --reason "…" \(--not-done/,
    ],
    [
      { status: "conflict", key, differs: ["to", "body"] },
      "KEY_CONFLICT",
      /another input \(differs in: to, body\)\. Nothing was run\..*`key`.*`free`.*resend\(\)/,
    ],
  ])("%j", (answer, code, message) => {
    const cause = new Error("cause");
    const thrown = errorForOutcome(answer, "mail", cause);
    expect(thrown).toMatchObject({ name: "NevertwiceError", code, key, outcome: answer, cause });
    expect(thrown.message).toMatch(/^mail \(nt1_key\): /);
    expect(thrown.message).toMatch(message);
  });

  it("has no cause where none is known", () => {
    expect("cause" in errorForOutcome({ status: "absent", key }, "mail")).toBe(false);
  });
});
