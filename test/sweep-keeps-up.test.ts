/** The background sweep removes as much as there is, however much that is: it does not rest after a full pass. */
import { join } from "node:path";
import { nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { memoryStore } from "nevertwice/memory";
import { sqliteStore } from "nevertwice/sqlite";
import { expect, it, onTestFinished } from "vitest";
import { sampleRecord } from "../src/testing/sample-record.ts";
import { temporaryFolder } from "./support/each-store.ts";

const EXPIRED = 30_000;
const KEPT = 500;
// A pass removes a thousand. With a rest of five seconds after each, this many would take two and a half minutes.
const MOST_PASSES = 45;
const LONGEST_MS = 60_000;

it.each([
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore({ path: join(temporaryFolder(), "ledger.db") })],
  ["file", () => fileStore({ path: join(temporaryFolder(), "ledger.jsonl") })],
])(
  "30 000 expired records of three tenants are removed in the background: %s",
  async (_name, open) => {
    const store: Store = open();
    const tenants = ["", "acme", "other"];
    const record = (n: number, expiresAt: number | null) =>
      sampleRecord({ key: `nt1_${n}`, tenant: tenants[n % 3] as string, state: "confirmed", expiresAt });
    for (let from = 0; from < EXPIRED; from += 1_000) {
      await store.write(Array.from({ length: 1_000 }, (_, n) => ({ record: record(from + n, 2_000), expected: null })));
    }
    await store.write(Array.from({ length: KEPT }, (_, n) => ({ record: record(EXPIRED + n, null), expected: null })));
    expect((await store.stats()).total).toBe(EXPIRED + KEPT);
    let passes = 0;
    const sweep = store.sweep.bind(store);
    store.sweep = (query) => {
      passes += 1;
      return sweep(query);
    };
    const nt = nevertwice({ store, sweep: "5s", tenant: "acme", tenants: "all", onWarning: () => {} });
    onTestFinished(() => nt.close());
    await nt.once("used", [1], () => 1);
    const end = performance.now() + LONGEST_MS;
    while ((await store.stats()).total > KEPT + 1 && performance.now() < end)
      await new Promise((done) => setTimeout(done, 100));
    expect((await store.stats()).total).toBe(KEPT + 1);
    expect(passes).toBeLessThanOrEqual(MOST_PASSES);
  },
  120_000,
);
