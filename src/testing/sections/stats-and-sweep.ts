/** What the ledger counts, and what it may forget. */
import assert from "node:assert/strict";
import type { LedgerRecord, State } from "../../core/record.ts";
import type { LedgerStats, Stored } from "../../core/store.ts";
import { assertRefused, insert, keysOf, seed } from "../checks.ts";
import type { Case } from "../harness.ts";
import { LONG, lapsedAndNot, leasedRecord, numberedKey, sampleRecord, settledRecord, times } from "../sample-record.ts";

const NONE: Readonly<Record<State, number>> = { pending: 0, claimed: 0, sent: 0, confirmed: 0, failed: 0, unknown: 0 };

export const stats: readonly Case[] = [
  {
    name: "an empty ledger counts nothing",
    body: async ({ store }) => {
      const nothing = { total: 0, states: NONE, actions: [], lapsed: 0, oldestPendingAt: null, oldestUnknownAt: null };
      assert.deepEqual(await store.stats(), nothing);
    },
  },
  {
    name: "counts by state and by action, and what has lapsed",
    body: async ({ store, at }) => {
      await seed(store, [
        ...lapsedAndNot(at).map((record) => ({ ...record, action: "mail" })),
        sampleRecord({ key: "nt1_p1", action: "sms", tenant: "acme" }),
        sampleRecord({ key: "nt1_p2", action: "sms" }),
      ]);
      const { total, states, actions, lapsed } = await store.stats();
      const mail = { ...NONE, claimed: 2, sent: 3, confirmed: 1, unknown: 1 };
      assert.deepEqual({ total, states, lapsed }, { total: 9, states: { ...mail, pending: 2 }, lapsed: 3 });
      const byName = [...actions].sort((a, b) => (a.action < b.action ? -1 : 1));
      const sms = { action: "sms", total: 2, states: { ...NONE, pending: 2 } };
      assert.deepEqual(byName, [{ action: "mail", total: 7, states: mail }, sms]);
    },
  },
  {
    name: "counts one tenant's records alone where it is asked to",
    body: async ({ store, at }) => {
      const of = (tenant: string, tail: string, changes: Partial<LedgerRecord>) =>
        sampleRecord({ key: `nt1_${tenant}_${tail}`, tenant, ...changes });
      const now = Math.floor(at.now);
      await seed(store, [
        of("acme", "due", { action: "mail", queued: true, dueAt: 3_000 }),
        of("acme", "doubt", { action: "sms", state: "unknown", doubtSince: 7_000, dueAt: null }),
        leasedRecord(at, "nt1_acme_lapsed", -LONG, { tenant: "acme", action: "mail", state: "sent" }),
        of("other", "due", { action: "mail", queued: true, dueAt: 2_000 }),
        of("other", "doubt", { action: "call", state: "unknown", doubtSince: 6_000, dueAt: null }),
        leasedRecord(at, "nt1_other_lapsed", -LONG, { tenant: "other", action: "mail", state: "sent" }),
        leasedRecord(at, "nt1__lapsed", -LONG, { action: "mail", state: "claimed" }),
        settledRecord(at, "nt1_other_done", { tenant: "other", expiresAt: now + LONG }),
      ]);
      const { actions, ...acme } = await store.stats({ tenant: "acme" });
      const states = { ...NONE, pending: 1, sent: 1, unknown: 1 };
      assert.deepEqual(acme, { total: 3, states, lapsed: 1, oldestPendingAt: 3_000, oldestUnknownAt: 7_000 });
      assert.deepEqual([...actions].map(({ action, total }) => `${action} ${total}`).sort(), ["mail 2", "sms 1"]);
      assert.equal((await store.stats({ tenant: "" })).total, 1, 'tenant ""');
      assert.equal((await store.stats({ tenant: "nobody" })).total, 0, "an unknown tenant: nothing");
      assert.equal((await store.stats({})).total, 8, "no tenant: everybody's");
    },
  },
  {
    name: "counts what waits where only that is asked for",
    body: async ({ store, at }) => {
      await seed(store, [
        ...lapsedAndNot(at).map((record) => ({ ...record, action: "mail" })),
        sampleRecord({ key: "nt1_p1", action: "sms", tenant: "acme", queued: true, dueAt: 3_000 }),
        sampleRecord({
          key: "nt1_u1",
          action: "sms",
          tenant: "acme",
          state: "unknown",
          doubtSince: 7_000,
          dueAt: null,
        }),
        settledRecord(at, "nt1_f1", { state: "failed", expiresAt: null, keepMs: null }),
      ]);
      const waitingOf = ({ states, lapsed, oldestPendingAt, oldestUnknownAt }: LedgerStats) => {
        const { pending, failed, unknown } = states;
        return { pending, failed, unknown, lapsed, oldestPendingAt, oldestUnknownAt };
      };
      for (const of of [{}, { tenant: "acme" }]) {
        const whole = await store.stats(of);
        assert.deepEqual(waitingOf(await store.stats({ ...of, waiting: true })), waitingOf(whole));
      }
      assert.equal((await store.stats({ waiting: true })).states.failed, 1);
    },
  },
  {
    name: "says since when the oldest due work and the oldest doubt wait",
    body: async ({ store }) => {
      const pending = (key: string, dueAt: number) => sampleRecord({ key, dueAt, queued: true, createdAt: 900 });
      const unknown = (key: string, doubtSince: number) =>
        sampleRecord({ key, state: "unknown", doubtSince, dueAt: 1 });
      await seed(store, [
        pending("nt1_a", 3_000),
        pending("nt1_b", 2_000),
        unknown("nt1_c", 7_000),
        unknown("nt1_d", 6_000),
      ]);
      const { oldestPendingAt, oldestUnknownAt } = await store.stats();
      assert.deepEqual({ oldestPendingAt, oldestUnknownAt }, { oldestPendingAt: 2_000, oldestUnknownAt: 6_000 });
    },
  },
];

export const sweeping: readonly Case[] = [
  {
    name: "removes settled records past their keep, and says how many",
    body: async ({ store, at }) => {
      const expiresAt = Math.floor(at.now) - LONG;
      await seed(store, [
        settledRecord(at, "nt1_confirmed", { expiresAt }),
        settledRecord(at, "nt1_failed", { state: "failed", expiresAt }),
      ]);
      assert.equal(await store.sweep({ limit: 10 }), 2);
      assert.deepEqual(await store.read(["nt1_confirmed", "nt1_failed"]), [null, null], "they are gone");
      assert.equal(await store.sweep({ limit: 10 }), 0, "0 when none is left");
      assert.equal((await store.stats()).total, 0);
    },
  },
  {
    name: "keeps what still guards its key, and what is kept forever",
    body: async ({ store, at }) => {
      const kept = await seed(store, [
        settledRecord(at, "nt1_guarding", { expiresAt: Math.floor(at.now) + LONG }),
        settledRecord(at, "nt1_forever", { expiresAt: null, keepMs: null }),
        settledRecord(at, "nt1_failed", { state: "failed", expiresAt: Math.floor(at.now) + LONG }),
      ]);
      assert.equal(await store.sweep({ limit: 10 }), 0);
      assert.deepStrictEqual(await store.read(keysOf(kept)), kept, "all of them are still there");
    },
  },
  {
    name: "goes by the retention that a settled record was given last, shorter or longer",
    body: async ({ store, at }) => {
      const now = Math.floor(at.now);
      const keys = ["nt1_shorter", "nt1_longer"];
      const before = await seed(store, [
        settledRecord(at, "nt1_shorter", { createdAt: now - 3 * LONG, expiresAt: null, keepMs: null }),
        settledRecord(at, "nt1_longer", { createdAt: now - 3 * LONG, expiresAt: now + LONG, keepMs: LONG }),
      ]);
      assert.equal(await store.sweep({ limit: 10 }), 0, "both are kept");
      const changes = [
        { keepMs: 2 * LONG, expiresAt: now + 2 * LONG },
        { keepMs: null, expiresAt: null },
      ];
      const swap = async (rows: readonly Stored[]) => {
        const changed = rows.map(({ record }, index) => ({ ...record, ...changes[index] }));
        const results = await store.write(
          changed.map((record, index) => ({ record, expected: rows[index]?.version ?? null })),
        );
        assert.ok(
          results.every(({ ok }) => ok),
          "both are swapped",
        );
        return changed;
      };
      const changed = await swap(before);
      const found = await store.read(keys);
      assert.deepStrictEqual(
        found.map((row) => row?.record),
        changed,
        "nothing else has changed",
      );
      assert.equal(await store.sweep({ limit: 10 }), 0, "both are still kept");
      changes[0] = { keepMs: LONG, expiresAt: now - LONG };
      await swap(found.map((row) => row as Stored));
      assert.equal(await store.sweep({ limit: 10, thorough: true }), 1, "the shorter one is over");
      const [gone, kept] = await store.read(keys);
      assert.deepEqual([gone, kept?.record.expiresAt], [null, null]);
    },
  },
  {
    name: "never removes pending, claimed, sent or unknown records, whatever their times say",
    body: async ({ store, at }) => {
      const expiresAt = Math.floor(at.now) - LONG;
      const states: State[] = ["pending", "claimed", "sent", "unknown"];
      const kept = await seed(
        store,
        states.map((state) => leasedRecord(at, `nt1_${state}`, -LONG, { state, expiresAt })),
      );
      assert.equal(await store.sweep({ limit: 10 }), 0);
      assert.deepStrictEqual(await store.read(keysOf(kept)), kept, "all of them are still there");
    },
  },
  {
    name: "removes at most its limit at a time, and everything in the end",
    body: async ({ store, at }) => {
      const expiresAt = Math.floor(at.now) - LONG;
      await seed(
        store,
        times(25, (index) => settledRecord(at, numberedKey(index), { expiresAt })),
      );
      const removed: number[] = [];
      for (let call = 0; call < 26 && removed.at(-1) !== 0; call += 1) removed.push(await store.sweep({ limit: 10 }));
      assert.equal(removed.at(-1), 0, "sweeping ends");
      assert.ok(Math.max(...removed) <= 10, `one call removed ${Math.max(...removed)} with limit 10`);
      assert.equal(
        removed.reduce((sum, count) => sum + count, 0),
        25,
        "the counts add up",
      );
      assert.equal((await store.stats()).total, 0, "nothing is left");
    },
  },
  {
    name: "removes one tenant's records alone where it is asked to, whoever sweeps beside it",
    body: async ({ store, at }) => {
      const expiresAt = Math.floor(at.now) - LONG;
      const tenants = ["acme", "other", ""];
      const of = (tenant: string) =>
        times(5, (index) => settledRecord(at, `nt1_${tenant}_${index}`, { tenant, expiresAt }));
      const rows = await seed(store, tenants.flatMap(of));
      const left = async () =>
        (await store.read(keysOf(rows))).flatMap((row) => (row === null ? [] : row.record.tenant));
      const others = rows.filter(({ record }) => record.tenant !== "acme");
      // Where the store's server removes records by itself there may be nothing left to see, only to count.
      const [before] = [await left()];
      assert.equal(await store.sweep({ limit: 10, tenant: "nobody" }), 0, "an unknown tenant: nothing");
      let removed = 0;
      for (let call = 0; call < 6; call += 1) removed += await store.sweep({ limit: 2, tenant: "acme" });
      assert.equal(removed, 5, "all of acme's");
      assert.deepEqual(
        await left(),
        before.filter((tenant) => tenant !== "acme"),
        "nobody else's",
      );
      assert.equal(await store.sweep({ limit: 100, tenant: "", thorough: true }), 5, 'tenant ""');
      assert.equal(await store.sweep({ limit: 100 }), others.length - 5, "everybody else's, where no tenant is named");
    },
  },
  {
    name: "says when a pass left something to look at: going on until it does not removes everything",
    body: async ({ store, at }) => {
      const now = Math.floor(at.now);
      await seed(
        store,
        times(60, (index) =>
          settledRecord(at, numberedKey(index), { expiresAt: index % 2 === 0 ? now - LONG : now + LONG }),
        ),
      );
      let removed = 0;
      let more = true;
      for (let call = 0; call < 100 && more; call += 1) {
        let unfinished = false;
        const gone = await store.sweep({
          limit: 4,
          unfinished: () => {
            unfinished = true;
          },
        });
        removed += gone;
        more = unfinished || gone === 4;
      }
      assert.equal(more, false, "sweeping ends");
      assert.equal(removed, 30, "all that are past their keep");
      assert.equal((await store.stats()).total, 30, "the others are left");
    },
  },
  {
    name: "follows the store's clock",
    needs: "advance",
    body: async ({ store, ledger, at }) => {
      await insert(store, settledRecord(at, "nt1_settled", { expiresAt: Math.floor(at.now) + 5_000 }));
      assert.equal(await store.sweep({ limit: 10 }), 0, "still guarding");
      await ledger.advance?.(5_001);
      assert.equal(await store.sweep({ limit: 10 }), 1, "past its keep");
    },
  },
  {
    name: "refuses a limit that is no whole number above zero",
    body: async ({ store }) => {
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        await assertRefused(store.sweep({ limit }), "CONFIG", `sweep with limit ${limit}`);
      }
    },
  },
];
