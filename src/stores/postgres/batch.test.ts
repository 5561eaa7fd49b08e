/** However the columns of a batch travel (one value, or an array), each row is what was put. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { pooledLedger } from "../../../test/support/pooled-ledger.ts";
import { printInput, toFingerprint } from "../../core/key/fingerprint.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { PutResult } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";

const T = 1_750_000_000_000;
const time = fc.constantFrom(T, T + 1, T - 7, T + 86_400_000, 0);
const maybe = <V>(of: fc.Arbitrary<V>) => fc.option(of, { nil: null });
const fieldName = fc.oneof(
  fc.constantFrom("id", "", 'a"b', "a\\b", "a:b", "a\u0000b", "a\u001eb", "a\u001db", "é", "__proto__"),
  fc.string({ unit: "binary", maxLength: 5 }),
);
const fingerprint = fc
  .tuple(fc.dictionary(fieldName, fc.constantFrom(1, "x"), { minKeys: 1, maxKeys: 2 }), fc.boolean())
  .map(([input, isFree]) => toFingerprint(printInput(input, isFree ? ["id"] : [])));
const fields = {
  // What is under way.
  state: fc.constantFrom("claimed", "sent"),
  action: fc.constantFrom("send", "charge"),
  scope: maybe(fc.constantFrom("s", "a\u001eb", "")),
  createdAt: time,
  updatedAt: time,
  firstSentAt: maybe(time),
  lastSentAt: maybe(time),
  expiresAt: maybe(time),
  holder: fc.constantFrom(null, "h.1", "h.2"),
  lease: maybe(
    fc.record({ until: fc.oneof(time, fc.constant(T + 0.25)), epoch: fc.constant("") }, { noNullPrototype: true }),
  ),
  attempt: fc.constantFrom(1, 2),
  keepMs: fc.constantFrom(null, 60_000, 86_400_000),
  result: fc.constantFrom(null, { json: "1" }, { json: '"\\u001e"' }),
  fingerprint,
} satisfies { readonly [Name in keyof LedgerRecord]?: fc.Arbitrary<LedgerRecord[Name]> };
const batch = fc.array(fc.record(fields), { minLength: 2, maxLength: 9 });

it("claims, settles and replacements of any mixture are read back as they were written", async () => {
  const { store } = await pooledLedger(2);
  let round = 0;
  await fc.assert(
    fc.asyncProperty(batch, batch, async (firsts, seconds) => {
      round += 1;
      const claims = firsts.map((change, i) => sampleRecord({ ...change, key: `nt1_${round}_${i}` }));
      const keys = claims.map(({ key }) => key);
      const written = await store.write(claims.map((record) => ({ record, expected: null })));
      expect((await store.read(keys)).map((stored) => stored?.record)).toEqual(claims);
      const next = claims.map((record, i) => {
        const change = seconds[i % seconds.length] as (typeof seconds)[number];
        // Odd ones keep what a settle leaves alone, and are settled; the others are replaced.
        return i % 2 === 0 ? sampleRecord({ ...change, key: record.key }) : settled(record, change);
      });
      const again = await store.write(
        next.map((record, i) => ({ record, expected: versionOf(written[i]), before: claims[i] })),
      );
      const read = await store.read(keys);
      expect(read.map((stored) => stored?.record)).toEqual(next);
      expect(read.map((stored) => stored?.version)).toEqual(again.map(versionOf));
    }),
    { numRuns: 150 },
  );
});

function settled(record: LedgerRecord, change: Partial<LedgerRecord>): LedgerRecord {
  const { updatedAt, firstSentAt, lastSentAt, expiresAt, holder, lease, attempt, result } = { ...record, ...change };
  return { ...record, updatedAt, firstSentAt, lastSentAt, expiresAt, holder, lease, attempt, result };
}

function versionOf(result: PutResult | undefined): number {
  if (!result?.ok) throw new Error("not written");
  return result.version;
}
