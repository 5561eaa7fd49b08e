/** What the ledger counts, and what it may forget. */
import assert from "node:assert/strict";
import { assertRefused, insert, keysOf, seed } from "../checks.js";
import { LONG, lapsedAndNot, leasedRecord, numberedKey, sampleRecord, settledRecord, times } from "../sample-record.js";
const NONE = { pending: 0, claimed: 0, sent: 0, confirmed: 0, failed: 0, unknown: 0 };
export const stats = [
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
        name: "says since when the oldest due work and the oldest doubt wait",
        body: async ({ store }) => {
            const pending = (key, dueAt) => sampleRecord({ key, dueAt, queued: true, createdAt: 900 });
            const unknown = (key, doubtSince) => sampleRecord({ key, state: "unknown", doubtSince, dueAt: 1 });
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
export const sweeping = [
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
        name: "never removes pending, claimed, sent or unknown records, whatever their times say",
        body: async ({ store, at }) => {
            const expiresAt = Math.floor(at.now) - LONG;
            const states = ["pending", "claimed", "sent", "unknown"];
            const kept = await seed(store, states.map((state) => leasedRecord(at, `nt1_${state}`, -LONG, { state, expiresAt })));
            assert.equal(await store.sweep({ limit: 10 }), 0);
            assert.deepStrictEqual(await store.read(keysOf(kept)), kept, "all of them are still there");
        },
    },
    {
        name: "removes at most its limit at a time, and everything in the end",
        body: async ({ store, at }) => {
            const expiresAt = Math.floor(at.now) - LONG;
            await seed(store, times(25, (index) => settledRecord(at, numberedKey(index), { expiresAt })));
            const removed = [];
            for (let call = 0; call < 26 && removed.at(-1) !== 0; call += 1)
                removed.push(await store.sweep({ limit: 10 }));
            assert.equal(removed.at(-1), 0, "sweeping ends");
            assert.ok(Math.max(...removed) <= 10, `one call removed ${Math.max(...removed)} with limit 10`);
            assert.equal(removed.reduce((sum, count) => sum + count, 0), 25, "the counts add up");
            assert.equal((await store.stats()).total, 0, "nothing is left");
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
//# sourceMappingURL=stats-and-sweep.js.map