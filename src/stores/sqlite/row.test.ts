import { join } from "node:path";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { filledRecord, sampleRecord } from "../../testing/sample-record.ts";
import { COLUMNS, decodeRow, encodeRow, type Row } from "./row.ts";

const asRow = (values: readonly (string | number | null)[]) =>
  Object.fromEntries(COLUMNS.map((column, i) => [column, values[i]])) as Row;
const decode = (values: readonly (string | number | null)[]) => decodeRow(asRow(values), "the test");

const plainClaim = sampleRecord({
  state: "sent",
  attempt: 1,
  fence: 1,
  tries: 1,
  holder: "holder.1",
  lease: { until: 1_234_567, epoch: "boot" },
  dueAt: null,
  firstSentAt: 1_750_000_000_000,
  lastSentAt: 1_750_000_000_000,
  firstSentMark: { at: 1_174_567, epoch: "boot" },
  input: { json: '{"leadId":"l1"}' },
});

const records: Readonly<Record<string, LedgerRecord>> = {
  plainClaim,
  confirmed: { ...plainClaim, state: "confirmed", lease: null, firstSentMark: null, settledAt: 1_750_000_000_900 },
  "updated after it was settled": { ...plainClaim, state: "confirmed", lease: null, settledAt: 5, updatedAt: 6 },
  "sent later than created": { ...plainClaim, firstSentAt: 1_750_000_000_700, lastSentAt: 1_750_000_000_800 },
  "sent under another clock than the lease's": { ...plainClaim, firstSentMark: { at: 3.25, epoch: "boot before" } },
  "sent, and without a lease": { ...plainClaim, state: "unknown", lease: null },
  "every field filled": filledRecord(),
  "nothing filled": sampleRecord({ keepMs: null }),
  "free fields": { ...plainClaim, fingerprint: { guarded: "g", free: "f", fields: { body: "?" } } },
  "times with a fraction": { ...plainClaim, createdAt: 1.1, updatedAt: 2.7, firstSentAt: 1.1, lastSentAt: 2.7 },
};

describe("a record as a row", () => {
  it.each(Object.entries(records))("%s: comes back as it went in", (_, record) => {
    expect(decode(encodeRow(record, 7))).toEqual({ record, version: 7 });
  });

  it("an empty text is told from a null in the checksum", () => {
    const row = encodeRow(plainClaim, 7);
    const scope = COLUMNS.indexOf("scope");
    expect(row[scope]).toBeNull();
    expect(() => decode(row.with(scope, ""))).toThrow(/does not match its checksum/);
  });
});

it("rows with the separator in them go through the thread like all others, conflicts too", async () => {
  const store = sqliteStore({ path: join(temporaryFolder(), "ledger.db") });
  onTestFinished(() => store.close());
  // More than commit on the loop.
  const puts = Array.from({ length: 12 }, (_, i) => ({
    record: sampleRecord({ key: `nt1_${i}`, tenant: i % 2 ? "a\u001fb" : "", scope: i % 3 ? "" : null }),
    expected: null,
  }));
  const written = await store.write(puts);
  expect(written.every((result) => result.ok)).toBe(true);
  const keys = puts.map(({ record }) => record.key);
  const read = await store.read(keys);
  expect(read.map((stored) => stored?.record)).toEqual(puts.map(({ record }) => record));
  expect(read.map((stored) => stored?.version)).toEqual(written.map((result) => result.ok && result.version));
  const fresh = { record: sampleRecord({ key: "nt1_fresh" }), expected: null };
  const again = await store.write([...puts.slice(0, 6), fresh]);
  expect(again.slice(0, 6)).toEqual(read.slice(0, 6).map((current) => ({ ok: false, current })));
  expect(again[6]).toMatchObject({ ok: true });
});
