import { describe, expect, it } from "vitest";
import { BLANK_RECORD, type LedgerRecord, STATES } from "./record.ts";
import { transition } from "./transition.ts";

const at = { now: 5_000, steady: 0, epoch: "boot" };
const record = (over: Partial<LedgerRecord>): LedgerRecord => ({ ...BLANK_RECORD, key: "nt1_k", ...over });
const retain = (before: LedgerRecord, keepMs: number | null) => {
  const change = transition(before, { type: "retain", keepMs }, at);
  return change.ok ? change.record : change.refusal;
};

describe("retain", () => {
  it("counts from now, for a settled record, and changes nothing else", () => {
    for (const state of ["confirmed", "failed"] as const) {
      const before = record({ state, result: { json: "1" }, expiresAt: null, keepMs: null });
      expect(retain(before, 100)).toEqual({ ...before, keepMs: 100, expiresAt: 5_100, updatedAt: 5_000 });
      expect(retain({ ...before, keepMs: 7, expiresAt: 7 }, null)).toEqual({ ...before, updatedAt: 5_000 });
    }
  });

  it("gives what is not settled no expiry: it has one when it is settled", () => {
    for (const state of ["unknown", "pending"] as const)
      expect(retain(record({ state }), 100)).toMatchObject({ state, keepMs: 100, expiresAt: null });
  });

  it("leaves what is under way to whoever settles it", () => {
    expect(STATES.filter((state) => retain(record({ state }), 100) === "leased")).toEqual(["claimed", "sent"]);
    expect(transition(null, { type: "retain", keepMs: 1 }, at)).toEqual({ ok: false, refusal: "absent" });
  });
});
