/** Pages, filters and what has lapsed. */
import assert from "node:assert/strict";
import { type LedgerRecord, STATES, type State } from "../../core/record.ts";
import type { ListQuery, Store, Stored } from "../../core/store.ts";
import { assertRefused, keysOf, seed, seedMany, sortedKeys } from "../checks.ts";
import type { Case } from "../harness.ts";
import {
  filledRecord,
  LONG,
  lapsedAndNot,
  leasedRecord,
  MINUTE,
  numberedKey,
  sampleRecord,
  times,
} from "../sample-record.ts";

const LEASED: readonly State[] = ["claimed", "sent"];

export const listing: readonly Case[] = [
  {
    name: "an empty ledger is one empty page",
    body: async ({ store }) => assert.deepEqual(await store.list({ limit: 10 }), { items: [], cursor: null }),
  },
  {
    name: "lists rows as they are, the newest first unless told otherwise",
    body: async ({ store }) => {
      // Written in the order of their creation, as rows are; the keys say nothing about it.
      const keys = ["nt1_b", "nt1_c", "nt1_a"];
      const rows = await seed(
        store,
        keys.map((key, index) => filledRecord({ key, createdAt: (index + 1) * MINUTE })),
      );
      const newest = [...rows].reverse();
      assert.deepStrictEqual((await store.list({ limit: 10 })).items, newest, "newest first");
      assert.deepStrictEqual((await store.list({ limit: 10, order: "newest" })).items, newest, "newest, asked for");
      assert.deepStrictEqual((await store.list({ limit: 10, order: "oldest" })).items, rows, "oldest first");
    },
  },
  ...(["newest", "oldest"] as const).map(
    (order): Case => ({
      name: `pages over 250 rows without gaps or repeats, ${order} first`,
      body: async ({ store }) => {
        // Ten rows to each creation time, so that pages end between equal times.
        const records = times(250, (i) =>
          sampleRecord({ key: numberedKey((i * 7) % 250), createdAt: 1_000 * Math.floor(i / 10) }),
        );
        await seed(store, records);
        const rows = await allPages(store, { limit: 37, order });
        assertCreationOrder(rows, order);
        assert.equal(new Set(keysOf(rows)).size, rows.length, "a row appeared on two pages");
        assert.equal(rows.length, 250, "every row appears");
      },
    }),
  ),
  {
    name: "rows added while somebody pages neither repeat nor hide the others",
    body: async ({ store }) => {
      await seed(
        store,
        times(20, (i) => sampleRecord({ key: numberedKey(i), createdAt: 1_000 * (i + 1) })),
      );
      const first = await store.list({ limit: 8 });
      assert.ok(first.cursor, "there is more than one page");
      await seed(
        store,
        times(5, (i) => sampleRecord({ key: `nt1_new${i}`, createdAt: 100_000 + i })),
      );
      const rest = await allPages(store, { limit: 8, cursor: first.cursor });
      const seen = keysOf([...first.items, ...rest]);
      assert.deepEqual(seen.sort(), times(20, numberedKey), "the twenty rows of the beginning, each once");
    },
  },
  {
    name: "filters by tenant, action, scope, state, agent and provider's id, alone and together",
    body: async ({ store }) => {
      const records = FILTERABLE.map((overrides, index) => sampleRecord({ key: `nt1_${index}`, ...overrides }));
      await seed(store, records);
      for (const query of FILTERS) {
        const expected = records.filter((record) => fits(record, query)).map(({ key }) => key);
        const { items } = await store.list({ limit: 100, ...query });
        assert.deepEqual(sortedKeys(items), expected, `list(${JSON.stringify(query)})`);
      }
    },
  },
  {
    name: "takes a key prefix as it is written: no wildcards, no letter case",
    body: async ({ store }) => {
      const keys = ["nt1_ab", "nt1_abc", "nt1xabc", "NT1_ABC", "nt1_a%", "nt1_a*", "nt1_[a]", "nt1_é"];
      await seed(
        store,
        keys.map((key) => sampleRecord({ key })),
      );
      for (const keyPrefix of ["nt1_ab", "nt1_", "nt1_a%", "nt1_a*", "nt1_[", "N", "", "nt1_é", "ab"]) {
        const { items } = await store.list({ limit: 100, keyPrefix });
        const expected = keys.filter((key) => key.startsWith(keyPrefix)).sort();
        assert.deepEqual(sortedKeys(items), expected, `keyPrefix ${JSON.stringify(keyPrefix)}`);
      }
    },
  },
  {
    name: "pages within a filter",
    body: async ({ store }) => {
      await seed(
        store,
        times(60, (i) => sampleRecord({ key: numberedKey(i), createdAt: 1_000, action: i % 3 ? "a" : "b" })),
      );
      const rows = await allPages(store, { limit: 7, action: "b" });
      assert.deepEqual(
        sortedKeys(rows),
        times(20, (i) => numberedKey(i * 3)),
      );
    },
  },
  {
    name: "lists what has lapsed: claimed or sent, with a lease that is over",
    body: async ({ store, at }) => {
      await seed(store, lapsedAndNot(at));
      const { items } = await store.list({ limit: 100, lapsed: true });
      assert.deepEqual(sortedKeys(items), ["nt1_claimed_lapsed", "nt1_otherboot", "nt1_sent_lapsed"]);
      const sent = await store.list({ limit: 100, lapsed: true, states: ["sent"] });
      assert.deepEqual(sortedKeys(sent.items), ["nt1_otherboot", "nt1_sent_lapsed"], "together with a state");
    },
  },
  {
    name: "pages through one tenant's records alone: all, what has lapsed, doubts and dead letters",
    body: async ({ store, at }) => {
      const tenants = ["acme", "other", ""];
      const record = (index: number): LedgerRecord => {
        const tenant = tenants[index % 3] as string;
        const state = STATES[Math.floor(index / 3) % STATES.length] as State;
        const key = `nt1_${tenant}_${numberedKey(index)}`;
        if (state === "claimed" || state === "sent") return leasedRecord(at, key, -LONG, { tenant, state });
        const doubtSince = state === "unknown" ? 5_000 : null;
        return sampleRecord({ key, tenant, state, createdAt: 1_000 + index, doubtSince });
      };
      const rows = await seed(store, times(90, record));
      const queries: readonly Partial<ListQuery>[] = [
        {},
        { lapsed: true },
        { lapsed: true, states: ["sent"] },
        { states: ["unknown"] },
        { states: ["failed", "pending"] },
        { states: ["claimed", "confirmed"] },
      ];
      for (const order of ["newest", "oldest"] as const) {
        for (const query of queries) {
          const { lapsed = false, states = lapsed ? LEASED : STATES } = query;
          const fits = ({ record: { tenant, state } }: Stored) => tenant === "acme" && states.includes(state);
          const found = await allPages(store, { ...query, limit: 3, order, tenant: "acme" });
          assert.deepEqual(sortedKeys(found), sortedKeys(rows.filter(fits)), `${order} ${JSON.stringify(query)}`);
        }
      }
    },
  },
  {
    name: "finds what has lapsed of one tenant among many lapsed of another",
    body: async ({ store, at, backlog }) => {
      await seedMany(store, backlog, (index) =>
        leasedRecord(at, numberedKey(index), -LONG - MINUTE, { tenant: "busy", state: "sent", queued: false }),
      );
      const lease = { tenant: "acme", state: "sent", queued: false } as const;
      await seed(store, [leasedRecord(at, "nt1_acme_a", -LONG, lease), leasedRecord(at, "nt1_acme_b", -LONG, lease)]);
      const query: ListQuery = { limit: 1, states: ["sent"], lapsed: true, order: "oldest", tenant: "acme" };
      assert.deepEqual(sortedKeys(await allPages(store, query)), ["nt1_acme_a", "nt1_acme_b"]);
      assert.equal((await store.stats({ tenant: "acme" })).lapsed, 2);
    },
  },
  {
    name: "refuses a limit that is no whole number above zero, and a cursor it did not give out",
    body: async ({ store }) => {
      await seed(
        store,
        times(3, (i) => sampleRecord({ key: numberedKey(i) })),
      );
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        await assertRefused(store.list({ limit }), "CONFIG", `list with limit ${limit}`);
      }
      for (const cursor of ["", "nonsense", "e30", "W10"]) {
        await assertRefused(store.list({ limit: 1, cursor }), "CONFIG", `list with cursor ${JSON.stringify(cursor)}`);
      }
    },
  },
];

const FILTERABLE: readonly Partial<LedgerRecord>[] = [
  { tenant: "", action: "mail", scope: null, state: "pending" },
  { tenant: "", action: "mail", scope: "run-1", state: "confirmed", agent: "bot", providerId: "msg_1" },
  { tenant: "acme", action: "mail", scope: "run-1", state: "unknown", agent: "bot" },
  { tenant: "acme", action: "sms", scope: "run-2", state: "unknown", agent: "Bot" },
  { tenant: "acme", action: "sms", scope: null, state: "confirmed", agent: "bot", providerId: "msg_1" },
  { tenant: "acme", action: "sms", scope: null, state: "confirmed", agent: 'a "b" \\ %', providerId: 'q"\\%_é' },
  { tenant: "acme", action: "sms", scope: "", state: "failed" },
  { tenant: "Acme", action: "Mail", scope: "Run-1", state: "sent" },
];

const FILTERS: readonly Omit<ListQuery, "limit">[] = [
  {},
  { tenant: "" },
  { tenant: "acme" },
  { action: "mail" },
  { scope: "run-1" },
  { scope: "" },
  { states: ["unknown"] },
  { states: ["pending", "failed"] },
  { states: [] },
  { tenant: "acme", action: "sms", scope: "run-2", states: ["unknown", "failed"] },
  { tenant: "nobody" },
  { agent: "bot" },
  { agent: "nobody" },
  { agent: 'a "b" \\ %' },
  { agent: "bot", tenant: "acme", states: ["unknown"] },
  { providerIds: ["msg_1"] },
  { providerIds: ["msg_1"], tenant: "acme" },
  { providerIds: ["MSG_1"] },
  { providerIds: ["none", 'q"\\%_é'] },
  { providerIds: ["msg_"] },
  { providerIds: [] },
  { providerIds: ["msg_1"], agent: "bot", action: "mail", scope: "run-1" },
];

function fits(record: LedgerRecord, query: Omit<ListQuery, "limit">): boolean {
  const { tenant = record.tenant, action = record.action, scope = record.scope, states = STATES } = query;
  const { agent = record.agent, providerIds } = query;
  if (record.agent !== agent) return false;
  if (providerIds !== undefined && !providerIds.some((id) => id === record.providerId)) return false;
  return (
    record.tenant === tenant && record.action === action && record.scope === scope && states.includes(record.state)
  );
}

async function allPages(store: Store, query: ListQuery): Promise<Stored[]> {
  const rows: Stored[] = [];
  let next: ListQuery = query;
  for (let page = 0; page < 100; page += 1) {
    const { items, cursor } = await store.list(next);
    assert.ok(items.length <= query.limit, `a page of ${items.length} rows, limit ${query.limit}`);
    rows.push(...items);
    if (cursor === null) return rows;
    next = { ...query, cursor };
  }
  return assert.fail(
    `after 100 pages of up to ${query.limit} rows there is still a cursor: ${rows.length} rows so far`,
  );
}

function assertCreationOrder(rows: readonly Stored[], order: "newest" | "oldest"): void {
  const created = rows.map(({ record }) => record.createdAt);
  const sorted = [...created].sort((a, b) => (order === "oldest" ? a - b : b - a));
  assert.deepEqual(created, sorted, `rows must come by creation, ${order} first`);
}
