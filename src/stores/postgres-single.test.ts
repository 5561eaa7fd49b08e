/** A lone caller's statements: few texts, each made once, and a value for each parameter. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sampleRecord } from "../testing/index.ts";
import { keyHex } from "./postgres-key.ts";
import { plainKind } from "./postgres-plain.ts";
import { SingleWrites } from "./postgres-single.ts";
import { type PlannedPut, planPut } from "./postgres-write.ts";

const NOW = 1_700_000_000_000;
type Record = ReturnType<typeof sampleRecord>;

function planned(record: Record, expected: number | null, before: PlannedPut | null = null): PlannedPut {
  return planPut({ record, expected }, { hex: keyHex(record.key), now: NOW, before: before?.put.record ?? null });
}

function parametersOf(text: string): number {
  return new Set(text.match(/\$\d+/g)).size;
}

const at = { createdAt: NOW, updatedAt: NOW };

it("has as many values as parameters, whatever is null and whichever way it goes", () => {
  const singles = new SingleWrites("t");
  const shapes: Partial<Record>[] = [
    {},
    { queued: true },
    { scope: "s", input: { json: "1" } },
    { state: "pending", holder: null, lease: null, dueAt: NOW },
    { state: "confirmed", holder: null, lease: null, settledAt: NOW, result: { json: "{}" } },
  ];
  for (const shape of shapes) {
    const record = sampleRecord({ ...at, ...shape });
    const insert = planned(record, null);
    const changed = { ...record, fence: record.fence + 1, updatedAt: NOW + 5, lease: null };
    for (const put of [insert, planned(changed, insert.rev), planned(changed, insert.rev, insert)]) {
      const { text, values } = singles.statement(put, NOW);
      expect(parametersOf(text), text).toBe(values.length);
      expect(values).not.toContain(null);
    }
  }
});

it("says booleans in the text, and leaves out what is null", () => {
  const singles = new SingleWrites("t");
  const textOf = (queued: boolean) => singles.statement(planned(sampleRecord({ ...at, queued }), null), NOW).text;
  expect(textOf(true)).toMatch(/^INSERT INTO t \(key, tenant, .*, true, /);
  expect(textOf(false)).toMatch(/, false, /);
  expect(textOf(false)).not.toContain("NULL");
  expect(textOf(false)).not.toContain("scope");
});

it("says nothing of texts to a client that sends them as they are", () => {
  const put = planned(sampleRecord(at), null);
  const [typed, told] = [new SingleWrites("t", { typed: true }), new SingleWrites("t")].map((singles) =>
    singles.statement(put, NOW),
  );
  expect(typed?.values).toEqual(told?.values);
  expect(typed?.text).toMatch(/\$\d+::bigint/);
  expect(typed?.text).toBe(told?.text.replaceAll(/::text(?=::)/g, ""));
});

it("settles what has changed, and in one text for all who change the same", () => {
  const singles = new SingleWrites("t");
  const settle = (key: string) => {
    const record = sampleRecord({ ...at, key });
    const claim = planned(record, null);
    return singles.statement(planned({ ...record, fence: 9 }, claim.rev, claim), NOW);
  };
  const [one, other] = [settle("nt1_a"), settle("nt1_b")];
  expect(one.text).toMatch(/^UPDATE t SET rev = rev \+ 1, fence = \$1::text::integer WHERE key = /);
  expect(other.text).toBe(one.text);
  expect(other.values).not.toEqual(one.values);
});

it("a claim that is no longer young may have been marked by a sweep: its attention is written too", () => {
  const singles = new SingleWrites("t");
  const record = sampleRecord({ createdAt: NOW - 120_000, updatedAt: NOW - 120_000 });
  const claim = planned(record, null);
  const { text } = singles.statement(planned({ ...record, fence: 9 }, claim.rev, claim), NOW);
  expect(text).toContain("attention = ");
  expect(text).toContain("attention_at = ");
});

describe("a plain call", () => {
  const plain: Partial<Record> = {
    ...at,
    tenant: "",
    state: "sent",
    scope: null,
    holder: "h.1",
    lease: { until: NOW + 60_000, epoch: "" },
    firstSentAt: NOW,
    lastSentAt: NOW,
    firstSentMark: { at: NOW, epoch: "" },
    input: { json: "{}" },
    draft: null,
    result: null,
    expiresAt: null,
    settledAt: null,
    attempt: 1,
    fence: 1,
    tries: 1,
    queued: false,
    history: [],
    final: false,
    error: null,
  };
  const claimed = sampleRecord({ ...plain, key: "nt1_plain" });
  const confirm = {
    state: "confirmed",
    lease: null,
    firstSentMark: null,
    updatedAt: NOW + 3,
    settledAt: NOW + 3,
    expiresAt: NOW + 9,
    result: { json: "1" },
  } as const satisfies Partial<Record>;
  // One thing at a time that is not plain, or that no statement minds.
  const changes: Partial<Record>[] = [
    {},
    { tenant: "t" },
    { scope: "s" },
    { state: "claimed" },
    { state: "unknown" },
    { attempt: 2 },
    { fence: 2 },
    { tries: 2 },
    { holder: null },
    { holder: "h.2" },
    { lease: null },
    { lease: { until: NOW + 1, epoch: "" } },
    { lease: { until: NOW + 1, epoch: "boot" } },
    { queued: true },
    { createdAt: NOW - 1 },
    { createdAt: NOW - 120_000 },
    { createdAt: NOW - 120_000, updatedAt: NOW - 120_000, firstSentAt: NOW - 120_000, lastSentAt: NOW - 120_000 },
    { updatedAt: NOW },
    { updatedAt: NOW, settledAt: NOW },
    { updatedAt: NOW + 1 },
    { dueAt: NOW },
    { firstSentAt: null },
    { lastSentAt: NOW + 1 },
    { firstSentMark: null },
    { firstSentMark: { at: NOW, epoch: "boot" } },
    { firstSentMark: { at: NOW + 1, epoch: "" } },
    { doubted: true },
    { doubtSince: NOW },
    { doubtMark: { at: 1, epoch: "" } },
    { why: "lost" },
    { settledAt: null },
    { settledAt: NOW + 4 },
    { expiresAt: null },
    { expiresAt: NOW + 10 },
    { keepMs: null },
    { final: true },
    { input: null },
    { draft: { json: "1" } },
    { result: null },
    { result: { omitted: "too large" } },
    { error: { name: "E", message: "no" } },
    { version: 2 },
  ];
  const change = fc
    .subarray(changes, { maxLength: 2 })
    .map((some): Partial<Record> => Object.assign({}, ...some) as Partial<Record>);

  const insert = planned(claimed, null);
  const confirmed = (change: Partial<Record>) => planned({ ...claimed, ...confirm, ...change }, insert.rev, insert);

  it("is known by its record", () => {
    expect(plainKind(insert, NOW)).toBe("claim");
    expect(plainKind(insert, NOW + 60_001)).toBeNull();
    expect(plainKind(confirmed({}), NOW)).toBe("confirm");
    expect(plainKind(confirmed({ updatedAt: NOW, settledAt: NOW }), NOW)).toBe("confirm-at-once");
    expect(plainKind(planned({ ...claimed, ...confirm }, insert.rev), NOW)).toBeNull();
  });

  it("is written as it would be without looking at it first", () => {
    const knowing = new SingleWrites("t");
    for (const put of [insert, confirmed({}), confirmed({ updatedAt: NOW, settledAt: NOW })])
      knowing.statement(put, NOW);
    fc.assert(
      fc.property(change, change, (before, second) => {
        const record = { ...claimed, ...before };
        const first = planned(record, null);
        for (const put of [first, planned({ ...record, ...confirm, ...second }, first.rev, first)]) {
          const { text, values } = knowing.statement(put, NOW);
          // The first statement of its kind is made the long way.
          const unknowing = new SingleWrites("t").statement(put, NOW);
          expect({ text, values }).toEqual({ text: unknowing.text, values: unknowing.values });
        }
      }),
      { numRuns: 5_000 },
    );
  });
});
