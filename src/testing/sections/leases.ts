/** Handing out due work: what is due, in which order, to one worker only, and as core's claim would. */
import assert from "node:assert/strict";
import type { State } from "../../core/record.ts";
import type { Store, Stored } from "../../core/store.ts";
import { transition } from "../../core/transition.ts";
import { assertHolds, assertRefused, insert, keysOf, LEASE, lostTo, seed, seedMany, sortedKeys } from "../checks.ts";
import type { Bench, Case } from "../harness.ts";
import { dueRecord, LONG, leasedRecord, MINUTE, numberedKey, times } from "../sample-record.ts";

export const leases: readonly Case[] = [
  {
    name: "hands out nothing where nothing is due",
    body: async ({ store }) => assert.deepEqual(await store.lease(LEASE), []),
  },
  ...(["claimed", "sent"] as const).map(
    (to): Case => ({
      name: `hands out a due record as ${to}, as core's claim would: fence, attempt and tries + 1`,
      body: (bench) => assertLeasedLikeCore(bench, to),
    }),
  ),
  {
    name: "a leased record refuses who still holds its old version",
    body: async ({ store, at }) => {
      const { record, version } = await insert(store, dueRecord(at, "nt1_due"));
      const [leased] = await store.lease(LEASE);
      const [late] = await store.write([{ record: { ...record, fence: 9 }, expected: version }]);
      assert.deepStrictEqual(lostTo(late, "a write from before the lease"), leased);
    },
  },
  {
    name: "hands out the longest due first, up to the limit, and each only once",
    body: async ({ store, at }) => {
      const minutes = [3, 1, 5, 2, 4];
      const now = Math.floor(at.now);
      // Created in the opposite order: it is the due time that counts.
      await seed(
        store,
        minutes.map((m) =>
          dueRecord(at, `nt1_${m}`, { dueAt: now - LONG - m * MINUTE, createdAt: now - 2 * LONG + m * MINUTE }),
        ),
      );
      assert.deepEqual(
        sortedKeys(await store.lease({ ...LEASE, limit: 2 })),
        ["nt1_4", "nt1_5"],
        "the two longest due",
      );
      assert.deepEqual(keysOf(await store.lease({ ...LEASE, limit: 1 })), ["nt1_3"], "the next");
      assert.deepEqual(keysOf(await store.lease(LEASE)), ["nt1_2", "nt1_1"], "the rest, longest due first");
      assert.deepEqual(await store.lease(LEASE), [], "all are leased now");
    },
  },
  {
    name: "priority is a head start of a minute a step: it goes ahead, and older work still has its turn",
    body: async ({ store, at }) => {
      const now = Math.floor(at.now) - LONG;
      const due = (key: string, dueAt: number, priority?: number) =>
        dueRecord(at, key, { dueAt, updatedAt: dueAt, terms: priority === undefined ? null : { priority } });
      await seed(store, [
        due("nt1_plain", now),
        due("nt1_urgent", now, 9),
        due("nt1_five", now - 5 * MINUTE),
        due("nt1_ten", now - 10 * MINUTE),
      ]);
      assert.deepEqual(keysOf(await store.lease(LEASE)), ["nt1_ten", "nt1_urgent", "nt1_five", "nt1_plain"]);
    },
  },
  {
    name: "does not hand out what is not due yet",
    body: async ({ store, at }) => {
      await seed(store, [dueRecord(at, "nt1_later", { dueAt: Math.floor(at.now) + LONG }), dueRecord(at, "nt1_due")]);
      assert.deepEqual(keysOf(await store.lease(LEASE)), ["nt1_due"]);
    },
  },
  {
    name: "does not hand out what is not queued: only calls drive it",
    body: async ({ store, at }) => {
      const called = [dueRecord(at, "nt1_call"), leasedRecord(at, "nt1_lapsed", -LONG)];
      await seed(
        store,
        called.map((record) => ({ ...record, queued: false })),
      );
      assert.deepEqual(keysOf(await store.lease(LEASE)), []);
    },
  },
  {
    name: "hands out nothing that is sent, settled or in doubt, lapsed or not",
    body: async ({ store, at }) => {
      const dueAt = Math.floor(at.now) - LONG;
      const states: State[] = ["sent", "confirmed", "failed", "unknown"];
      await seed(store, [
        ...states.map((state) => leasedRecord(at, `nt1_${state}`, -LONG, { state, dueAt })),
        leasedRecord(at, "nt1_otherboot", LONG, { state: "sent", lease: { until: at.steady + LONG, epoch: "gone" } }),
      ]);
      assert.deepEqual(
        sortedKeys(await store.lease(LEASE)),
        [],
        "a second attempt at any of these could double the effect",
      );
    },
  },
  {
    name: "hands out a claimed record again once its lease is over, not before",
    body: async ({ store, at }) => {
      await seed(store, [
        leasedRecord(at, "nt1_alive", LONG),
        leasedRecord(at, "nt1_lapsed", -LONG, { fence: 4, attempt: 3, tries: 2 }),
        leasedRecord(at, "nt1_otherboot", LONG, { lease: { until: at.steady + LONG, epoch: "an earlier boot" } }),
      ]);
      const rows = await store.lease(LEASE);
      assert.deepEqual(sortedKeys(rows), ["nt1_lapsed", "nt1_otherboot"]);
      const { fence, attempt, tries, holder } = rows.find(({ record }) => record.key === "nt1_lapsed")?.record ?? {};
      assert.deepEqual({ fence, attempt, tries, holder }, { fence: 5, attempt: 4, tries: 3, holder: "worker-1" });
    },
  },
  {
    name: "a lease of one kind uses up no look for what silent holders left of another kind",
    body: async ({ store, at }) => {
      const left = (tenant: string, action: string) =>
        leasedRecord(at, `nt1_${tenant}_${action}`, -LONG, { tenant, action });
      const kinds = [
        { actions: ["mail"], to: "claimed", tenant: "" },
        { actions: ["sms", "call"], to: "sent", tenant: "" },
        { actions: ["mail"], to: "claimed", tenant: "acme", leaseMs: 2 * MINUTE },
        { actions: ["sms"], to: "sent", tenant: "acme", limit: 1 },
      ] as const;
      await seed(store, [
        left("", "mail"),
        left("", "sms"),
        left("", "call"),
        left("acme", "mail"),
        left("acme", "sms"),
      ]);
      const found: string[] = [];
      for (const kind of kinds) {
        // Another worker of this process looks as well, and so does a queue that takes one task at a time.
        await store.lease({ ...LEASE, actions: ["unrelated"] });
        await store.lease({ ...LEASE, actions: ["unrelated"], limit: 1, to: "sent", tenant: kind.tenant });
        found.push(...keysOf(await store.lease({ ...LEASE, ...kind })));
      }
      assert.deepEqual(found.sort(), ["nt1__call", "nt1__mail", "nt1__sms", "nt1_acme_mail", "nt1_acme_sms"]);
    },
  },
  {
    name: "what a silent holder left does not wait until there is no other work",
    body: async ({ store, at }) => {
      const now = Math.floor(at.now);
      await seed(store, [
        ...times(20, (index) => dueRecord(at, numberedKey(index), { dueAt: now - MINUTE })),
        leasedRecord(at, "nt1_lapsed", -LONG, { updatedAt: now - 2 * LONG, createdAt: now - 2 * LONG }),
      ]);
      const handed: string[] = [];
      for (let round = 0; round < 10; round += 1) handed.push(...keysOf(await store.lease({ ...LEASE, limit: 1 })));
      assert.ok(handed.includes("nt1_lapsed"), `ten leases of one record each handed out only ${handed.join(", ")}`);
    },
  },
  {
    name: "due times and leases follow the store's clock",
    needs: "advance",
    body: async ({ store, ledger, at }) => {
      await insert(store, dueRecord(at, "nt1_later", { dueAt: Math.floor(at.now) + 5_000 }));
      assert.deepEqual(keysOf(await store.lease(LEASE)), [], "not due yet");
      await ledger.advance?.(5_001);
      assert.deepEqual(keysOf(await store.lease(LEASE)), ["nt1_later"], "due now");
      await ledger.advance?.(MINUTE - 1_000);
      assert.deepEqual(keysOf(await store.lease(LEASE)), [], "still leased");
      await ledger.advance?.(1_001);
      const [again] = await store.lease(LEASE);
      assert.equal(again?.record.fence, 2, "the lease is over: handed out a second time, with the next fence");
    },
  },
  {
    name: "keeps to the actions and the tenant it was asked for",
    body: async ({ store, at }) => {
      const of = (tenant: string, action: string) => dueRecord(at, `nt1_${tenant}_${action}`, { tenant, action });
      await seed(store, [of("", "mail"), of("", "sms"), of("acme", "mail"), of("acme", "sms"), of("acme", "call")]);
      assert.deepEqual(await store.lease({ ...LEASE, actions: [] }), [], "no actions: nothing");
      assert.deepEqual(await store.lease({ ...LEASE, tenant: "other" }), [], "an unknown tenant: nothing");
      const query = { ...LEASE, actions: ["mail", "sms"] };
      assert.deepEqual(sortedKeys(await store.lease({ ...query, tenant: "" })), ["nt1__mail", "nt1__sms"], 'tenant ""');
      assert.deepEqual(sortedKeys(await store.lease(query)), ["nt1_acme_mail", "nt1_acme_sms"], "two actions");
      assert.deepEqual(keysOf(await store.lease({ ...LEASE, tenant: "acme" })), ["nt1_acme_call"], "the rest of acme");
    },
  },
  {
    name: "finds one tenant's work behind a long backlog of another's",
    body: async ({ store, at, backlog }) => {
      const now = Math.floor(at.now);
      await seedMany(store, backlog, (index) =>
        dueRecord(at, numberedKey(index), { tenant: "busy", dueAt: now - LONG - 2 * MINUTE }),
      );
      await seed(store, [
        dueRecord(at, "nt1_acme_due", { tenant: "acme" }),
        leasedRecord(at, "nt1_acme_lapsed", -LONG, { tenant: "acme" }),
      ]);
      assert.deepEqual(
        sortedKeys(await store.lease({ ...LEASE, limit: 10, tenant: "acme" })),
        ["nt1_acme_due", "nt1_acme_lapsed"],
        "what is due, and what a silent holder left",
      );
      assert.deepEqual(await store.lease({ ...LEASE, limit: 10, tenant: "acme" }), [], "all of it is leased now");
      assert.equal((await store.lease({ ...LEASE, limit: 3, tenant: "busy" })).length, 3, "the other's is untouched");
    },
  },
  {
    name: "finds one action's work behind a long backlog of another's",
    body: async ({ store, at, backlog }) => {
      const now = Math.floor(at.now);
      await seedMany(store, backlog, (index) =>
        dueRecord(at, numberedKey(index), { action: "mail", dueAt: now - LONG - 2 * MINUTE }),
      );
      await insert(store, dueRecord(at, "nt1_sms", { action: "sms" }));
      assert.deepEqual(keysOf(await store.lease({ ...LEASE, limit: 10, actions: ["sms"] })), ["nt1_sms"]);
    },
  },
  {
    name: "two connections never get the same record, and together get all",
    body: async ({ store, second, at }) => {
      const stores = [store, await second()];
      await seed(
        store,
        times(60, (index) => dueRecord(at, numberedKey(index))),
      );
      const handed: string[] = [];
      for (let round = 0; round < 60 && handed.length < 60; round += 1) {
        const batches = await Promise.all(
          times(6, (index) => (stores[index % 2] as Store).lease({ ...LEASE, holder: `worker-${index}`, limit: 4 })),
        );
        handed.push(...batches.flatMap(keysOf));
      }
      assert.equal(new Set(handed).size, handed.length, "a record was handed out twice");
      assert.equal(handed.length, 60, "every due record is handed out");
    },
  },
  {
    name: "refuses a limit that is no whole number above zero",
    body: async ({ store }) => {
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        await assertRefused(store.lease({ ...LEASE, limit }), "CONFIG", `lease with limit ${limit}`);
      }
    },
  },
];

async function assertLeasedLikeCore({ store, at }: Bench, to: "claimed" | "sent"): Promise<void> {
  const before = dueRecord(at, "nt1_due", { attempt: 3, fence: 4, tries: 2, holder: "earlier", input: { json: "{}" } });
  const { version } = await insert(store, before);
  const leased = await store.lease({ ...LEASE, to });
  assert.equal(leased.length, 1, "one record is due");
  const [row] = leased as [Stored];
  const { lease, firstSentMark, updatedAt } = row.record;
  assert.ok(lease, "a leased record has a lease");
  const drift = lease.until - (at.steady + MINUTE);
  assert.ok(drift >= -5_000 && drift <= LONG, `the lease ends ${drift} ms from where leaseMs puts it`);
  assert.equal(lease.epoch, at.epoch, "the lease is on the store's steady clock");
  const claim = { type: "claim", to, holder: LEASE.holder, leaseMs: LEASE.leaseMs, newRound: false } as const;
  const change = transition(before, claim, { now: updatedAt, steady: lease.until - MINUTE, epoch: lease.epoch });
  assert.ok(change.ok);
  // The steady moment is the store's own; a sum and a difference of fractions need not meet again.
  assert.deepStrictEqual(row.record, { ...change.record, lease, firstSentMark }, "the leased record");
  assert.equal(firstSentMark !== null, to === "sent", "a send mark, and only where it went to sent");
  assert.ok(row.version > version, "the lease is a write of its own: the version grows");
  await assertHolds(store, row, "what was handed out must be what the ledger holds");
}
