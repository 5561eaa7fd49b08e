/** Looking at a large ledger, and tidying it, does not stop the calls of the program it lies in. */
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { memoryStore } from "nevertwice/memory";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { sampleRecord } from "../src/testing/sample-record.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { keyOf, largeSqlite } from "./support/large-sqlite.ts";

const RECORDS = 300_000;
// On a ledger of this size a look takes hundreds of slices; with a single one none of these would come between.
const SOME_CALLS = 5;
const SOME_TURNS = 20;

/** How many calls ended, and how often the event loop turned, before the work did. */
async function meanwhile(store: Store, work: () => Promise<unknown>): Promise<{ calls: number; turns: number }> {
  let ended = false;
  const [count, started] = [{ calls: 0, turns: 0 }, Math.random().toString(36).slice(2)];
  const turn = () => {
    if (ended) return;
    count.turns += 1;
    setImmediate(turn);
  };
  setImmediate(turn);
  const call = async () => {
    for (let index = 0; !ended; index += 1) {
      const record = sampleRecord({ key: `nt1_call_${started}_${index}` });
      await store.write([{ record, expected: null }]);
      if (!ended) count.calls += 1;
    }
  };
  const calling = call();
  await work().finally(() => {
    ended = true;
  });
  await calling;
  return count;
}

function opened(path: string): Store {
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  return store;
}

describe("a SQLite ledger of 300 000 records", () => {
  it("stats, a list without a match, a check of the whole file and a large sweep let calls through", async () => {
    const store = opened(await largeSqlite(RECORDS));
    // The first write opens the file.
    await store.write([{ record: sampleRecord({ key: "nt1_first" }), expected: null }]);
    const looks: Record<string, () => Promise<unknown>> = {
      stats: () => store.stats(),
      "stats of a tenant": () => store.stats({ tenant: "nobody" }),
      "list by action": () => store.list({ limit: 50, action: "nobody" }),
      "list by scope, oldest first": () => store.list({ limit: 50, scope: "nobody", order: "oldest" }),
      "list by tenant and state": () => store.list({ limit: 50, tenant: "nobody", states: ["sent", "confirmed"] }),
      inspect: () => store.inspect?.() as Promise<unknown>,
      sweep: () => store.sweep({ limit: 20_000, thorough: true }),
    };
    for (const [name, look] of Object.entries(looks)) {
      const { calls, turns } = await meanwhile(store, look);
      expect(calls, `calls during ${name}`).toBeGreaterThanOrEqual(SOME_CALLS);
      expect(turns, `turns of the event loop during ${name}`).toBeGreaterThanOrEqual(SOME_TURNS);
    }
    expect(await store.read([keyOf(0), keyOf(RECORDS - 1)])).toMatchObject([
      null,
      { record: { key: keyOf(RECORDS - 1) } },
    ]);
  }, 300_000);
});

describe("a SQLite ledger that is read by a thread of its own", () => {
  it("a list sees what was written before it", async () => {
    const store = opened(await largeSqlite(12_000));
    for (let index = 0; index < 20; index += 1) {
      const key = `nt1_last_${index}`;
      await store.write([{ record: sampleRecord({ key, action: `a${index}` }), expected: null }]);
      const { items } = await store.list({ limit: 1, action: `a${index}`, order: "oldest" });
      expect(items.map(({ record }) => record.key)).toEqual([key]);
      expect((await store.stats()).total).toBe(12_001 + index);
    }
  });

  it("pages of every order and filter hold each record once", async () => {
    const store = opened(await largeSqlite(12_000));
    const more = ["failed", "unknown", "pending"].flatMap((state, i) =>
      Array.from({ length: 700 }, (_, n) =>
        sampleRecord({
          key: `nt1_${state}_${n}`,
          state: state as "failed",
          tenant: n % 2 === 0 ? "acme" : "",
          createdAt: 5_000_000 + i * 1_000 + n,
        }),
      ),
    );
    await store.write(more.map((record) => ({ record, expected: null })));
    const all = async (query: Parameters<Store["list"]>[0]) => {
      const keys: string[] = [];
      for (let cursor: string | null = null; ; ) {
        const page = await store.list({ ...query, ...(cursor !== null && { cursor }) });
        keys.push(...page.items.map(({ record }) => record.key));
        cursor = page.cursor;
        if (cursor === null) return keys;
      }
    };
    for (const order of ["newest", "oldest"] as const) {
      const everything = await all({ limit: 999, order });
      expect([everything.length, new Set(everything).size]).toEqual([14_100, 14_100]);
      const waiting = await all({ limit: 300, order, states: ["pending", "failed", "unknown"] });
      const expected = more.map(({ key }) => key);
      expect(waiting).toEqual(order === "oldest" ? expected : expected.reverse());
      expect(await all({ limit: 100, order, states: ["failed"], tenant: "acme" })).toHaveLength(350);
      expect(await all({ limit: 100, order, keyPrefix: "nt1_000000" })).toHaveLength(10_000);
      expect(await all({ limit: 100, order, keyPrefix: "nt1_f" })).toHaveLength(700);
    }
  });

  it("two programs that sweep at once remove each record once", async () => {
    const path = await largeSqlite(8_000);
    const sweepAll = async (store: Store) => {
      let removed = 0;
      for (let pass = 0; pass < 200 && (await store.stats()).total > 0; pass += 1) {
        removed += await store.sweep({ limit: 1_000 });
      }
      return removed;
    };
    const [one, other] = await Promise.all([sweepAll(opened(path)), sweepAll(opened(path))]);
    expect(one + other).toBe(8_000);
  });

  it("a ledger that is gone is refused, not made anew by the thread", async () => {
    const path = await largeSqlite(2_000);
    const store = opened(path);
    await store.read([keyOf(0)]);
    renameSync(path, `${path}.away`);
    await expect(store.list({ limit: 1, action: "nobody" })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(existsSync(path)).toBe(false);
  });
});

describe.each([
  ["memory", () => memoryStore()],
  ["file", () => fileStore({ path: join(temporaryFolder(), "ledger.jsonl") })],
])("a %s ledger of 50 000 records", (_name, open) => {
  it("stats, lists and sweeps let the event loop turn", async () => {
    const store = open();
    onTestFinished(() => store.close());
    for (let from = 0; from < 50_000; from += 5_000) {
      const puts = Array.from({ length: 5_000 }, (_, n) => ({
        record: sampleRecord({ key: keyOf(from + n), state: "confirmed", expiresAt: 2_000 }),
        expected: null,
      }));
      await store.write(puts);
    }
    const turnsDuring = async (work: () => Promise<unknown>) => {
      let [ended, turns] = [false, 0];
      const turn = () => {
        turns += 1;
        if (!ended) setImmediate(turn);
      };
      setImmediate(turn);
      await work();
      ended = true;
      return turns;
    };
    expect(await turnsDuring(() => store.stats())).toBeGreaterThanOrEqual(8);
    expect(await turnsDuring(() => store.list({ limit: 10 }))).toBeGreaterThanOrEqual(8);
    expect(await turnsDuring(() => store.list({ limit: 10, action: "nobody" }))).toBeGreaterThanOrEqual(8);
    expect(
      await turnsDuring(() => store.sweep({ limit: 50_000, thorough: true, tenant: "nobody" })),
    ).toBeGreaterThanOrEqual(8);
    expect(await store.sweep({ limit: 50_000, thorough: true })).toBe(50_000);
  });
});
