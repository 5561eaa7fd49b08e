/** A suite that never caught anything proves nothing: each of these stores is broken in one way, and must be caught. */
import { describe, expect, it } from "vitest";
import { damagedRecord, describeDamage } from "../src/core/damaged-record.ts";
import { NevertwiceError } from "../src/core/errors.ts";
import type { Instant, LedgerRecord } from "../src/core/record.ts";
import type { Put, PutResult, Store, Stored, TransactionalStore } from "../src/core/store.ts";
import { memoryStore } from "../src/stores/memory.ts";
import { type ConformanceLedger, storeConformance, type TestRunner } from "../src/testing/index.ts";

const OFFERS = ["reopen", "advance", "corrupt", "transaction"] as const;

/** Runs the suite by itself and returns the names of the tests that failed. */
async function failuresOf(open: () => ConformanceLedger): Promise<{ failed: string[]; total: number }> {
  const tests: { name: string; body: () => Promise<void> | void }[] = [];
  const path: string[] = [];
  const runner: TestRunner = {
    describe(name, body) {
      path.push(name);
      body();
      path.pop();
    },
    it: (name, body) => tests.push({ name: [...path.slice(1), name].join(" > "), body }),
  };
  storeConformance({ name: "store", runner, open, offers: OFFERS, races: 8 });
  const failed: string[] = [];
  for (const { name, body } of tests) {
    await Promise.resolve()
      .then(body)
      .catch(() => failed.push(name));
  }
  return { failed, total: tests.length };
}

interface Tx {
  readonly puts: Put[];
}

/** The memory store with everything a ledger may offer, so that every test of the suite is in play. */
class Sound implements TransactionalStore<unknown> {
  readonly name = "sound";
  readonly inner: Store;
  readonly traits;
  readonly damaged: Set<string>;
  #closed = false;

  constructor(inner: Store, damaged: Set<string>) {
    this.inner = inner;
    this.traits = inner.traits;
    this.damaged = damaged;
  }
  now() {
    return this.inner.now();
  }
  instant() {
    return this.inner.instant?.() as Instant;
  }
  async read(keys: readonly string[]) {
    this.#check(keys);
    return this.inner.read(keys);
  }
  async write(puts: readonly Put[]) {
    this.#check(puts.map(({ record }) => record.key));
    return this.inner.write(puts);
  }
  async lease(...[query]: Parameters<Store["lease"]>): Promise<Stored[]> {
    this.#check([]);
    const leased = await this.inner.lease(query);
    const sound = leased.filter(({ record }) => !this.damaged.has(record.key));
    if (sound.length === leased.length) return leased;
    for (const { record } of leased) if (this.damaged.has(record.key)) query.damaged?.(this.damageOf(record.key));
    return [...sound, ...(await this.lease({ ...query, limit: query.limit - sound.length }))];
  }
  async list(...[query]: Parameters<Store["list"]>) {
    this.#check([]);
    const { items, cursor } = await this.inner.list(query);
    const bad = items.filter(({ record }) => this.damaged.has(record.key));
    if (bad.length === 0) return { items, cursor };
    const sound = items.filter((one) => !bad.includes(one));
    return { items: sound, cursor, damaged: bad.map(({ record }) => this.damageOf(record.key)) };
  }
  damageOf(key: string) {
    return describeDamage(damagedRecord({ key, where: this.name, what: "it was damaged by the test" }));
  }
  async stats(...[query]: Parameters<Store["stats"]>) {
    this.#check([]);
    return this.inner.stats(query);
  }
  async sweep(...[query]: Parameters<Store["sweep"]>) {
    this.#check([]);
    return this.inner.sweep(query);
  }
  async close() {
    this.#closed = true;
  }
  /** Buffers what would be written; `transaction` carries it out on commit. */
  within(tx: unknown): Pick<Store, "read" | "write"> {
    const { puts } = tx as Tx;
    const seen = async (key: string): Promise<Stored | null> => {
      const put = puts.findLast(({ record }) => record.key === key);
      if (put !== undefined) return { record: put.record, version: VERSION_TO_COME };
      return (await this.read([key]))[0] ?? null;
    };
    const write = async (put: Put): Promise<PutResult> => {
      const current = await seen(put.record.key);
      if ((current?.version ?? null) !== put.expected) return { ok: false, current };
      puts.push(put);
      return { ok: true, version: VERSION_TO_COME };
    };
    return { read: (keys) => Promise.all(keys.map(seen)), write: (batch) => Promise.all(batch.map(write)) };
  }
  #check(keys: readonly string[]) {
    if (this.#closed) throw new NevertwiceError("STORE_UNAVAILABLE", "closed");
    const key = keys.find((candidate) => this.damaged.has(candidate));
    if (key !== undefined) throw damagedRecord({ key, where: this.name, what: "it was damaged by the test" });
  }
}

// The memory store counts its writes: the first one of a fresh ledger gets this version.
const VERSION_TO_COME = 1;

type Flaw = (store: Sound) => Partial<TransactionalStore<unknown>>;

function openWith(flaw: Flaw): ConformanceLedger {
  let passed = 0;
  const clock = { instant: () => ({ now: 1_750_000_000_000 + passed, steady: 100 + passed, epoch: "test" }) };
  const inner = memoryStore({ clock });
  const damaged = new Set<string>();
  const connect = () => {
    const sound = new Sound(inner, damaged);
    return Object.assign(sound, flaw(new Sound(inner, damaged)));
  };
  const store = connect();
  return {
    store,
    reopen: connect,
    advance: (ms) => {
      passed += ms;
    },
    corrupt: (key) => {
      damaged.add(key);
    },
    transaction: async (fn) => {
      const tx: Tx = { puts: [] };
      const answer = await fn(tx);
      await inner.write(tx.puts);
      return answer;
    },
    dispose: () => inner.close(),
  };
}

function changeLeased(change: (record: LedgerRecord) => Partial<LedgerRecord>): Flaw {
  return (store) => ({
    lease: async (query) => {
      const rows = await store.lease(query);
      const puts = rows.map(({ record, version }) => ({ record: { ...record, ...change(record) }, expected: version }));
      await store.write(puts);
      return (await store.read(puts.map(({ record }) => record.key))) as Stored[];
    },
  });
}

const FLAWS: Readonly<Record<string, readonly [caughtBy: RegExp, flaw: Flaw]>> = {
  "compare-and-swap ignores the version": [
    /refuses a stale version/,
    (store) => ({
      write: async (puts) => {
        const rows = await store.read(puts.map(({ record }) => record.key));
        return store.write(
          puts.map((put, index) => ({
            ...put,
            expected: put.expected === null ? null : (rows[index]?.version ?? null),
          })),
        );
      },
    }),
  ],
  "an insert overwrites": [
    /inserts only where there is no row/,
    (store) => ({
      write: async (puts) => {
        const rows = await store.read(puts.map(({ record }) => record.key));
        return store.write(
          puts.map((put, index) => ({ ...put, expected: put.expected ?? rows[index]?.version ?? null })),
        );
      },
    }),
  ],
  "check, then write, with a gap between": [
    /one of many concurrent inserts wins/,
    (store) => ({
      write: async (puts) => {
        const before = await store.read(puts.map(({ record }) => record.key));
        const fits = puts.map((put, index) => (before[index]?.version ?? null) === put.expected);
        await new Promise(setImmediate);
        const rows = await store.read(puts.map(({ record }) => record.key));
        const forced = puts.map((put, index) => ({
          ...put,
          expected: fits[index] ? (rows[index]?.version ?? null) : -1,
        }));
        return store.write(forced);
      },
    }),
  ],
  "a conflict comes without the current record": [
    /shows the row/,
    (store) => ({
      write: async (puts) =>
        (await store.write(puts)).map((result) => (result.ok ? result : { ok: false, current: null })),
    }),
  ],
  "one conflict fails the whole batch": [
    /one conflict in a batch fails nobody else/,
    (store) => ({
      write: async (puts) => {
        const rows = await store.read(puts.map(({ record }) => record.key));
        const fits = puts.every((put, index) => (rows[index]?.version ?? null) === put.expected);
        return fits ? store.write(puts) : rows.map((current) => ({ ok: false, current }));
      },
    }),
  ],
  "results come sorted by key": [
    /answers a batch in its own order/,
    (store) => ({ write: (puts) => store.write([...puts].sort((a, b) => (a.record.key < b.record.key ? -1 : 1))) }),
  ],
  "a field is lost": [
    /keeps every field/,
    (store) => ({
      write: (puts) => store.write(puts.map((put) => ({ ...put, record: { ...put.record, firstSentMark: null } }))),
    }),
  ],
  "steady times are rounded": [
    /keeps every field/,
    (store) => ({
      write: (puts) =>
        store.write(
          puts.map(({ record, expected }) => {
            const lease = record.lease && { ...record.lease, until: Math.round(record.lease.until) };
            return { record: { ...record, lease }, expected };
          }),
        ),
    }),
  ],
  "payload text is reformatted": [
    /keeps payload text to the byte/,
    (store) => ({
      write: (puts) =>
        store.write(
          puts.map(({ record, expected }) => {
            const { draft } = record;
            const same = draft !== null && "json" in draft ? { json: JSON.stringify(JSON.parse(draft.json)) } : draft;
            return { record: { ...record, draft: same }, expected };
          }),
        ),
    }),
  ],
  "read drops duplicates": [
    /reads in the order asked/,
    (store) => ({ read: (keys) => store.read([...new Set(keys)]) }),
  ],
  "a lease does not raise the fence": [/leases > /, changeLeased(({ fence }) => ({ fence: fence - 1 }))],
  "a lease does not count the attempt": [/leases > /, changeLeased(({ attempt }) => ({ attempt: attempt - 1 }))],
  "a lease is handed out but not written": [
    /leases > /,
    (store) => ({
      lease: async (query) => {
        const { items } = await store.list({ limit: 1_000, states: ["pending"] });
        const due = items.filter(({ record }) => record.queued && (record.dueAt ?? 0) <= store.now());
        return due.slice(0, query.limit);
      },
    }),
  ],
  "a lease takes a lapsed sent record": [
    /hands out nothing that is sent/,
    (store) => ({
      lease: async (query) => {
        const { items } = await store.list({ limit: 1_000, lapsed: true, states: ["sent"] });
        return [...(await store.lease(query)), ...items];
      },
    }),
  ],
  "the first lease uses up the look for abandoned work of every kind": [
    /uses up no look/,
    (store) => {
      let looked = false;
      return {
        lease: async (query) => {
          const rows = await store.lease(query);
          const found = looked ? rows.filter(({ record }) => record.attempt === 1) : rows;
          looked = true;
          return found;
        },
      };
    },
  ],
  "a lease ignores an empty tenant": [
    /keeps to the actions and the tenant/,
    (store) => ({
      lease: ({ tenant, ...query }) => store.lease(tenant ? { ...query, tenant } : query),
    }),
  ],
  "a lease looks no further than the first of what is due": [
    /finds one tenant's work behind a long backlog/,
    (store) => ({
      lease: async (query) => {
        const { items } = await store.list({ limit: 500, states: ["pending"], order: "oldest" });
        const near = items.some(({ record }) => query.tenant === undefined || record.tenant === query.tenant);
        return near ? store.lease(query) : [];
      },
    }),
  ],
  "a list of what has lapsed ignores the tenant": [
    /finds what has lapsed of one tenant/,
    (store) => ({
      list: ({ tenant, ...query }) =>
        store.list(query.lapsed === true || tenant === undefined ? query : { ...query, tenant }),
    }),
  ],
  "stats ignore the tenant": [/counts one tenant's records alone/, (store) => ({ stats: () => store.stats() })],
  "sweep ignores the tenant": [
    /removes one tenant's records alone/,
    (store) => ({ sweep: ({ tenant: _, ...query }) => store.sweep(query) }),
  ],
  "sweep removes a doubt": [
    /sweep > never removes/,
    (store) => ({
      sweep: async (query) => {
        const { items } = await store.list({ limit: 1_000, states: ["unknown"] });
        const settled = items.map(({ record, version }) => ({
          record: { ...record, state: "confirmed" as const },
          expected: version,
        }));
        await store.write(settled);
        return store.sweep(query);
      },
    }),
  ],
  "a settled record keeps its first retention": [
    /sweep > goes by the retention/,
    (store) => ({
      write: async (puts) => {
        const before = await store.read(puts.map(({ record }) => record.key));
        const kept = (record: LedgerRecord, at: number) => {
          const settled = before[at]?.record;
          if (settled === undefined || settled.settledAt === null) return record;
          return { ...record, expiresAt: settled.expiresAt, keepMs: settled.keepMs };
        };
        return store.write(puts.map((put, at) => ({ ...put, record: kept(put.record, at) })));
      },
    }),
  ],
  "sweep knows no bound": [
    /sweep > removes at most its limit/,
    (store) => ({ sweep: () => store.sweep({ limit: 1_000 }) }),
  ],
  "read answers null for a damaged record": [
    /corruption > a damaged record is noticed/,
    (store) => ({
      read: async (keys) => {
        const rows = await store.inner.read(keys);
        return rows.map((row) => (row !== null && store.damaged.has(row.record.key) ? null : row));
      },
    }),
  ],
  "the error of a damaged record is that of a store which is down": [
    /corruption > the error of a damaged record among others names its key/,
    (store) => ({
      read: (keys) =>
        store.read(keys).catch(() => {
          throw new NevertwiceError("STORE_UNAVAILABLE", "the ledger is damaged");
        }),
    }),
  ],
  "a damaged record stops a list": [
    /corruption > a list passes over a damaged record/,
    (store) => ({
      list: async (query) => {
        const page = await store.list(query);
        if (page.damaged !== undefined) throw damagedRecord({ key: "nt1_filled", where: "", what: "it was" });
        return page;
      },
    }),
  ],
  "a list hides a damaged record": [
    /corruption > a list passes over a damaged record/,
    (store) => ({
      list: async (query) => {
        const { items, cursor } = await store.list(query);
        return { items, cursor };
      },
    }),
  ],
  "a damaged record stops a lease": [
    /corruption > a lease hands out the work behind/,
    (store) => ({
      lease: async (query) =>
        store.lease({
          ...query,
          damaged: ({ key }) => {
            throw damagedRecord({ key, where: "", what: "it was" });
          },
        }),
    }),
  ],
  "an insert heals a damaged record": [
    /corruption > a damaged record is not overwritten/,
    (store) => ({
      write: async (puts) =>
        puts.some(({ record }) => store.damaged.has(record.key))
          ? puts.map(() => ({ ok: true, version: 99 }))
          : store.write(puts),
    }),
  ],
  "list repeats a row across pages": [
    /without gaps or repeats/,
    (store) => ({
      list: async (query) => {
        const page = await store.list(query);
        const before = await store.list({ ...query, limit: Math.max(1, query.limit - 1) });
        return page.cursor === null ? page : { ...page, cursor: before.cursor };
      },
    }),
  ],
  "list forgets the last row of a page": [
    /without gaps or repeats/,
    (store) => ({
      list: async (query) => {
        const page = await store.list(query);
        return page.cursor === null ? page : { ...page, items: page.items.slice(0, -1) };
      },
    }),
  ],
  "a key prefix is matched without letter case": [
    /takes a key prefix as it is written/,
    (store) => ({
      list: async ({ keyPrefix, ...query }) => {
        const page = await store.list(query);
        const wanted = keyPrefix?.toLowerCase() ?? "";
        return { ...page, items: page.items.filter(({ record }) => record.key.toLowerCase().startsWith(wanted)) };
      },
    }),
  ],
  "stats count lapsed leases as alive": [
    /stats > counts by state/,
    (store) => ({ stats: async () => ({ ...(await store.stats()), lapsed: 0 }) }),
  ],
  "within writes past the transaction": [/transactions > a rollback/, (store) => ({ within: () => store })],
  "the epoch is made up at every reading": [
    /clock > /,
    (store) => ({ instant: () => ({ ...store.instant(), epoch: String(Math.random()) }) }),
  ],
  "close does nothing": [/close > /, () => ({ close: async () => undefined })],
};

describe("the conformance suite", () => {
  it("finds nothing wrong with a sound store that offers everything", async () => {
    const { failed, total } = await failuresOf(() => openWith(() => ({})));
    expect(failed).toEqual([]);
    expect(total).toBeGreaterThan(60);
  });

  for (const [name, [caughtBy, flaw]] of Object.entries(FLAWS)) {
    it(`catches a store where ${name}`, async () => {
      const { failed } = await failuresOf(() => openWith(flaw));
      expect(failed.filter((test) => caughtBy.test(test))).not.toEqual([]);
    });
  }

  it("notices a ledger that offers less than was said, so that no test is left out by mistake", async () => {
    const { failed } = await failuresOf(() => {
      const { corrupt: _, ...ledger } = openWith(() => ({}));
      return ledger;
    });
    expect(failed).toContain("basics > offers what the options say it offers");
  });

  it("registers no test for what a ledger does not offer", () => {
    const names: string[] = [];
    const runner: TestRunner = {
      describe(name, body) {
        names.push(name);
        body();
      },
      it: (name) => names.push(name),
    };
    storeConformance({ name: "plain", runner, open: () => openWith(() => ({})) });
    expect(names).toContain("leases");
    expect(names).not.toContain("corruption");
    expect(names).not.toContain("transactions");
    expect(names).not.toContain("moves when the test moves it");
  });

  it("takes node:test's runner as it is", () => {
    const accepts = (runner: Pick<typeof import("node:test"), "describe" | "it">): TestRunner => runner;
    expect(accepts).toBeTypeOf("function");
  });
});
