/** A guard that ends when the answer has arrived, and a doubt that is held for a time. */
import { describe, expect, it } from "vitest";
import { nextStep } from "./plan.ts";
import { resolvePolicy, untilDelivered } from "./policy.ts";
import type { Instant, LedgerRecord } from "./record.ts";
import { type Intent, type LedgerEvent, transition } from "./transition.ts";

const INTENT: Intent = {
  ...{ key: "nt1_k", tenant: "", action: "toggle", version: 1, scope: null, input: null },
  fingerprint: { guarded: "g", free: null, fields: {} },
  keepMs: 900_000,
  untilDelivered: true,
};
const at = (ms: number): Instant => ({ now: 1_000_000 + ms, steady: ms, epoch: "boot" });

function recordOf(events: readonly (LedgerEvent & { ms?: number })[], from: LedgerRecord | null = null): LedgerRecord {
  return events.reduce<LedgerRecord | null>((record, { ms = 0, ...event }) => {
    const change = transition(record, event as LedgerEvent, at(ms));
    if (!change.ok) throw new Error(`${event.type}: ${change.refusal}`);
    return change.record;
  }, from) as LedgerRecord;
}

const claim = (holder = "a", intent = INTENT) =>
  ({ type: "claim", intent, to: "sent", holder, leaseMs: 60_000, newRound: true }) as const;
const confirm = (fence: number, holder = "a") =>
  ({ type: "confirm", hold: { fence, holder }, result: { json: String(fence) } }) as const;

describe("delivered", () => {
  it("ends the guard: the same call is claimed as a new one, and the fence counts on", () => {
    const first = recordOf([claim(), confirm(1)]);
    expect(transition(first, claim("b"), at(5))).toEqual({ ok: false, refusal: "final" });
    const told = recordOf([{ type: "delivered", fence: 1 }], first);
    expect(told).toMatchObject({ state: "confirmed", result: { json: "1" } });
    const policy = resolvePolicy({ keep: "15m" }, "t");
    expect(nextStep(told, { policy, at: at(0), newRound: true, sameBytes: false })).toEqual({ do: "claim" });
    const second = recordOf(
      [
        { ...claim("b"), ms: 1 },
        { ...confirm(2, "b"), ms: 2 },
      ],
      told,
    );
    expect(second).toMatchObject({ fence: 2, attempt: 1, result: { json: "2" } });
  });

  it("is refused where the claim did not promise it, of another attempt, and of what is not settled", () => {
    const { untilDelivered: _, ...kept } = INTENT;
    const refusals = [
      transition(recordOf([claim("a", kept), confirm(1)]), { type: "delivered", fence: 1 }, at(1)),
      transition(recordOf([claim(), confirm(1)]), { type: "delivered", fence: 2 }, at(1)),
      transition(recordOf([claim()]), { type: "delivered", fence: 1 }, at(1)),
      transition(recordOf([claim(), { type: "lapse", gone: true }]), { type: "delivered", fence: 1 }, at(1)),
      transition(null, { type: "delivered", fence: 1 }, at(1)),
    ];
    expect(refusals.map((change) => change.ok || change.refusal)).toEqual([
      "kept",
      "stale",
      "leased",
      "in-doubt",
      "absent",
    ]);
  });

  it("a late answer of the call before is none of the call that followed it", () => {
    const second = recordOf([claim(), confirm(1), { type: "delivered", fence: 1 }, { ...claim("b"), ms: 1 }]);
    expect(transition(second, confirm(1), at(2))).toEqual({ ok: false, refusal: "stale" });
  });
});

describe("a doubt that is held for a time", () => {
  const policy = resolvePolicy({ doubt: { holdFor: "15m" } }, "t");
  const step = (record: LedgerRecord, ms: number, otherInput = false) =>
    nextStep(record, { policy, at: at(ms), newRound: true, sameBytes: true, otherInput });
  const doubt = { type: "doubt", hold: { fence: 1, holder: "a" }, why: "reset", error: null } as const;

  it("is held, then the next call sends it; with another input it stays held", () => {
    const unknown = recordOf([claim(), doubt]);
    expect(step(unknown, 899_999)).toEqual({ do: "answer" });
    const permit = { because: "held", forMs: 900_000 } as const;
    expect(step(unknown, 900_000)).toEqual({ do: "resend", permit });
    expect(step(unknown, 900_000, true)).toEqual({ do: "answer" });
    const resend = { type: "resend", permit, holder: "b", leaseMs: 60_000, newRound: true } as const;
    expect(transition(unknown, resend, at(899_999))).toEqual({ ok: false, refusal: "too-early" });
    expect(recordOf([{ ...resend, ms: 900_000 }], unknown)).toMatchObject({ state: "sent", fence: 2, doubted: true });
  });

  it("counts from the holder's last sign of life, however late its silence is noticed", () => {
    const unknown = recordOf([claim(), { type: "lapse", ms: 86_400_000 }]);
    expect(step(unknown, 86_400_000)).toMatchObject({ do: "resend" });
  });

  it("stands alone, is above zero, and is no way to settle a payment", () => {
    expect(() => resolvePolicy({ doubt: { holdFor: "15m", resendWithin: "1h" } }, "t")).toThrow(/Keep one/);
    expect(() => resolvePolicy({ doubt: { holdFor: 0 } }, "t")).toThrow(/holdFor is 0/);
    expect(() => resolvePolicy({ effect: "payment", doubt: { holdFor: "15m" } }, "t")).toThrow(/made twice/);
  });
});

it("options say that callers tell of the delivery", () => {
  expect(resolvePolicy(untilDelivered({ keep: "15m" }), "t").untilDelivered).toBe(true);
  expect(resolvePolicy({ keep: "15m" }, "t").untilDelivered).toBeUndefined();
});
