/** What the sections do to a store over and over, with a failure message that says what the store did wrong. */
import assert from "node:assert/strict";
import { type ErrorCode, isNevertwiceError } from "../core/errors.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { LeaseQuery, PutResult, Store, Stored } from "../core/store.ts";
import { MINUTE } from "./sample-record.ts";

/** What a worker asks for, unless a test asks for something else. */
export const LEASE: LeaseQuery = { holder: "worker-1", limit: 100, leaseMs: MINUTE, to: "claimed" };

export async function seed(store: Store, records: readonly LedgerRecord[]): Promise<Stored[]> {
  const results = await store.write(records.map((record) => ({ record, expected: null })));
  assert.equal(results.length, records.length, "write must answer once per put");
  return records.map((record, index) => ({ record, version: wonVersion(results[index], `inserting ${record.key}`) }));
}

// Rows of one write: no more than a store's own batches hold.
const ROWS_A_WRITE = 500;

/** A backlog, part by part. */
export async function seedMany(store: Store, count: number, make: (index: number) => LedgerRecord): Promise<void> {
  for (let from = 0; from < count; from += ROWS_A_WRITE) {
    const rows = Math.min(ROWS_A_WRITE, count - from);
    await seed(
      store,
      Array.from({ length: rows }, (_, index) => make(from + index)),
    );
  }
}

export async function insert(store: Store, record: LedgerRecord): Promise<Stored> {
  const [stored] = await seed(store, [record]);
  assert.ok(stored);
  return stored;
}

export function wonVersion(result: PutResult | undefined, what: string): number {
  assert.ok(result, `${what}: no result`);
  assert.ok(result.ok, `${what}: refused, though nothing stood in its way`);
  assert.equal(typeof result.version, "number", `${what}: the new version must be a number`);
  return result.version;
}

export function lostTo(result: PutResult | undefined, what: string): Stored | null {
  assert.ok(result, `${what}: no result`);
  assert.ok(!result.ok, `${what}: accepted, though it had to be refused`);
  assert.notEqual(result.current, undefined, `${what}: a conflict must carry the current record, or null for none`);
  return result.current;
}

export async function readOne(store: Store, key: string): Promise<Stored | null> {
  const [stored, ...more] = await store.read([key]);
  assert.equal(more.length, 0, "read of one key answered more than once");
  assert.notEqual(stored, undefined, "read must answer null for an absent record, not undefined");
  return stored as Stored | null;
}

export async function assertHolds(store: Store, expected: Stored, what: string): Promise<void> {
  assert.deepStrictEqual(await readOne(store, expected.record.key), expected, what);
}

export async function assertRoundTrip(store: Store, record: LedgerRecord, what: string): Promise<void> {
  const stored = await insert(store, record);
  await assertHolds(store, stored, `${what} must come back as written`);
}

export async function assertRefused(call: Promise<unknown>, code: ErrorCode | null, what: string): Promise<void> {
  const answer = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  assert.ok("error" in answer, `${what}: answered instead of rejecting`);
  assert.ok(
    isNevertwiceError(answer.error),
    `${what}: must reject with a NevertwiceError, not ${String(answer.error)}`,
  );
  if (code !== null) assert.equal(answer.error.code, code, `${what}: the error's code`);
}

export function keysOf(rows: readonly Stored[]): string[] {
  return rows.map(({ record }) => record.key);
}

export function sortedKeys(rows: readonly Stored[]): string[] {
  return keysOf(rows).sort();
}
