/** A settle writes only what differs: nothing that differs may be left out, whatever two records are made of. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { STATES } from "../../core/record.ts";
import { sampleRecord } from "../../testing/index.ts";
import { COLUMNS, MOVING, SETTLED, WRITTEN } from "./sql/row.ts";
import { planPut, textAt } from "./sql/write.ts";

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
    fc.property(record, record, (before, after) => {
      for (const column of WRITTEN) {
        if (column === null) continue;
        const { name, text, differs } = column;
        if (!differs(before, after, NOW)) expect([name, text(before, NOW)]).toEqual([name, text(after, NOW)]);
      }
    }),
    { numRuns: 2_000 },
  );
});

it("a plain confirm differs in no more than it has to", () => {
  const before = sampleRecord({ state: "sent", lease: { until: NOW, epoch: "" }, updatedAt: 1, createdAt: NOW - 1 });
  const after = { ...before, state: "confirmed", lease: null, updatedAt: 2, settledAt: 2, expiresAt: 3 } as const;
  const written = SETTLED.filter(({ differs }) => differs(before, after, NOW));
  expect(written.map(({ name }) => name)).toEqual(["state", "lease_until", "updated_at", "expires_at"]);
  const [key, rev] = ["key", "rev"].map((name) => COLUMNS.findIndex((column) => column.name === name)) as [
    number,
    number,
  ];
  const planned = planPut({ record: after, expected: 7 }, { hex: "00ff", now: NOW, before: null });
  expect([textAt(key, planned, NOW), textAt(rev, planned, NOW)]).toEqual(["00ff", "8"]);
  expect(["rev", ...SETTLED.map(({ name }) => name)]).toEqual(MOVING.map(({ name }) => name));
  expect(WRITTEN.map((column, at) => column?.name ?? COLUMNS[at]?.name)).toEqual(COLUMNS.map(({ name }) => name));
});
