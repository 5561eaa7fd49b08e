/** SQL hands out due work; core's claim says how. Every field of every kind of record, compared. */
import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import type { LedgerRecord } from "../../../core/record.ts";
import type { Store } from "../../../core/store.ts";
import { transition } from "../../../core/transition.ts";
import { sampleRecord } from "../../../testing/index.ts";
import { postgresStore } from "../index.ts";

const database = await freshDatabase();
const pool = new pg.Pool({ connectionString: database.url, max: 4 });
let store: Store;
beforeAll(async () => {
  store = postgresStore({ pool, listen: false });
  await store.read([]);
});
afterAll(async () => {
  await store.close();
  await pool.end();
});

const time = fc.integer({ min: 1, max: 2_000_000_000_000 });
const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: null });
const mark = maybe(
  fc.record(
    { at: fc.double({ min: 0, max: 1e12, noNaN: true }), epoch: fc.constantFrom("", "boot") },
    { noNullPrototype: true },
  ),
);
const payload = maybe(
  fc.oneof(
    fc.json().map((json) => ({ json })),
    fc.constant({ omitted: "too large" }),
    fc.constant({ sealed: "ntseal1.x" }),
  ),
);

/** Any record a worker may be given: due, or claimed by a holder whose lease is over. */
function leasable(now: number): fc.Arbitrary<Partial<LedgerRecord>> {
  const common = fc.record({
    tenant: fc.constantFrom("", "acme"),
    action: fc.constantFrom("mail", "sms"),
    version: fc.integer({ min: 1, max: 9 }),
    scope: fc.constantFrom(null, "run-1"),
    attempt: fc.nat(1_000),
    fence: fc.nat(1_000),
    tries: fc.nat(100),
    holder: fc.constantFrom(null, "earlier"),
    createdAt: fc.integer({ min: now - 10_000_000, max: now }),
    updatedAt: time,
    firstSentAt: maybe(time),
    lastSentAt: maybe(time),
    firstSentMark: mark,
    doubted: fc.boolean(),
    doubtSince: maybe(time),
    doubtMark: mark,
    why: fc.constantFrom(null, "", "lost"),
    settledAt: maybe(time),
    expiresAt: fc.constantFrom(null, now + 10_000_000),
    keepMs: fc.constantFrom(null, 0, 86_400_000),
    final: fc.boolean(),
    input: payload,
    draft: payload,
    result: payload,
    error: fc.constantFrom(null, { name: "E", message: "no" }),
    history: fc.constantFrom(
      [],
      [{ at: 1, event: "doubt", from: "sent" as const, to: "unknown" as const, attempt: 1 }],
    ),
  });
  const how = fc.constantFrom<Partial<LedgerRecord>>(
    { state: "pending", dueAt: now - 5, lease: null },
    { state: "pending", dueAt: now - 60_000, lease: { until: 5, epoch: "gone" } },
    { state: "claimed", dueAt: null, lease: { until: now - 1_000, epoch: "" } },
    { state: "claimed", dueAt: 7, lease: { until: now + 1_000_000, epoch: "an earlier boot" } },
  );
  return fc.tuple(common, how).map(([fields, state]) => ({ ...fields, ...state, queued: true }));
}

it("SQL's lease is core's claim, field by field", async () => {
  let run = 0;
  const now = store.now();
  await fc.assert(
    fc.asyncProperty(leasable(now), fc.constantFrom("claimed" as const, "sent" as const), async (fields, to) => {
      run += 1;
      await pool.query("DELETE FROM nevertwice.records");
      const before = sampleRecord({ ...fields, key: `nt1_${run}` });
      const [written] = await store.write([{ record: before, expected: null }]);
      if (!written?.ok) throw new Error("not written");
      const claim = { type: "claim", to, holder: "worker", leaseMs: 60_000, newRound: false } as const;
      // A store of its own each time: silent holders are looked for at the first call.
      const worker = postgresStore({ pool, listen: false });
      const [leased, ...more] = await worker.lease({ holder: "worker", limit: 10, leaseMs: 60_000, to });
      expect(more).toEqual([]);
      const at = leased?.record.updatedAt as number;
      const change = transition(before, claim, { now: at, steady: at, epoch: "" });
      expect(change.ok).toBe(true);
      expect(leased).toStrictEqual({ record: change.ok && change.record, version: written.version + 1 });
      expect(await store.read([before.key])).toStrictEqual([leased]);
    }),
    { numRuns: 150 },
  );
});

it("does not hand out what core would refuse: a pending record past its keep", async () => {
  const past = { state: "pending", queued: true, dueAt: 1, expiresAt: 1 } as const;
  await store.write([{ record: sampleRecord({ key: "nt1_expired", ...past }), expected: null }]);
  const leased = await store.lease({ holder: "worker", limit: 1_000, leaseMs: 1_000, to: "claimed" });
  expect(leased.map(({ record }) => record.key)).not.toContain("nt1_expired");
});

it("hands out what it leased though its next statement failed: held back, nobody would run it", async () => {
  await pool.query("DELETE FROM nevertwice.records");
  const now = store.now();
  const lapsed = { state: "claimed", queued: true, lease: { until: now - 1_000, epoch: "" } } as const;
  await store.write([
    { record: sampleRecord({ key: "nt1_lapsed", ...lapsed }), expected: null },
    { record: sampleRecord({ key: "nt1_due", queued: true, dueAt: 1 }), expected: null },
  ]);
  await pool.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON nevertwice.records FOR EACH ROW WHEN (OLD.state = 'pending') EXECUTE FUNCTION refuse()`);
  const worker = postgresStore({ pool, listen: false });
  const lease = () => worker.lease({ holder: "worker", limit: 10, leaseMs: 60_000, to: "sent" });
  expect((await lease()).map(({ record }) => record.key)).toEqual(["nt1_lapsed"]);
  await expect(lease()).rejects.toThrow(/not now/);
  await pool.query("DROP TRIGGER refuse ON nevertwice.records");
  expect((await lease()).map(({ record }) => record.key)).toEqual(["nt1_due"]);
});
