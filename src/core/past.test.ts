import { describe, expect, it } from "vitest";
import { printInput, toFingerprint } from "./key/fingerprint.ts";
import { nextCallOf, type PastEnd, recordPast } from "./past.ts";
import type { Instant, LedgerRecord, State } from "./record.ts";
import { transition } from "./transition.ts";

const now: Instant = { now: 1_000_000, steady: 1_000, epoch: "boot" };
const print = printInput({ id: 7 }, []);
const intent = {
  key: "nt1_x",
  tenant: "",
  action: "send",
  version: 1,
  scope: null,
  fingerprint: toFingerprint(print),
  input: null,
  keepMs: null,
};
const ends: Record<"done" | "failed" | "doubt", PastEnd> = {
  done: { as: "done", result: (fence) => ({ json: String(fence) }) },
  failed: { as: "failed", error: { name: "Imported", message: "it failed" } },
  doubt: { as: "doubt", why: "it may have happened" },
};
const past = (as: keyof typeof ends) => ({ intent, end: ends[as], at: 500_000 });

function recordIn(state: State, keepMs: number | null = null): LedgerRecord {
  const claimed = transition(
    null,
    { type: "claim", intent: { ...intent, keepMs }, to: "sent", holder: "h", leaseMs: 1, newRound: true },
    { now: 1, steady: 1, epoch: "boot" },
  );
  if (!claimed.ok) throw new Error(claimed.refusal);
  return { ...claimed.record, state, settledAt: 1, expiresAt: keepMs === null ? null : 1 + keepMs, lease: null };
}

describe("recordPast", () => {
  it.each(["pending", "claimed", "sent", "failed", "unknown"] as const)(
    "what was %s and is confirmed is kept as every imported record, and not shorter than before",
    (state) => {
      const kept = (before: number | null, keepMs: number | null) =>
        recordPast(
          { ...recordIn(state, before), expiresAt: null },
          { ...past("done"), intent: { ...intent, keepMs } },
          now,
        );
      expect(kept(5_000, null)).toMatchObject({ state: "confirmed", keepMs: null, expiresAt: null });
      expect(kept(5_000, 9_000)).toMatchObject({ keepMs: 9_000, expiresAt: now.now + 9_000 });
      expect(kept(9_000, 5_000)).toMatchObject({ keepMs: 9_000 });
      expect(kept(null, 5_000)).toMatchObject({ keepMs: null, expiresAt: null });
    },
  );

  it("makes the record that the state machine would have made, dated when it happened", () => {
    expect(recordPast(null, past("done"), now)).toMatchObject({
      state: "confirmed",
      createdAt: 500_000,
      fence: 1,
      result: { json: "1" },
    });
    expect(recordPast(null, past("failed"), now)).toMatchObject({ state: "failed", final: false });
    expect(recordPast(null, past("doubt"), now)).toMatchObject({ state: "unknown", why: "it may have happened" });
  });

  it.each(["pending", "claimed", "sent", "confirmed", "failed", "unknown"] as const)(
    "a failure changes no record that is %s",
    (state) => {
      expect(recordPast(recordIn(state), past("failed"), now)).toBeNull();
    },
  );

  it.each(["claimed", "sent", "confirmed", "unknown"] as const)("a doubt changes no record that is %s", (state) => {
    expect(recordPast(recordIn(state), past("doubt"), now)).toBeNull();
  });

  it.each(["pending", "failed"] as const)(
    "a newer doubt holds a record that is %s and would run next; an older one, or one without a time, does not",
    (state) => {
      const doubt = past("doubt");
      const held = recordPast(recordIn(state), doubt, now);
      expect(held).toMatchObject({ state: "unknown", why: "it may have happened", input: null });
      expect(recordPast({ ...recordIn(state), updatedAt: 600_000 }, doubt, now)).toBeNull();
      expect(recordPast(recordIn(state), { ...doubt, at: null }, now)).toBeNull();
      expect(recordPast({ ...recordIn("failed"), final: true }, doubt, now)).toBeNull();
    },
  );

  const queuedRecord = (dueAt: number): LedgerRecord => {
    const change = transition(
      null,
      { type: "enqueue", intent: { ...intent, input: { json: "7" } }, dueAt, holder: "h" },
      now,
    );
    if (!change.ok) throw new Error(change.refusal);
    return change.record;
  };

  it.each([
    ["due", now.now],
    ["due later", now.now + 10_000],
  ])("queued, %s and never tried: success confirms it, a doubt holds it, and its input stays", (_, dueAt) => {
    const queued = queuedRecord(dueAt);
    const done = recordPast(queued, past("done"), now);
    expect(done).toMatchObject({ state: "confirmed", queued: true, input: { json: "7" } });
    expect(done?.history.at(-1)).toMatchObject({ event: "late-success" });
    const held = recordPast(queued, { ...past("doubt"), at: null }, now);
    expect(held).toMatchObject({ state: "unknown", queued: true, input: { json: "7" } });
    expect(recordPast(queued, past("failed"), now)).toBeNull();
  });

  it("a record of an order is confirmed wherever it stands in it", () => {
    const ordered = { ...queuedRecord(now.now), terms: { line: "l", place: 7, after: "nt1_y" } };
    expect(recordPast(ordered, past("done"), now)).toMatchObject({ state: "confirmed" });
  });

  it("what was queued elsewhere and never begun is queued; from an outbox, what failed can be brought back for a worker", () => {
    const queued = { intent, end: { as: "queued", dueAt: 7 } as const, at: null, queued: true };
    expect(recordPast(null, queued, now)).toMatchObject({ state: "pending", queued: true, dueAt: 7, fence: 0 });
    expect(recordPast(recordIn("confirmed", 10), queued, now)).toMatchObject({ state: "pending", fence: 1 });
    for (const state of ["pending", "claimed", "sent", "confirmed", "failed", "unknown"] as const)
      expect(recordPast(recordIn(state), queued, now)).toBeNull();
    expect(recordPast(null, { ...past("failed"), queued: true }, now)).toMatchObject({ state: "failed", queued: true });
  });

  it.each(["pending", "claimed", "sent", "failed", "unknown"] as const)(
    "success is accepted where the record is %s",
    (state) => {
      const record = recordPast(recordIn(state), past("done"), now);
      expect(record).toMatchObject({ state: "confirmed", result: { json: "1" } });
      expect(record?.history.at(-1)).toMatchObject({ from: state, to: "confirmed" });
    },
  );

  it("a confirmed record and an attempt under way are left", () => {
    expect(recordPast(recordIn("confirmed"), past("done"), now)).toBeNull();
    const held = { ...recordIn("sent"), lease: { until: 2_000, epoch: "boot" } };
    expect(recordPast(held, past("done"), now)).toBeNull();
  });

  it("an expired record is replaced, and its fence goes on", () => {
    expect(recordPast(recordIn("confirmed", 10), past("doubt"), now)).toMatchObject({ state: "unknown", fence: 2 });
  });
});

describe("nextCallOf", () => {
  const nextCall = (record: LedgerRecord | null, input: unknown = { id: 7 }) =>
    nextCallOf(record, printInput(input, []), [], now);

  it("says what a call would meet", () => {
    expect(nextCall(null)).toEqual({ as: "runs" });
    expect(nextCall(recordIn("confirmed"))).toEqual({ as: "repeat" });
    expect(nextCall(recordIn("confirmed", 10))).toEqual({ as: "runs" });
    expect(nextCall(recordIn("confirmed"), { id: 8 })).toEqual({ as: "conflict", differs: ["id"] });
    expect(nextCall(recordIn("unknown"))).toEqual({ as: "held" });
    expect(nextCall(recordIn("sent"))).toEqual({ as: "held" });
    for (const state of ["failed", "pending", "claimed"] as const)
      expect(nextCall(recordIn(state))).toEqual({ as: "runs" });
    expect(nextCall({ ...recordIn("failed"), final: true })).toEqual({ as: "held" });
  });

  it("says what a call with another input would meet, by the rule for calls", () => {
    const other = { id: 8 };
    const differs = ["id"];
    expect(nextCall({ ...recordIn("failed"), final: true }, other)).toEqual({ as: "runs" });
    expect(nextCall(recordIn("failed"), other)).toEqual({ as: "runs" });
    expect(nextCall(recordIn("unknown"), other)).toEqual({ as: "held" });
    expect(nextCall({ ...recordIn("pending"), queued: true }, other)).toEqual({ as: "conflict", differs });
    const live = { until: now.steady + 1, epoch: now.epoch };
    expect(nextCall({ ...recordIn("sent"), lease: live }, other)).toEqual({ as: "conflict", differs });
    // What the row does not know is not compared.
    expect(nextCall({ ...recordIn("pending"), queued: true }, { id: 7, to: "ana" })).toEqual({ as: "queued" });
  });
});
