/** A damaged record read as absent would let its effect happen again; one that stops a loop would stop everybody else's. */
import assert from "node:assert/strict";
import { type DamagedRecord, isDamagedRecord } from "../../core/damaged-record.ts";
import { isNevertwiceError } from "../../core/errors.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { Page, Store } from "../../core/store.ts";
import { assertRefused, insert, keysOf, LEASE, lostTo, readOne, seed, sortedKeys } from "../checks.ts";
import type { Bench, Case } from "../harness.ts";
import { filledRecord, LONG, sampleRecord } from "../sample-record.ts";

const DAMAGED = "nt1_filled";

/** Due work, as old as asked for. */
function due(key: string, at: number, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  return sampleRecord({ key, state: "pending", queued: true, dueAt: at, createdAt: at, ...overrides });
}

/** A record with every field filled that is due as well, so that a store's own way to damage it finds what to change. */
function filledAndDue(at: number): LedgerRecord {
  return filledRecord({
    state: "pending",
    queued: true,
    terms: null,
    holder: null,
    lease: null,
    createdAt: at,
    updatedAt: at,
    dueAt: at,
    doubtSince: null,
    doubtMark: null,
    settledAt: null,
    expiresAt: null,
  });
}

async function damage({ ledger }: Bench): Promise<void> {
  await ledger.corrupt?.(DAMAGED);
}

async function pages(store: Store, limit: number): Promise<Page> {
  const items: Page["items"][number][] = [];
  const damaged: DamagedRecord[] = [];
  for (let cursor: string | null = null, page = 0; page < 50; page += 1) {
    const answer: Page = await store.list({ limit, order: "oldest", ...(cursor !== null && { cursor }) });
    items.push(...answer.items);
    damaged.push(...(answer.damaged ?? []));
    cursor = answer.cursor;
    if (cursor === null) return { items, damaged, cursor };
  }
  return assert.fail("a list with a damaged record in it never ends");
}

export const corruption: readonly Case[] = [
  {
    name: "a damaged record is noticed, never read as absent",
    needs: "corrupt",
    body: async ({ store, ledger }) => {
      await insert(store, filledRecord());
      await ledger.corrupt?.("nt1_filled");
      await assertRefused(store.read(["nt1_filled"]), null, "reading a damaged record");
    },
  },
  {
    name: "a damaged record is not overwritten by an insert",
    needs: "corrupt",
    body: async ({ store, ledger }) => {
      await insert(store, filledRecord());
      await ledger.corrupt?.("nt1_filled");
      const won = await store.write([{ record: filledRecord({ holder: "second" }), expected: null }]).then(
        ([result]) => result?.ok === true,
        (error: unknown) => !isNevertwiceError(error),
      );
      assert.equal(won, false, "the insert must be refused, or reject with a NevertwiceError");
    },
  },
  {
    name: "the error of a damaged record among others names its key, and the others are read without it",
    needs: "corrupt",
    body: async (bench) => {
      const { store } = bench;
      const others = Array.from({ length: 20 }, (_, i) => sampleRecord({ key: `nt1_other${i}` }));
      await seed(store, [...others.slice(0, 10), filledRecord(), ...others.slice(10)]);
      await damage(bench);
      const keys = others.map(({ key }) => key);
      for (const asked of [[DAMAGED], [...keys.slice(0, 10), DAMAGED, ...keys.slice(10)]]) {
        const error = await store.read(asked).then(
          () => assert.fail("reading a damaged record answered instead of rejecting"),
          (rejection: unknown) => rejection,
        );
        assert.ok(isDamagedRecord(error), `must reject with core's damagedRecord(), not ${String(error)}`);
        assert.equal(error.key, DAMAGED, "the error must name the damaged record");
      }
      assert.deepEqual(sortedKeys((await store.read(keys)).filter((row) => row !== null)), keys.sort());
    },
  },
  {
    name: "a batch with a damaged record in it writes the others once: written again, they show their own record",
    needs: "corrupt",
    body: async (bench) => {
      const { store } = bench;
      await insert(store, filledRecord());
      await damage(bench);
      const others = ["nt1_a", "nt1_z"].map((key) => sampleRecord({ key, holder: `holder of ${key}` }));
      const put = (record: LedgerRecord) => ({ record, expected: null });
      const [first, last] = others as [LedgerRecord, LedgerRecord];
      await store.write([put(first), put(filledRecord({ holder: "second" })), put(last)]).catch((error: unknown) => {
        assert.ok(isDamagedRecord(error), `must reject with core's damagedRecord(), not ${String(error)}`);
        assert.equal(error.key, DAMAGED, "the error must name the damaged record");
      });
      const again = await store.write(others.map(put));
      for (const [i, result] of again.entries()) {
        const stands = result.ok ? await readOne(store, (others[i] as LedgerRecord).key) : lostTo(result, "again");
        assert.equal(stands?.record.holder, (others[i] as LedgerRecord).holder, "another record than was written");
      }
    },
  },
  {
    name: "a list passes over a damaged record and reports it, at any size of page",
    needs: "corrupt",
    body: async (bench) => {
      const { store, at } = bench;
      await seed(store, [due("nt1_a", at.now - 3_000), due("nt1_b", at.now - 1_000)]);
      await insert(store, filledAndDue(at.now - 2_000));
      await damage(bench);
      for (const limit of [1, 2, 100]) {
        const { items, damaged = [] } = await pages(store, limit);
        assert.deepEqual(keysOf(items), ["nt1_a", "nt1_b"], `pages of ${limit}`);
        assert.ok(damaged.length >= 1, `pages of ${limit} must report the damaged record`);
        assert.deepEqual([...new Set(damaged.map(({ key }) => key))], [DAMAGED], `pages of ${limit}`);
        assert.match(damaged[0]?.message ?? "", /damaged/);
      }
    },
  },
  {
    name: "a lease hands out the work behind a damaged record, and reports it",
    needs: "corrupt",
    body: async (bench) => {
      const { store, at } = bench;
      await insert(store, filledAndDue(at.now - LONG));
      await seed(store, [due("nt1_a", at.now - 2_000), due("nt1_b", at.now - 1_000)]);
      await damage(bench);
      const reported: string[] = [];
      const query = { ...LEASE, damaged: ({ key }: DamagedRecord) => reported.push(key) };
      assert.deepEqual(keysOf(await store.lease({ ...query, limit: 1 })), ["nt1_a"]);
      assert.deepEqual(keysOf(await store.lease({ ...query, limit: 100 })), ["nt1_b"]);
      assert.deepEqual([...new Set(reported)], [DAMAGED], "the damaged record must be reported");
      await assertRefused(store.read([DAMAGED]), null, "reading it after the leases");
    },
  },
  {
    name: "stats and sweep go on beside a damaged record, which no sweep removes",
    needs: "corrupt",
    body: async (bench) => {
      const { store, at } = bench;
      const over = {
        state: "confirmed",
        settledAt: at.now - LONG,
        expiresAt: at.now - LONG / 2,
        createdAt: at.now - LONG,
      } as const;
      await insert(store, filledRecord());
      await damage(bench);
      await seed(store, [sampleRecord({ key: "nt1_over", ...over }), sampleRecord({ key: "nt1_there" })]);
      await store.stats();
      // A store may remove what is over by itself, before any sweep.
      await store.sweep({ limit: 100, thorough: true });
      assert.deepEqual(await store.read(["nt1_over"]), [null]);
      assert.notEqual(await readOne(store, "nt1_there"), null);
      await assertRefused(store.read([DAMAGED]), null, "reading the damaged record after a sweep");
    },
  },
  {
    name: "a ledger with a damaged record in it opens again, and the others work",
    needs: "corrupt",
    body: async (bench) => {
      await seed(bench.store, [sampleRecord({ key: "nt1_a" }), filledRecord(), sampleRecord({ key: "nt1_b" })]);
      await damage(bench);
      const again = await bench.second();
      await assertRefused(again.read([DAMAGED]), null, "reading a damaged record after opening again");
      assert.deepEqual(sortedKeys((await again.read(["nt1_a", "nt1_b"])).filter((row) => row !== null)), [
        "nt1_a",
        "nt1_b",
      ]);
      await insert(again, sampleRecord({ key: "nt1_new" }));
      const { items, damaged = [] } = await again.list({ limit: 10 });
      assert.deepEqual(sortedKeys(items), ["nt1_a", "nt1_b", "nt1_new"]);
      assert.deepEqual(
        damaged.map(({ key }) => key),
        [DAMAGED],
      );
    },
  },
  {
    name: "a damaged record is set aside by name alone; what can be read is not",
    needs: "corrupt",
    body: async (bench) => {
      const { store } = bench;
      // Where a store cannot, `doctor` says so.
      if (store.quarantine === undefined) return;
      await seed(store, [filledRecord(), sampleRecord({ key: "nt1_sound" })]);
      await damage(bench);
      assert.equal(await store.quarantine("nt1_none"), null, "there is nothing under this key");
      await assertRefused(store.quarantine("nt1_sound"), "CONFIG", "setting a sound record aside");
      assert.notEqual(await readOne(store, "nt1_sound"), null);
      const { key, keptIn } = (await store.quarantine(DAMAGED)) ?? assert.fail("the damaged record was not found");
      assert.equal(key, DAMAGED);
      assert.ok(keptIn.length > 0, "it must say where the bytes are kept");
      assert.equal(await readOne(store, DAMAGED), null, "its key is free");
      assert.deepEqual(keysOf((await store.list({ limit: 10 })).items), ["nt1_sound"]);
      await insert(store, filledRecord({ holder: "second" }));
      assert.equal((await readOne(store, DAMAGED))?.record.holder, "second");
      assert.equal(await store.quarantine("nt1_none"), null);
    },
  },
];
