/** A settle writes only what differs: nothing that differs may be left out, whatever two records are made of. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { type LedgerRecord, STATES } from "../../core/record.ts";
import { sampleRecord } from "../../testing/index.ts";
import { COLUMNS, SETTLED, textOf } from "./sql/row.ts";
import { isChanged, planPut } from "./sql/write.ts";

const NOW = 1_750_000_100_000;
const few = fc.constantFrom(1, 2, NOW, NOW + 0.5);
const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: null });
const steady = maybe(fc.record({ at: few, epoch: fc.constantFrom("", "boot") }, { noNullPrototype: true }));
const record = fc
  .record({
    state: fc.constantFrom(...STATES),
    attempt: few,
    fence: few,
    tries: few,
    holder: fc.constantFrom(null, "a", "b"),
    lease: maybe(fc.record({ until: few, epoch: fc.constantFrom("", "boot") }, { noNullPrototype: true })),
    queued: fc.boolean(),
    createdAt: fc.constantFrom(NOW - 120_000, NOW - 1),
    updatedAt: few,
    dueAt: maybe(few),
    firstSentAt: maybe(few),
    lastSentAt: maybe(few),
    firstSentMark: steady,
    doubtSince: maybe(few),
    doubtMark: steady,
    why: fc.constantFrom(null, "", "lost"),
    settledAt: maybe(few),
    expiresAt: maybe(few),
    final: fc.boolean(),
    result: fc.constantFrom(null, { json: "1" }, { json: "2" }, { omitted: "too large" }),
    error: fc.constantFrom(null, { name: "E", message: "no" }),
  })
  .map(sampleRecord);

it("what a settle leaves out has the same text before and after", () => {
  fc.assert(
    fc.property(record, record, (before, change) => {
      const after = { ...change, ...keptOf(before) };
      const put = planPut({ record: after, expected: 7, before }, { hex: "00ff", now: NOW });
      const was = planPut({ record: before, expected: 6 }, { hex: "00ff", now: NOW });
      const left = put.way === "replace" ? [] : SETTLED.filter((column) => !isChanged(column, put, NOW));
      for (const { name, type, value } of left)
        expect([name, textOf(type, value(put, NOW))]).toEqual([name, textOf(type, value(was, NOW))]);
    }),
    { numRuns: 2_000 },
  );
});

/** What a transition hands on. */
function keptOf({ fingerprint, input, draft, history, createdAt, queued, terms }: LedgerRecord): Partial<LedgerRecord> {
  return { fingerprint, input, draft, history, createdAt, queued, terms };
}

it("a plain confirm differs in no more than it has to", () => {
  const before = sampleRecord({ state: "sent", lease: { until: NOW, epoch: "" }, updatedAt: 1, createdAt: NOW - 1 });
  const after = {
    ...before,
    state: "confirmed",
    lease: null,
    updatedAt: 2,
    settledAt: 2,
    expiresAt: NOW + 86_400_000,
  } as const;
  const planned = planPut({ record: after, expected: 7, before }, { hex: "00ff", now: NOW });
  const written = SETTLED.filter((column) => isChanged(column, planned, NOW));
  expect(written.map(({ name }) => name)).toEqual(["state", "lease_until", "updated_at", "expires_at"]);
  const named = COLUMNS.filter(({ name }) => name === "key" || name === "rev");
  expect(named.map(({ value }) => value(planned, NOW))).toEqual(["00ff", 8]);
});
