/** A write names the version it replaces, and each put of a batch stands or falls by itself. */
import assert from "node:assert/strict";
import { assertHolds, insert, lostTo, readOne, seed, wonVersion } from "../checks.ts";
import type { Case } from "../harness.ts";
import { LONG, numberedKey, sampleRecord, settledRecord, times } from "../sample-record.ts";

export const compareAndSwap: readonly Case[] = [
  {
    name: "inserts only where there is no row, and shows the row that was there",
    body: async ({ store }) => {
      const first = await insert(store, sampleRecord({ holder: "first" }));
      const [again] = await store.write([{ record: sampleRecord({ holder: "second" }), expected: null }]);
      assert.deepStrictEqual(lostTo(again, "a second insert"), first, "the conflict must carry the first record");
      await assertHolds(store, first, "a refused insert changed the row");
    },
  },
  {
    name: "swaps the version it was told, and the version grows",
    body: async ({ store }) => {
      let { version } = await insert(store, sampleRecord());
      for (const fence of [1, 2, 3]) {
        const [result] = await store.write([{ record: sampleRecord({ fence }), expected: version }]);
        const next = wonVersion(result, `swap ${fence}`);
        assert.ok(next > version, `version ${next} came after ${version}: it must grow`);
        version = next;
      }
      await assertHolds(store, { record: sampleRecord({ fence: 3 }), version }, "the last swap");
    },
  },
  {
    name: "refuses a stale version, and shows the row as it is now",
    body: async ({ store }) => {
      const { version } = await insert(store, sampleRecord());
      const [won] = await store.write([{ record: sampleRecord({ fence: 1 }), expected: version }]);
      const now = { record: sampleRecord({ fence: 1 }), version: wonVersion(won, "the first swap") };
      const [stale] = await store.write([{ record: sampleRecord({ fence: 9 }), expected: version }]);
      assert.deepStrictEqual(lostTo(stale, "a stale swap"), now, "the conflict must carry the current record");
      await assertHolds(store, now, "a refused swap changed the row");
    },
  },
  {
    name: "refuses a swap of a row that is not there, and says that there is none",
    body: async ({ store }) => {
      const [result] = await store.write([{ record: sampleRecord(), expected: 1 }]);
      assert.equal(lostTo(result, "a swap of an absent row"), null);
      assert.equal(await readOne(store, "nt1_sample"), null, "a refused swap must not insert");
    },
  },
  {
    name: "a row that was swept and begun again refuses its old version",
    body: async ({ store, at }) => {
      const old = await insert(store, settledRecord(at, "nt1_again", { expiresAt: Math.floor(at.now) - LONG }));
      assert.equal(await store.sweep({ limit: 10 }), 1, "the expired row is swept");
      const fresh = await insert(store, sampleRecord({ key: "nt1_again" }));
      const [zombie] = await store.write([
        { record: sampleRecord({ key: "nt1_again", fence: 9 }), expected: old.version },
      ]);
      assert.deepStrictEqual(lostTo(zombie, "a write that names the swept row's version"), fresh);
    },
  },
  {
    name: "one conflict in a batch fails nobody else",
    body: async ({ store }) => {
      const [taken, swapped] = await seed(store, [
        sampleRecord({ key: "nt1_taken" }),
        sampleRecord({ key: "nt1_swap" }),
      ]);
      const results = await store.write([
        { record: sampleRecord({ key: "nt1_new" }), expected: null },
        { record: sampleRecord({ key: "nt1_taken", fence: 5 }), expected: null },
        { record: sampleRecord({ key: "nt1_gone" }), expected: 1 },
        { record: sampleRecord({ key: "nt1_swap", fence: 5 }), expected: swapped?.version ?? null },
      ]);
      wonVersion(results[0], "the new row");
      assert.deepStrictEqual(lostTo(results[1], "the taken row"), taken);
      assert.equal(lostTo(results[2], "the absent row"), null);
      const version = wonVersion(results[3], "the good swap");
      await assertHolds(store, { record: sampleRecord({ key: "nt1_swap", fence: 5 }), version }, "the good swap");
      assert.notEqual(await readOne(store, "nt1_new"), null, "the new row was not written");
    },
  },
  {
    name: "answers a batch in its own order, whatever the order of its keys",
    body: async ({ store }) => {
      const keys = ["nt1_m", "nt1_a", "nt1_z", "nt1_B", "nt1_0"];
      await seed(store, [sampleRecord({ key: "nt1_z" }), sampleRecord({ key: "nt1_a" })]);
      const results = await store.write(
        keys.map((key) => ({ record: sampleRecord({ key, fence: 2 }), expected: null })),
      );
      const outcome = results.map((result) => (result.ok ? "ok" : result.current?.record.key));
      assert.deepEqual(outcome, ["ok", "nt1_a", "nt1_z", "ok", "ok"]);
    },
  },
  {
    name: "one key twice in a batch is never won twice",
    body: async ({ store }) => {
      const puts = ["one", "two"].map((holder) => ({ record: sampleRecord({ holder }), expected: null }));
      const results = await store.write(puts);
      const winners = puts.filter((_, index) => results[index]?.ok);
      assert.equal(winners.length, 1, "exactly one of two inserts of one key");
      assert.equal((await readOne(store, "nt1_sample"))?.record.holder, winners[0]?.record.holder, "the winner's row");
    },
  },
  {
    name: "takes 500 inserts and 500 swaps in one batch each",
    body: async ({ store }) => {
      const stored = await seed(
        store,
        times(500, (index) => sampleRecord({ key: numberedKey(index) })),
      );
      const next = stored.map(({ record, version }) => ({ record: { ...record, fence: 1 }, expected: version }));
      const results = await store.write(next);
      for (const [index, result] of results.entries()) wonVersion(result, `swap ${index} of 500`);
      const rows = await store.read(next.map(({ record }) => record.key));
      assert.equal(rows.filter((row) => row?.record.fence === 1).length, 500, "all 500 swaps are in the ledger");
    },
  },
];
