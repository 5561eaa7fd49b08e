/** A checker that never found anything shows nothing: orders by hand, and stores with the mistakes that stores make. */

import type { Put, PutResult, Store, Stored } from "nevertwice";
import { nevertwice } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { describe, expect, it } from "vitest";
import { seeded } from "../support/effort.mjs";
import { isLinearizable, type Operation } from "./checker.ts";
import { engineHistories } from "./engine-histories.ts";
import { storeHistories } from "./store-histories.ts";

describe("the search", () => {
  const write = (value: number, invoked: number, returned: number): Operation<number> => ({
    name: `write ${value}`,
    invoked,
    returned,
    apply: () => value,
  });
  const read = (value: number, invoked: number, returned: number): Operation<number> => ({
    name: `read ${value}`,
    invoked,
    returned,
    apply: (state) => (state === value ? state : null),
  });
  const check = (...operations: Operation<number>[]) => isLinearizable(operations, 0, String);

  it("finds an order for what overlaps, in either way", () => {
    expect(check(write(1, 1, 4), read(0, 2, 3))).toBe(true);
    expect(check(write(1, 1, 4), read(1, 2, 3))).toBe(true);
    expect(check(write(1, 1, 6), write(2, 2, 5), read(2, 7, 8))).toBe(true);
    expect(check(write(1, 1, 6), write(2, 2, 5), read(1, 7, 8))).toBe(true);
  });

  it("keeps real time: a read after a write does not see what was before it", () => {
    expect(check(write(1, 1, 2), read(0, 3, 4))).toBe(false);
    expect(check(write(1, 1, 2), write(2, 3, 4), read(1, 5, 6))).toBe(false);
  });

  it("no value is seen, lost and seen again", () => {
    expect(check(write(1, 1, 8), read(1, 2, 3), read(0, 4, 5))).toBe(false);
  });

  it("refuses to guess about a history that is too long", () => {
    expect(() => check(...Array.from({ length: 31 }, (_, i) => write(i, 2 * i, 2 * i + 1)))).toThrow(/too many/);
  });
});

const turn = () => new Promise((done) => setImmediate(done));

/** memoryStore with one mistake. */
function mistaken(change: (store: Store) => Partial<Store>): Store {
  const store = memoryStore();
  const own = Object.fromEntries(
    (["now", "instant", "read", "write", "lease", "list", "stats", "sweep", "close"] as const).map((name) => [
      name,
      (store[name] as (...args: never[]) => unknown).bind(store),
    ]),
  );
  return { name: store.name, traits: store.traits, ...own, ...change(store) } as unknown as Store;
}

/** Reads from a replica that is behind. */
function staleReads(): Store {
  return mistaken((store) => {
    const older = new Map<string, Stored | null>();
    return {
      read: async (keys) =>
        Promise.all(
          keys.map(async (key) => {
            const [now = null] = await store.read([key]);
            const before = older.get(key) ?? null;
            older.set(key, now);
            return before;
          }),
        ),
    };
  });
}

/** Looks, and writes later what was true when it looked. */
function checkThenAct(): Store {
  return mistaken((store) => ({
    write: async (puts) => {
      const results: PutResult[] = [];
      for (const put of puts) {
        const [before = null] = await store.read([put.record.key]);
        await turn();
        if ((before?.version ?? null) !== put.expected) {
          results.push({ ok: false, current: before });
          continue;
        }
        const [now = null] = await store.read([put.record.key]);
        const [forced] = await store.write([{ ...put, expected: now?.version ?? null }]);
        results.push(forced as PutResult);
      }
      return results;
    },
  }));
}

/** Acknowledges now and then what it has not written. */
function lostWrites(): Store {
  let writes = 0;
  return mistaken((store) => ({
    write: async (puts: readonly Put[]) => {
      writes += 1;
      if (writes % 7 !== 0) return store.write(puts);
      return puts.map(({ expected }): PutResult => ({ ok: true, version: (expected ?? 0) + 1 }));
    },
  }));
}

/** Hands one due record to two workers. */
function leaseTwice(): Store {
  return mistaken((store) => {
    let last: readonly Stored[] = [];
    return {
      lease: async (query) => {
        const given = await store.lease(query);
        if (given.length === 0) {
          const again = last.filter(({ record }) => query.actions?.includes(record.action));
          return again.map((stored) => ({ ...stored, record: { ...stored.record, holder: query.holder } }));
        }
        last = given;
        return given;
      },
    };
  });
}

describe("a store with a mistake is found out", () => {
  it.each(Object.entries({ staleReads, checkThenAct, lostWrites, leaseTwice }))("%s", async (_, make) => {
    const store = make();
    const options = { histories: 300, chance: seeded(1), prefix: "nt1_planted_" };
    expect((await storeHistories([store, store, store], options)).length).toBeGreaterThan(0);
  });

  it("calls over a store that looks first and acts later", async () => {
    const store = checkThenAct();
    const programs = [1, 2, 3].map(() => nevertwice({ store, sweep: false, onWarning: () => {} }));
    const options = { histories: 200, chance: seeded(2), prefix: "nt1_planted_" };
    expect((await engineHistories(programs, options)).length).toBeGreaterThan(0);
  });

  it("and one without is not", async () => {
    const store = memoryStore();
    const options = { histories: 300, chance: seeded(1), prefix: "nt1_sound_" };
    expect(await storeHistories([store, store, store], options)).toEqual([]);
  });
});
