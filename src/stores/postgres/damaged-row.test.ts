/** Values that no release writes: the row is refused and reported, and the rows beside it are handed out. */
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import type { DamagedRecord } from "../../core/damaged-record.ts";
import { isDamagedRecord } from "../../core/damaged-record.ts";
import type { Store } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { postgresStore } from "./index.ts";
import { keyHex } from "./sql/key.ts";

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

const key = (letter: string) => `nt1_${letter.repeat(52)}`;
const BAD = key("a");
const GOOD = key("b");

const CANNOT_BE: readonly (readonly [column: string, value: string])[] = [
  ["state", "'zz'"],
  ["attempt", "-5"],
  ["fence", "-1"],
  ["tries", "-1"],
  ["rev", "-7"],
  ["doc", "'{'"],
  ["doc", "''"],
  ["doc", "'[1]'"],
  ["doc", `'["g",null,5]'`],
  ["doc", `'["g",null,{},7]'`],
  ["doc", `'["g",null,{},{"version":-2}]'`],
  ["doc", `'["g",null,{},{"history":7}]'`],
];
// A lease clears or sets these, and does not look at what they were.
const CANNOT_BE_READ: readonly (readonly [column: string, value: string])[] = [
  ["fate", "'5'"],
  ["fate", "'{'"],
  ["lease_until", "'NaN'"],
];

beforeEach(async () => {
  await pool.query("TRUNCATE nevertwice.records");
  const now = store.now();
  const due = { state: "pending", queued: true, dueAt: now - 1_000, lease: null, holder: null } as const;
  const put = (name: string, before: number) => ({
    record: sampleRecord({ ...due, key: name, dueAt: now - before }),
    expected: null,
  });
  await store.write([put(BAD, 2_000), put(GOOD, 1_000)]);
});

const damage = (column: string, value: string) =>
  pool.query(`UPDATE nevertwice.records SET ${column} = ${value} WHERE encode(key, 'hex') = $1`, [keyHex(BAD)]);

describe.each([...CANNOT_BE, ...CANNOT_BE_READ])("%s = %s", (column, value) => {
  it("is a damaged record for reads and lists, and stats count the others", async () => {
    await damage(column, value);
    const error = await store.read([BAD]).catch((thrown: unknown) => thrown);
    expect(isDamagedRecord(error)).toBe(true);
    expect(error).toMatchObject({ key: BAD });
    expect(await store.list({ limit: 10 })).toMatchObject({ items: { length: 1 }, damaged: [{ key: BAD }] });
    const { total, states, actions } = await store.stats();
    expect(total).toBe(2);
    expect(Object.values(states).every(Number.isSafeInteger)).toBe(true);
    expect(actions.map((one) => one.total)).toEqual([2]);
  });
});

describe.each(CANNOT_BE)("%s = %s", (column, value) => {
  it("is not handed out but reported, also after its lease is over; the other one is handed out", async () => {
    await damage(column, value);
    const damaged: DamagedRecord[] = [];
    const lease = () =>
      store.lease({ limit: 10, holder: "w", leaseMs: 1, to: "claimed", damaged: (one) => damaged.push(one) });
    expect((await lease()).map(({ record }) => record.key)).toEqual([GOOD]);
    expect(damaged).toMatchObject([{ key: BAD }]);
    expect(isDamagedRecord(await store.read([BAD]).catch((thrown: unknown) => thrown))).toBe(true);
  });
});
