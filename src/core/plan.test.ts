import { describe, expect, it } from "vitest";
import { nextStep, type Situation, type Step } from "./plan.ts";
import { type PolicyOptions, resolvePolicy } from "./policy.ts";
import type { Instant, LedgerRecord } from "./record.ts";
import { type Intent, type LedgerEvent, transition } from "./transition.ts";

const T0: Instant = { now: 1_750_000_000_000, steady: 5_000, epoch: "boot-1" };
const later = (ms: number, wallMs = ms): Instant => ({ ...T0, now: T0.now + wallMs, steady: T0.steady + ms });
const INTENT: Intent = {
  key: "nt1_key",
  tenant: "",
  action: "mail",
  version: 1,
  scope: null,
  fingerprint: { guarded: "g", free: null, fields: {} },
  input: null,
  keepMs: 86_400_000,
};
const hold = { fence: 1, holder: "a" };
const error = { name: "Error", message: "no" };
const claim = { type: "claim", intent: INTENT, to: "claimed", holder: "a", leaseMs: 60_000, newRound: true } as const;
const send = { ...claim, to: "sent" } as const;
const enqueue = { type: "enqueue", intent: INTENT, dueAt: T0.now + 5_000 } as const;
const doubt = { type: "doubt", hold, why: "reset", error: null } as const;
const notSent = { type: "not-sent", hold, error, retryAt: null, final: false } as const;
const confirm = { type: "confirm", hold, result: null } as const;

function given(...events: readonly LedgerEvent[]): LedgerRecord | null {
  return events.reduce<LedgerRecord | null>((record, event) => {
    const change = transition(record, event, T0);
    if (!change.ok) throw new Error(`refused: ${change.refusal}`);
    return change.record;
  }, null);
}

function plan(
  record: LedgerRecord | null,
  options: PolicyOptions<() => unknown> = {},
  situation: Partial<Omit<Situation, "policy">> = {},
): Step {
  const policy = resolvePolicy(options, "action mail");
  return nextStep(record, { policy, at: T0, newRound: false, sameBytes: true, ...situation });
}

describe("what a caller does next", () => {
  it("nothing there, or past its keep: claims", () => {
    expect(plan(null)).toEqual({ do: "claim" });
    expect(plan(given(send, confirm), {}, { at: later(86_400_000) })).toEqual({ do: "claim" });
  });

  it("queued for later: waits until it is due, then claims", () => {
    expect(plan(given(enqueue))).toEqual({ do: "wait", ms: 5_000 });
    expect(plan(given(enqueue), {}, { at: later(5_000) })).toEqual({ do: "claim" });
  });

  it("waiting for its next try, driven by calls: claims at once", () => {
    expect(plan(given(claim, { ...notSent, retryAt: T0.now + 5_000 }))).toEqual({ do: "claim" });
  });

  it("claimed: waits for its holder while the lease runs, takes over after it (F4)", () => {
    expect(plan(given(claim), {}, { at: later(59_999) })).toEqual({ do: "wait-for-holder" });
    expect(plan(given(claim), {}, { at: later(60_000) })).toEqual({ do: "claim" });
  });

  it("sent: waits for its holder while the lease runs, makes the doubt visible after it (F6)", () => {
    expect(plan(given(send), {}, { at: later(59_999) })).toEqual({ do: "wait-for-holder" });
    expect(plan(given(send), { doubt: "retry" }, { at: later(60_000) })).toEqual({ do: "lapse" });
  });

  it("F18: a wall clock that jumps takes nothing over", () => {
    for (const wallMs of [-600_000, 3_600_000]) {
      expect(plan(given(send), {}, { at: later(1, wallMs) })).toEqual({ do: "wait-for-holder" });
    }
  });

  it("settled: answers; a failure that is not final is claimed", () => {
    expect(plan(given(send, confirm))).toEqual({ do: "answer" });
    expect(plan(given(claim, { ...notSent, final: true }))).toEqual({ do: "answer" });
    expect(plan(given(claim, notSent))).toEqual({ do: "claim" });
  });
});

describe("what a caller does about a doubt", () => {
  const unknown = given(send, doubt);
  const probe = () => "unknown";

  it("hold: answers, always", () => {
    expect(plan(unknown, { doubt: "hold" }, { newRound: true })).toEqual({ do: "answer" });
  });

  it("retry: sends again while tries are left, and a new call has new tries", () => {
    const again = { do: "resend", permit: { because: "asked-for" } };
    expect(plan(unknown, { doubt: "retry" })).toEqual(again);
    expect(plan(unknown, { doubt: "retry", retry: { attempts: 1 } })).toEqual({ do: "answer" });
    expect(plan(unknown, { doubt: "retry", retry: { attempts: 1 } }, { newRound: true })).toEqual(again);
  });

  it("resendWithin: sends the same bytes again inside the window (F21)", () => {
    const options = { doubt: { resendWithin: "1h" } };
    const again = { do: "resend", permit: { because: "provider-key", windowMs: 3_600_000 } };
    expect(plan(unknown, options, { at: later(3_599_999) })).toEqual(again);
    expect(plan(unknown, options, { sameBytes: false })).toEqual({ do: "answer" });
    expect(plan(unknown, { ...options, retry: { attempts: 1 } })).toEqual({ do: "answer" });
  });

  it("F24: the window over on either clock: not resent, held", () => {
    const options = { doubt: { resendWithin: "1h" } };
    expect(plan(unknown, options, { at: later(3_600_000) })).toEqual({ do: "answer" });
    expect(plan(unknown, options, { at: later(1, 3_600_000) })).toEqual({ do: "answer" });
  });

  it("probe: waits until it has been quiet on both clocks, then asks (F17)", () => {
    const options = { doubt: { probe, quietFor: "2m" } };
    expect(plan(unknown, options)).toEqual({ do: "wait", ms: 120_000 });
    expect(plan(unknown, options, { at: later(30_000, 3_600_000) })).toEqual({ do: "wait", ms: 90_000 });
    expect(plan(unknown, options, { at: later(120_000) })).toEqual({ do: "probe", quietForMs: 120_000 });
  });

  it("both: sends again inside the window, asks after it (F24)", () => {
    const options = { doubt: { resendWithin: "1h", probe, quietFor: "2m" } };
    expect(plan(unknown, options)).toMatchObject({ do: "resend" });
    expect(plan(unknown, options, { at: later(3_600_000) })).toEqual({ do: "probe", quietForMs: 120_000 });
    expect(plan(unknown, options, { sameBytes: false })).toEqual({ do: "wait", ms: 120_000 });
  });

  it("agrees with the state machine: what is planned is accepted", () => {
    for (const options of [{ doubt: "retry" }, { doubt: { resendWithin: "1h" } }] as const) {
      const step = plan(unknown, options);
      if (step.do !== "resend") throw new Error(`planned ${step.do}`);
      const event = { type: "resend", permit: step.permit, holder: "b", leaseMs: 60_000, newRound: false } as const;
      expect(transition(unknown, event, T0).ok).toBe(true);
    }
  });
});
