/** Stores that sweep part by part remember where they stopped: for each tenant on its own, or one would pass over another's. */
import { join } from "node:path";
import { fileStore } from "nevertwice/file";
import { redisStore } from "nevertwice/redis";
import { sqliteStore } from "nevertwice/sqlite";
import { expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../../test/services/addresses.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import type { Store } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";

/** `rows`: two parts of a sweep. */
const STORES: Readonly<Record<string, { readonly rows: number; open(): Promise<Store> }>> = {
  sqlite: { rows: 10_000, open: async () => sqliteStore({ path: join(temporaryFolder(), "ledger.db") }) },
  file: { rows: 40_000, open: async () => fileStore({ path: join(temporaryFolder(), "ledger.jsonl") }) },
  redis: {
    rows: 32_000,
    open: async () => redisStore({ url: await flushableRedisDb(), prefix: freshPrefix().slice(0, -1) }),
  },
};

it.each(Object.entries(STORES))("%s: tenants that sweep in turns remove all of theirs", async (_, { rows, open }) => {
  const store = await open();
  onTestFinished(() => store.close());
  const now = Math.floor(store.now());
  const settled = (index: number, tenant: string, expiresAt: number) =>
    sampleRecord({
      key: `nt1_${String(index).padStart(6, "0")}`,
      tenant,
      state: "confirmed",
      createdAt: now - 200_000 + index,
      settledAt: now - 100_000,
      dueAt: null,
      keepMs: 1_000,
      expiresAt,
    });
  for (let from = 0; from < rows; from += 500)
    await store.write(
      Array.from({ length: 500 }, (_, i) => {
        const index = from + i;
        // A few of both are over, in all parts; the rest is kept.
        const over = index % 100 === 0;
        const tenant = index % 200 === 0 ? "a" : "b";
        return { record: settled(index, tenant, over ? now - 1 : now + 3_600_000), expected: null };
      }),
    );
  for (let pass = 0; pass < 8; pass += 1) {
    await store.sweep({ limit: 10_000, tenant: "a" });
    await store.sweep({ limit: 10_000, tenant: "b" });
  }
  expect(await store.sweep({ limit: 10_000, thorough: true }), "left over").toBe(0);
  expect((await store.stats()).total).toBe(rows - rows / 100);
});
