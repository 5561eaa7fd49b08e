import { join } from "node:path";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "../../../test/support/database-sync.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { filledRecord, sampleRecord } from "../../testing/sample-record.ts";
import { COLUMNS, decodeRow, encodeRow, type Row, splitRow, splits } from "./row.ts";

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
  it.each(Object.entries(records))("%s: comes back as it went in, also by way of its text", (_, record) => {
    const { row, text } = encodeRow(record, 7);
    expect(decode(row)).toEqual({ record, version: 7 });
    expect(splits(row)).toBe(true);
    expect(splitRow(text, row.at(-1) as number)).toEqual(row);
  });

  it("an empty text is told from a null in the checksum", () => {
    const { row } = encodeRow(plainClaim, 7);
    const scope = COLUMNS.indexOf("scope");
    expect(row[scope]).toBeNull();
    expect(() => decode(row.with(scope, ""))).toThrow(/does not match its checksum/);
  });

  it("a text that holds the separator does not split", () => {
    for (const field of ["key", "tenant", "action", "scope"])
      expect(splits(encodeRow({ ...plainClaim, [field]: "a\u001fb" }, 7).row)).toBe(false);
  });
});

// As the release with schema 1 wrote it.
const OLD_ROW = [
  "nt1_old",
  7,
  "",
  "send_followup",
  null,
  "sent",
  1234567.25,
  "boot",
  null,
  null,
  1750000000000,
  '{"updatedAt":1750000000000,"holder":"holder.1","firstSentAt":1750000000000,"firstSentMark":{"at":1174567.25,"epoch":"boot"},"keepMs":86400000,"fingerprint":{"guarded":"guarded-digest","free":null,"fields":{"leadId":"field-digest"}}}',
  '{"leadId":"l1"}',
  null,
  null,
  1611585308,
];
const oldRecord = {
  ...plainClaim,
  key: "nt1_old",
  lease: { until: 1_234_567.25, epoch: "boot" },
  firstSentMark: { at: 1_174_567.25, epoch: "boot" },
};

describe("a row of schema 1", () => {
  it("is read as it is, and a flipped bit in it is noticed", () => {
    expect(decode(OLD_ROW)).toEqual({ record: oldRecord, version: 7 });
    expect(() => decode(OLD_ROW.with(1, 8))).toThrow(/does not match its checksum/);
  });

  it("stays in a ledger that moves to this schema, and is written in the new form when it changes", async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const first = sqliteStore({ path });
    await first.read(["nt1_old"]);
    await first.close();
    const db = new DatabaseSync(path);
    db.prepare(`INSERT INTO nevertwice_records (${COLUMNS.join()}) VALUES (${COLUMNS.map(() => "?").join()})`).run(
      ...OLD_ROW,
    );
    db.exec("UPDATE nevertwice_meta SET value = '1' WHERE name = 'schema_version'");
    db.close();

    const store = sqliteStore({ path });
    onTestFinished(() => store.close());
    const [stored] = await store.read(["nt1_old"]);
    expect(stored).toEqual({ record: oldRecord, version: 7 });
    const confirmed = { ...oldRecord, state: "confirmed", lease: null, settledAt: 1_750_000_000_900 } as const;
    expect(await store.write([{ record: confirmed, expected: 7 }])).toEqual([{ ok: true, version: 8 }]);
    expect(await store.read(["nt1_old"])).toEqual([{ record: confirmed, version: 8 }]);
    expect(await store.inspect?.()).toContainEqual(
      expect.objectContaining({ name: "schema", value: "version 4 of 4" }),
    );
    expect(await store.inspect?.()).toContainEqual(expect.objectContaining({ name: "integrity", ok: true }));
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
