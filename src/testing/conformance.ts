/**
 * The store conformance suite: any store, any test runner. What holds here is what the engine relies on; nothing else
 * about a store matters to it.
 *
 * What a ledger cannot do is data (`offers`, optional members), and its tests are then not registered at all: a skipped
 * test reads like a passed one after a month.
 */
import assert from "node:assert/strict";
import { type ErrorCode, isNevertwiceError } from "../core/errors.ts";
import { type Instant, type LedgerRecord, STATES, type State } from "../core/record.ts";
import {
  instantOf,
  type LeaseQuery,
  type ListQuery,
  type PutResult,
  type Store,
  type Stored,
  type TransactionalStore,
} from "../core/store.ts";
import { transition } from "../core/transition.ts";

/** vitest, node:test, jest and mocha all have this shape. */
export interface TestRunner {
  describe(name: string, body: () => void): void;
  it(name: string, body: () => Promise<void> | void): void;
}

export interface ConformanceLedger {
  readonly store: Store;
  /** A second, independent store on the same data, where there can be one (another connection). */
  reopen?(): Promise<Store> | Store;
  /** Moves the store's clock, where the test controls it. */
  advance?(ms: number): Promise<void> | void;
  /** Damages the stored bytes of one record, to show that it is noticed. */
  corrupt?(key: string): Promise<void> | void;
  /** Runs fn(tx) in the caller's own transaction, and rolls back if it throws. */
  transaction?<T>(fn: (tx: unknown) => Promise<T>): Promise<T>;
  dispose(): Promise<void> | void;
}

const OFFERS = ["reopen", "advance", "corrupt", "transaction"] as const;

export type ConformanceOffer = (typeof OFFERS)[number];

export interface ConformanceOptions {
  readonly name: string;
  /** A new empty ledger for each test. */
  readonly open: () => Promise<ConformanceLedger> | ConformanceLedger;
  readonly runner: TestRunner;
  /**
   * The optional members that `open`'s ledgers have. Tests are registered before a ledger can be opened, so it is said
   * here; a test compares the two, so that none is left out by mistake.
   */
  readonly offers?: readonly ConformanceOffer[];
  /** How many contenders a race has; 20 unless given. */
  readonly races?: number;
}

/** What one test works with. */
interface Bench {
  readonly store: Store;
  readonly ledger: ConformanceLedger;
  readonly offers: readonly ConformanceOffer[];
  readonly races: number;
  /** The store's clock when the test began. */
  readonly at: Instant;
  /** Another connection where the ledger offers one, the same store where not. */
  second(): Promise<Store>;
}

interface Case {
  readonly name: string;
  readonly needs?: ConformanceOffer;
  readonly body: (bench: Bench) => Promise<void>;
}

export function storeConformance(options: ConformanceOptions): void {
  const { runner, offers = [] } = options;
  runner.describe(`${options.name}: store conformance`, () => {
    for (const [section, cases] of Object.entries(SECTIONS)) {
      const held = cases.filter(({ needs }) => needs === undefined || offers.includes(needs));
      if (held.length === 0) continue;
      runner.describe(section, () => {
        for (const { name, body } of held) runner.it(name, () => onFreshLedger(options, body));
      });
    }
  });
}

async function onFreshLedger(options: ConformanceOptions, body: (bench: Bench) => Promise<void>): Promise<void> {
  const ledger = await options.open();
  const opened: Store[] = [];
  const second = async () => {
    if (ledger.reopen === undefined) return ledger.store;
    const store = await ledger.reopen();
    opened.push(store);
    return store;
  };
  const { offers = [], races = 20 } = options;
  try {
    await body({ ledger, store: ledger.store, offers, races, at: instantOf(ledger.store), second });
  } finally {
    for (const store of opened) await store.close();
    await ledger.dispose();
  }
}

// ---- records to test with ----

const MINUTE = 60_000;
// Far beyond any disagreement between a test's clock and a store's own.
const LONG = 10 * MINUTE;

/** A valid record, with the times its state comes with; a test names only what it is about. */
export function sampleRecord(overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const { createdAt = 1_750_000_000_000, state = "pending" } = overrides;
  const settled = state === "confirmed" || state === "failed";
  return {
    key: "nt1_sample",
    tenant: "",
    action: "send_followup",
    version: 1,
    scope: null,
    state,
    attempt: 0,
    fence: 0,
    tries: 0,
    holder: null,
    lease: null,
    queued: false,
    createdAt,
    updatedAt: createdAt,
    dueAt: state === "pending" ? createdAt : null,
    firstSentAt: null,
    lastSentAt: null,
    firstSentMark: null,
    doubted: false,
    doubtSince: state === "unknown" ? createdAt : null,
    doubtMark: null,
    why: null,
    settledAt: settled ? createdAt : null,
    expiresAt: null,
    keepMs: 86_400_000,
    final: false,
    fingerprint: { guarded: "guarded-digest", free: null, fields: { leadId: "field-digest" } },
    input: null,
    draft: null,
    result: null,
    error: null,
    history: [],
    ...overrides,
  };
}

/** Every field set to something that is neither null, empty nor its neighbour's value. */
function filledRecord(overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  return sampleRecord({
    key: "nt1_filled",
    tenant: "acme",
    version: 7,
    scope: "run-41",
    state: "unknown",
    attempt: 12,
    fence: 13,
    tries: 3,
    holder: "holder-1",
    lease: { until: 123_456.789, epoch: "boot-1" },
    queued: true,
    createdAt: 1_750_000_000_001,
    updatedAt: 1_750_000_000_002,
    dueAt: 1_750_000_000_003,
    firstSentAt: 1_750_000_000_004,
    lastSentAt: 1_750_000_000_005,
    firstSentMark: { at: 1_234.5678, epoch: "boot-2" },
    doubted: true,
    doubtSince: 1_750_000_000_006,
    doubtMark: { at: 2_345.6789, epoch: "boot-3" },
    why: "the reply was lost",
    settledAt: 1_750_000_000_007,
    expiresAt: 9_007_199_254_740_991,
    keepMs: 3_155_760_000_000,
    final: true,
    fingerprint: { guarded: "g", free: "f", fields: { leadId: "a", "with space": "b", "": "c" } },
    input: { json: '{"leadId":1}' },
    draft: { sealed: "ntseal1.0badcafe.13.bm9uY2U.Y2lwaGVydGV4dA" },
    result: { omitted: "it is larger than 1024 bytes" },
    error: { name: "TypeError", message: "no", code: "E_NO" },
    history: [
      { at: 1, event: "doubt", from: "sent", to: "unknown", attempt: 1, by: "ana", reason: "asked", error: "reset" },
      { at: 2, event: "resend", from: null, to: "sent", attempt: 2 },
    ],
    ...overrides,
  });
}

function dueRecord(at: Instant, key: string, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const dueAt = Math.floor(at.now) - LONG;
  return sampleRecord({ key, queued: true, createdAt: dueAt, dueAt, ...overrides });
}

function leasedRecord(at: Instant, key: string, leftMs: number, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  return sampleRecord({
    key,
    state: "claimed",
    queued: true,
    attempt: 1,
    fence: 1,
    tries: 1,
    holder: "first-holder",
    lease: { until: at.steady + leftMs, epoch: at.epoch },
    createdAt: Math.floor(at.now) - LONG,
    ...overrides,
  });
}

function settledRecord(at: Instant, key: string, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const now = Math.floor(at.now);
  return sampleRecord({ key, state: "confirmed", createdAt: now - 2 * LONG, settledAt: now - LONG, ...overrides });
}

function numberedKey(index: number): string {
  return `nt1_${String(index).padStart(5, "0")}`;
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

// ---- what tests do over and over ----

async function seed(store: Store, records: readonly LedgerRecord[]): Promise<Stored[]> {
  const results = await store.write(records.map((record) => ({ record, expected: null })));
  assert.equal(results.length, records.length, "write must answer once per put");
  return records.map((record, index) => ({ record, version: wonVersion(results[index], `inserting ${record.key}`) }));
}

async function insert(store: Store, record: LedgerRecord): Promise<Stored> {
  const [stored] = await seed(store, [record]);
  assert.ok(stored);
  return stored;
}

function wonVersion(result: PutResult | undefined, what: string): number {
  assert.ok(result, `${what}: no result`);
  assert.ok(result.ok, `${what}: refused, though nothing stood in its way`);
  assert.equal(typeof result.version, "number", `${what}: the new version must be a number`);
  return result.version;
}

function lostTo(result: PutResult | undefined, what: string): Stored | null {
  assert.ok(result, `${what}: no result`);
  assert.ok(!result.ok, `${what}: accepted, though it had to be refused`);
  assert.notEqual(result.current, undefined, `${what}: a conflict must carry the current record, or null for none`);
  return result.current;
}

async function readOne(store: Store, key: string): Promise<Stored | null> {
  const [stored, ...more] = await store.read([key]);
  assert.equal(more.length, 0, "read of one key answered more than once");
  assert.notEqual(stored, undefined, "read must answer null for an absent record, not undefined");
  return stored as Stored | null;
}

async function assertHolds(store: Store, expected: Stored, what: string): Promise<void> {
  assert.deepStrictEqual(await readOne(store, expected.record.key), expected, what);
}

async function assertRoundTrip(store: Store, record: LedgerRecord, what: string): Promise<void> {
  const stored = await insert(store, record);
  await assertHolds(store, stored, `${what} must come back as written`);
}

async function assertRefused(call: Promise<unknown>, code: ErrorCode | null, what: string): Promise<void> {
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

function keysOf(rows: readonly Stored[]): string[] {
  return rows.map(({ record }) => record.key);
}

function sortedKeys(rows: readonly Stored[]): string[] {
  return keysOf(rows).sort();
}

// ---- basics ----

const basics: readonly Case[] = [
  {
    name: "offers what the options say it offers",
    body: async ({ ledger, offers }) => {
      const members = OFFERS.filter((member) => ledger[member] !== undefined);
      assert.deepEqual(
        members,
        OFFERS.filter((offer) => offers.includes(offer)),
        "options.offers and the ledger differ",
      );
      if (offers.includes("transaction"))
        assert.ok("within" in ledger.store, "a store with transactions has within(tx)");
    },
  },
  {
    name: "says its name and traits",
    body: async ({ store }) => {
      assert.match(store.name, /\S/, "a store has a name");
      assert.ok(["one", "many"].includes(store.traits.hosts), `traits.hosts is ${store.traits.hosts}`);
      assert.ok(["power-loss", "crash", "best-effort", "nothing"].includes(store.traits.survives), "traits.survives");
      assert.ok(["store", "client"].includes(store.traits.clock), `traits.clock is ${store.traits.clock}`);
      assert.equal(typeof store.traits.dueIndex, "boolean", "traits.dueIndex");
    },
  },
  {
    name: "answers null for an absent record",
    body: async ({ store }) => assert.deepEqual(await store.read(["nt1_absent"]), [null]),
  },
  {
    name: "answers an empty batch with an empty batch",
    body: async ({ store }) => {
      assert.deepEqual(await store.read([]), []);
      assert.deepEqual(await store.write([]), []);
    },
  },
  {
    name: "keeps every field of a record",
    body: ({ store }) => assertRoundTrip(store, filledRecord(), "a record with every field set"),
  },
  {
    name: "keeps null apart from absent and from empty",
    body: async ({ store }) => {
      await assertRoundTrip(
        store,
        sampleRecord({ dueAt: null, keepMs: null }),
        "a record with every optional field null",
      );
      await assertRoundTrip(store, sampleRecord({ key: "nt1_empty", scope: "", holder: "", why: "" }), "empty texts");
      await assertRoundTrip(store, sampleRecord({ key: "nt1_zero", dueAt: 0, keepMs: 0, expiresAt: 0 }), "zeros");
    },
  },
  {
    name: "keeps every state",
    body: async ({ store }) => {
      for (const state of STATES) await assertRoundTrip(store, sampleRecord({ key: `nt1_${state}`, state }), state);
    },
  },
  {
    name: "keeps text in any script, and quotes, and what looks like SQL",
    body: async ({ store }) => {
      const text = `Zoë 王 🦀 שלום e\u0301 \u{10FFFF} \t\n " ' \\ %_ $1 ? :a '); DROP TABLE records; --`;
      const filled = filledRecord({ tenant: text, action: text, scope: text, holder: text, why: text });
      await assertRoundTrip(store, filled, "unicode columns");
      const json = JSON.stringify({ [text]: [text, "\u0000", "\ud800"] });
      await assertRoundTrip(
        store,
        filledRecord({ key: "nt1_text", input: { json }, result: { json } }),
        "unicode payloads",
      );
    },
  },
  {
    name: "keeps payload text to the byte: a resend must send the same",
    body: async ({ store }) => {
      const texts = ['{ "b":1,\n"a":2, "a":3 }', "1.0", "1e21", '"\\u0041"', "null", "[[[[[[[[{}]]]]]]]]", "-0"];
      for (const [index, json] of texts.entries()) {
        await assertRoundTrip(store, sampleRecord({ key: `nt1_json${index}`, draft: { json } }), `payload ${json}`);
      }
    },
  },
  {
    name: "keeps payloads of 256 KB",
    body: async ({ store }) => {
      const json = JSON.stringify("é".repeat(128 * 1024));
      const sealed = `ntseal1.0badcafe.1.bm9uY2U.${"A".repeat(256 * 1024)}`;
      await assertRoundTrip(store, sampleRecord({ input: { json }, draft: { sealed }, result: { json } }), "256 KB");
    },
  },
  {
    name: "reads in the order asked, absent ones and duplicates included",
    body: async ({ store }) => {
      const [a, b] = await seed(store, [sampleRecord({ key: "nt1_a" }), sampleRecord({ key: "nt1_b" })]);
      const rows = await store.read(["nt1_b", "nt1_none", "nt1_a", "nt1_b"]);
      assert.deepStrictEqual(rows, [b, null, a, b]);
    },
  },
  {
    name: "is not changed by a caller who changes what it was given",
    body: async ({ store }) => {
      const given = { ...sampleRecord({ action: "before" }) };
      const stored = await insert(store, given);
      const expected = { record: { ...given }, version: stored.version };
      Object.assign(given, { action: "after" });
      const got = await readOne(store, given.key);
      // A frozen answer throws here, which is as good as a copy.
      await Promise.resolve()
        .then(() => Object.assign(got?.record ?? {}, { action: "after" }))
        .catch(() => undefined);
      await assertHolds(store, expected, "the ledger's record changed from outside");
    },
  },
  {
    name: "a second connection sees what the first wrote, and the other way round",
    needs: "reopen",
    body: async ({ store, second }) => {
      const other = await second();
      await assertHolds(other, await insert(store, sampleRecord({ key: "nt1_here" })), "written on the first");
      await assertHolds(store, await insert(other, sampleRecord({ key: "nt1_there" })), "written on the second");
    },
  },
];

// ---- compare-and-swap ----

const compareAndSwap: readonly Case[] = [
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

// ---- races ----

const races: readonly Case[] = [
  {
    name: "one of many concurrent inserts wins, and every loser sees the winner's record",
    body: async ({ store, second, races: contenders }) => {
      const stores = [store, await second()];
      const records = times(contenders, (index) => sampleRecord({ holder: `holder-${index}` }));
      const results = await Promise.all(
        records.map(async (record, index) => {
          const [result] = await (stores[index % 2] as Store).write([{ record, expected: null }]);
          return result;
        }),
      );
      const winner = records.find((_, index) => results[index]?.ok);
      assert.equal(results.filter((result) => result?.ok).length, 1, "exactly one insert wins");
      for (const result of results) {
        if (!result?.ok) assert.deepStrictEqual(lostTo(result, "a lost insert")?.record, winner, "the winner's record");
      }
    },
  },
  {
    name: "one of many concurrent swaps of one version wins",
    body: async ({ store, second, races: contenders }) => {
      const stores = [store, await second()];
      const { version } = await insert(store, sampleRecord());
      const results = await Promise.all(
        times(contenders, async (index) => {
          const record = sampleRecord({ fence: 1, holder: `holder-${index}` });
          const [result] = await (stores[index % 2] as Store).write([{ record, expected: version }]);
          return result;
        }),
      );
      assert.equal(results.filter((result) => result?.ok).length, 1, "exactly one swap of a version wins");
    },
  },
  {
    name: "concurrent increments by compare-and-swap lose nothing",
    body: async ({ store, second, races: contenders }) => {
      const stores = [store, await second()];
      const start = await insert(store, sampleRecord());
      await Promise.all(times(contenders, (index) => increment(stores[index % 2] as Store, start, contenders)));
      const counted = (await readOne(store, start.record.key))?.record.attempt;
      assert.equal(counted, contenders, `${contenders} increments, ${String(counted)} counted`);
    },
  },
];

/** Each lost swap means that another contender won one, so nobody loses more often than there are contenders. */
async function increment(store: Store, start: Stored, contenders: number): Promise<void> {
  let { record, version } = start;
  for (let tries = 0; tries <= contenders; tries += 1) {
    const [result] = await store.write([{ record: { ...record, attempt: record.attempt + 1 }, expected: version }]);
    if (result?.ok) return;
    const current = lostTo(result, "an increment");
    assert.ok(current, "the conflict must carry the current record");
    ({ record, version } = current);
  }
  assert.fail(`an increment lost ${contenders} swaps in a row: some swap conflicted although nobody else had won`);
}

// ---- leases ----

const LEASE: LeaseQuery = { holder: "worker-1", limit: 100, leaseMs: MINUTE, to: "claimed" };

const leases: readonly Case[] = [
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

// ---- listing ----

const listing: readonly Case[] = [
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
    name: "filters by tenant, action, scope and state, alone and together",
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
  { tenant: "", action: "mail", scope: "run-1", state: "confirmed" },
  { tenant: "acme", action: "mail", scope: "run-1", state: "unknown" },
  { tenant: "acme", action: "sms", scope: "run-2", state: "unknown" },
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
];

function fits(record: LedgerRecord, query: Omit<ListQuery, "limit">): boolean {
  const { tenant = record.tenant, action = record.action, scope = record.scope, states = STATES } = query;
  return (
    record.tenant === tenant && record.action === action && record.scope === scope && states.includes(record.state)
  );
}

function lapsedAndNot(at: Instant): LedgerRecord[] {
  return [
    leasedRecord(at, "nt1_claimed_alive", LONG),
    leasedRecord(at, "nt1_claimed_lapsed", -LONG),
    leasedRecord(at, "nt1_sent_alive", LONG, { state: "sent" }),
    leasedRecord(at, "nt1_sent_lapsed", -LONG, { state: "sent", queued: false }),
    leasedRecord(at, "nt1_otherboot", 0, {
      state: "sent",
      lease: { until: at.steady + LONG, epoch: "an earlier boot" },
    }),
    leasedRecord(at, "nt1_unknown", -LONG, { state: "unknown", lease: null }),
    leasedRecord(at, "nt1_confirmed", -LONG, { state: "confirmed", lease: null }),
  ];
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

// ---- stats ----

const NONE: Readonly<Record<State, number>> = { pending: 0, claimed: 0, sent: 0, confirmed: 0, failed: 0, unknown: 0 };

const stats: readonly Case[] = [
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

// ---- sweep ----

const sweeping: readonly Case[] = [
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

// ---- corruption ----

const corruption: readonly Case[] = [
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
];

// ---- transactions ----

function transactional(store: Store): TransactionalStore<unknown> {
  return store as TransactionalStore<unknown>;
}

const transactions: readonly Case[] = [
  {
    name: "what was written inside is there after the commit, and visible inside before it",
    needs: "transaction",
    body: async ({ store, ledger }) => {
      const stored = await ledger.transaction?.(async (tx) => {
        const inside = transactional(store).within(tx);
        const [result] = await inside.write([{ record: sampleRecord(), expected: null }]);
        const written = { record: sampleRecord(), version: wonVersion(result, "an insert inside") };
        assert.deepStrictEqual(await inside.read(["nt1_sample"]), [written], "a transaction sees its own write");
        return written;
      });
      await assertHolds(store, stored as Stored, "after the commit");
    },
  },
  {
    name: "a rollback leaves nothing",
    needs: "transaction",
    body: async ({ store, ledger }) => {
      const kept = await insert(store, sampleRecord({ key: "nt1_kept" }));
      const rolledBack = ledger.transaction?.(async (tx) => {
        const puts = [
          { record: sampleRecord({ key: "nt1_new" }), expected: null },
          { record: { ...kept.record, fence: 9 }, expected: kept.version },
        ];
        const results = await transactional(store).within(tx).write(puts);
        for (const [index, result] of results.entries()) wonVersion(result, `put ${index} inside`);
        throw new Error("the caller's own work failed");
      });
      await assert.rejects(rolledBack as Promise<unknown>, /the caller's own work failed/);
      assert.equal(await readOne(store, "nt1_new"), null, "the insert must be gone");
      await assertHolds(store, kept, "the swap must be undone");
    },
  },
  {
    name: "compares and swaps inside as outside, and a conflict leaves the transaction usable",
    needs: "transaction",
    body: async ({ store, ledger }) => {
      const kept = await insert(store, sampleRecord({ key: "nt1_kept" }));
      await ledger.transaction?.(async (tx) => {
        const inside = transactional(store).within(tx);
        const [lost] = await inside.write([{ record: sampleRecord({ key: "nt1_kept", fence: 9 }), expected: null }]);
        assert.deepStrictEqual(lostTo(lost, "an insert over an existing row"), kept);
        const [won] = await inside.write([{ record: sampleRecord({ key: "nt1_next" }), expected: null }]);
        wonVersion(won, "an insert after the conflict");
      });
      await assertHolds(store, kept, "the refused insert changed the row");
      assert.notEqual(await readOne(store, "nt1_next"), null, "the insert after the conflict was committed");
    },
  },
];

// ---- clock, close ----

const clock: readonly Case[] = [
  {
    name: "is a time in epoch milliseconds, the same by both readings, and does not run backwards",
    body: async ({ store }) => {
      const before = instantOf(store);
      assert.ok(store.now() > Date.UTC(2020) && store.now() < Date.UTC(2200), `now() is ${store.now()}`);
      assert.ok(Math.abs(store.now() - before.now) < 5_000, "now() and instant().now are one clock");
      assert.equal(typeof before.epoch, "string", "the epoch is a text");
      let last = before;
      for (let reading = 0; reading < 1_000; reading += 1) {
        const next = instantOf(store);
        assert.ok(
          Number.isFinite(next.steady) && next.steady >= last.steady,
          `steady: ${next.steady} after ${last.steady}`,
        );
        assert.equal(next.epoch, last.epoch, "the epoch changed although nothing restarted");
        last = next;
      }
    },
  },
  {
    name: "is shared by two connections: a lease taken on one is alive on the other",
    needs: "reopen",
    body: async ({ store, second, at }) => {
      const other = await second();
      await insert(store, dueRecord(at, "nt1_due"));
      assert.equal((await store.lease(LEASE)).length, 1);
      assert.equal(instantOf(other).epoch, at.epoch, "both name the same epoch");
      assert.deepEqual(await other.lease(LEASE), [], "leased on the first connection");
      assert.deepEqual((await other.list({ limit: 10, lapsed: true })).items, [], "and alive on the second");
    },
  },
  {
    name: "moves when the test moves it",
    needs: "advance",
    body: async ({ store, ledger, at }) => {
      await ledger.advance?.(LONG);
      assert.ok(store.now() - at.now >= LONG, "now() moved");
      assert.ok(instantOf(store).steady - at.steady >= LONG, "the steady clock moved");
    },
  },
];

const closing: readonly Case[] = [
  {
    name: "may be closed twice, and refuses every later call",
    body: async ({ store }) => {
      await insert(store, sampleRecord());
      await store.close();
      await store.close();
      const put = { record: sampleRecord({ key: "nt1_late" }), expected: null };
      await assertRefused(store.read(["nt1_sample"]), "STORE_UNAVAILABLE", "read after close");
      await assertRefused(store.write([put]), "STORE_UNAVAILABLE", "write after close");
      await assertRefused(store.lease(LEASE), "STORE_UNAVAILABLE", "lease after close");
      await assertRefused(store.list({ limit: 1 }), "STORE_UNAVAILABLE", "list after close");
      await assertRefused(store.stats(), "STORE_UNAVAILABLE", "stats after close");
      await assertRefused(store.sweep({ limit: 1 }), "STORE_UNAVAILABLE", "sweep after close");
    },
  },
];

const SECTIONS: Readonly<Record<string, readonly Case[]>> = {
  basics,
  "compare-and-swap": compareAndSwap,
  races,
  leases,
  listing,
  stats,
  sweep: sweeping,
  corruption,
  transactions,
  clock,
  close: closing,
};
