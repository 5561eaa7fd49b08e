import { describe, expect, it } from "vitest";
import type { Instant } from "../core/record.ts";
import { sampleRecord, storeConformance } from "../testing/index.ts";
import { memoryStore } from "./memory.ts";
import { decodeCursor, encodeCursor } from "./shared/scan.ts";

function steeredClock() {
  let passed = 0;
  return {
    instant: (): Instant => ({ now: 1_750_000_000_000 + passed, steady: 500.25 + passed, epoch: "test" }),
    advance: (ms: number) => {
      passed += ms;
    },
  };
}

storeConformance({
  name: "memory",
  runner: { describe, it },
  offers: ["advance"],
  open: () => {
    const clock = steeredClock();
    const store = memoryStore({ clock });
    return { store, advance: clock.advance, dispose: () => store.close() };
  },
});

describe("memoryStore", () => {
  it("says that it survives nothing", () => {
    expect(memoryStore()).toMatchObject({
      name: "memory",
      traits: { hosts: "one", survives: "nothing", clock: "client", dueIndex: false },
    });
  });

  it("reads wall time and the process's monotonic clock unless it is given one", () => {
    const [one, two] = [memoryStore(), memoryStore()];
    expect(Math.abs(one.now() - Date.now())).toBeLessThan(1_000);
    expect(Math.abs((one.instant?.().steady ?? 0) - performance.now())).toBeLessThan(1_000);
    expect(one.instant?.().epoch).toBe(two.instant?.().epoch);
  });

  it("never gives one version twice, whatever the key", async () => {
    const store = memoryStore();
    const keys = ["a", "b", "c"];
    const results = await store.write(keys.map((key) => ({ record: sampleRecord({ key }), expected: null })));
    expect(new Set(results.map((result) => result.ok && result.version)).size).toBe(3);
  });

  it("hands out frozen records and leaves the one it was given alone", async () => {
    const store = memoryStore();
    const record = sampleRecord();
    await store.write([{ record, expected: null }]);
    const [row] = await store.read([record.key]);
    expect(() => Object.assign(row?.record ?? {}, { fence: 9 })).toThrow(TypeError);
    expect(Object.isFrozen(record)).toBe(false);
  });

  it("two stores share nothing", async () => {
    await memoryStore().write([{ record: sampleRecord(), expected: null }]);
    expect(await memoryStore().read(["nt1_sample"])).toEqual([null]);
  });

  it("says what is wrong with a limit, a cursor and a closed store", async () => {
    const store = memoryStore();
    await expect(store.list({ limit: 0 })).rejects.toThrow("list: limit is 0; it takes a whole number above zero.");
    await expect(store.list({ limit: 1, cursor: "x" })).rejects.toThrow(/not one this ledger gave out.*or none/);
    await store.close();
    await expect(store.read([])).rejects.toThrow(/the ledger in memory is closed. Open a new one/);
  });

  it("a cursor is opaque text that survives a URL", () => {
    const position = { createdAt: 1_750_000_000_000, key: "nt1_é?&" };
    expect(encodeCursor(position)).toMatch(/^[\w-]+$/);
    expect(decodeCursor(encodeCursor(position))).toEqual(position);
  });
});
