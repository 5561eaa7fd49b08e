/** A lone caller's statements: few texts, each made once, and a value for each parameter. */
import { expect, it } from "vitest";
import { sampleRecord } from "../../../testing/index.ts";
import { keyHex } from "./key.ts";
import { singleWrite } from "./single.ts";
import { type PlannedPut, planPut } from "./write.ts";

const NOW = 1_700_000_000_000;
type Record = ReturnType<typeof sampleRecord>;

function planned(record: Record, expected: number | null, before: PlannedPut | null = null): PlannedPut {
  return planPut({ record, expected, before: before?.record }, { hex: keyHex(record.key), now: NOW });
}

function parametersOf(text: string): number {
  return new Set(text.match(/\$\d+/g)).size;
}

const at = { createdAt: NOW, updatedAt: NOW };

it("has as many values as parameters, whatever is null and whichever way it goes", () => {
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
      const { text, values } = singleWrite("t", put, NOW);
      expect(parametersOf(text), text).toBe(values.length);
      expect(values).not.toContain(null);
    }
  }
});

it("says booleans in the text, and leaves out what is null", () => {
  const textOf = (queued: boolean) => singleWrite("t", planned(sampleRecord({ ...at, queued }), null), NOW).text;
  expect(textOf(true)).toMatch(/^INSERT INTO t \(key, tenant, .*, true, /);
  expect(textOf(false)).toMatch(/, false, /);
  expect(textOf(false)).not.toContain("NULL");
  expect(textOf(false)).not.toContain("scope");
});

it("says nothing of texts to a client that sends them as they are", () => {
  const put = planned(sampleRecord(at), null);
  const [typed, told] = [true, false].map((isTyped) => singleWrite("t", put, NOW, isTyped));
  expect(typed?.values).toEqual(told?.values);
  expect(typed?.text).toMatch(/\$\d+::bigint/);
  expect(typed?.text).toBe(told?.text.replaceAll(/::text(?=::)/g, ""));
});

it("settles what has changed, and in one text for all who change the same", () => {
  const settle = (key: string) => {
    const record = sampleRecord({ ...at, key });
    const claim = planned(record, null);
    return singleWrite("t", planned({ ...record, fence: 9 }, claim.rev, claim), NOW);
  };
  const [one, other] = [settle("nt1_a"), settle("nt1_b")];
  expect(one.text).toMatch(/^UPDATE t SET rev = rev \+ 1, fence = \$1::text::integer WHERE key = /);
  expect(other.text).toBe(one.text);
  expect(other.values).not.toEqual(one.values);
});

it("a claim that is no longer young may have been marked by a sweep: its attention is written too", () => {
  const record = sampleRecord({ createdAt: NOW - 120_000, updatedAt: NOW - 120_000 });
  const claim = planned(record, null);
  const { text } = singleWrite("t", planned({ ...record, fence: 9 }, claim.rev, claim), NOW);
  expect(text).toContain("attention = ");
  expect(text).toContain("attention_at = ");
});
