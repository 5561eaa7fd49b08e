import { expect, it } from "vitest";
import { keyOfDigest } from "../../core/key/key.ts";
import type { Put } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { beforeOf, Lineage } from "./lineage.ts";
import { keyHex } from "./sql/key.ts";

const claimOf = (key: string) => sampleRecord({ key, state: "sent", lease: { until: 1, epoch: "" } });
const before = (lineage: Lineage, put: Put) => beforeOf(lineage.of(put.record.key), put);
const keep = (lineage: Lineage, key: string) => {
  const record = claimOf(key);
  lineage.keep(record, 7, keyHex(key));
  return record;
};

function digestKeys(count: number): string[] {
  // Spread as digests are: a multiple of an odd number, in the bytes that keys end with too.
  return Array.from({ length: count }, (_, i) => {
    const bytes = Buffer.alloc(32);
    for (let at = 0; at < 32; at += 4) bytes.writeUInt32BE(Math.imul(i + 1, 0x9e3779b1 + 2 * at) >>> 0, at);
    return keyOfDigest(bytes);
  });
}

it("knows every record of a busy worker: a thousand and twenty-four under way at once", () => {
  const lineage = new Lineage();
  const records = digestKeys(1_024).map((key) => keep(lineage, key));
  const known = records.filter((record) => before(lineage, { record, expected: 7 }) === record);
  expect(known.length).toBe(records.length);
});

it("keys that share a set push out the oldest, and no others", () => {
  const lineage = new Lineage();
  // Their last eight characters are the same, and so is their set.
  const records = Array.from({ length: 9 }, (_, i) => keep(lineage, `nt1_${i}_the same end`));
  const known = records.map((record) => before(lineage, { record, expected: 7 }) !== null);
  expect(known).toEqual([false, true, true, true, true, true, true, true, true]);
  expect(lineage.of("nt1_0_the same end")).toBeNull();
});

it("forgets what is confirmed, and makes room with it", () => {
  const lineage = new Lineage();
  const records = Array.from({ length: 8 }, (_, i) => keep(lineage, `nt1_${i}_the same end`));
  lineage.keep(sampleRecord({ key: "nt1_3_the same end", state: "confirmed" }), 8, "00");
  keep(lineage, "nt1_new_the same end");
  const known = records.map((record) => before(lineage, { record, expected: 7 }) !== null);
  expect(known).toEqual([true, true, true, false, true, true, true, true]);
});

it("a fact is about one revision, and about the very objects of a record", () => {
  const lineage = new Lineage();
  const record = keep(lineage, "nt1_a");
  expect(before(lineage, { record, expected: 6 })).toBeNull();
  expect(before(lineage, { record: { ...record, input: { json: "{}" } }, expected: 7 })).toBeNull();
  expect(before(lineage, { record: { ...record, state: "confirmed" }, expected: 7 })).toBe(record);
});

it("is bounded: twenty thousand records that nobody settles leave room for the next", () => {
  const lineage = new Lineage();
  const records = digestKeys(20_000).map((key) => keep(lineage, key));
  const isKnown = (record: (typeof records)[number]) => before(lineage, { record, expected: 7 }) !== null;
  expect(records.slice(-4).map(isKnown)).toEqual([true, true, true, true]);
  expect(records.filter(isKnown).length).toBeLessThanOrEqual(8_192);
});

it("does not remember what is only queued: whoever takes it has just read it", () => {
  const lineage = new Lineage();
  const record = sampleRecord({ key: "nt1_a", state: "pending", holder: null, lease: null, queued: true });
  lineage.keep(record, 7, keyHex("nt1_a"));
  expect(before(lineage, { record, expected: 7 })).toBeNull();
});
