/** The histories every store has to stand. */
import { randomBytes } from "node:crypto";
import { nevertwice, type Store } from "nevertwice";
import { describe, expect, it, onTestFinished } from "vitest";
import { effort, seeded, tried } from "../support/effort.mjs";
import { engineHistories } from "./engine-histories.ts";
import { storeHistories } from "./store-histories.ts";

const STORE_HISTORIES = effort(400, 2_000);
const ENGINE_HISTORIES = effort(60, 300);
const PROCESSES = 3;
// Some ten thousand commits: seconds on a quiet disk, and a slow one must not turn into a red test.
const TIMEOUT_MS = 240_000;

/** The same ledger, opened once for each process. */
export type Ledgers = Readonly<Record<string, () => Promise<() => Store>>>;

function seed(): { seed: number; chance: () => number; prefix: string } {
  const from = Number(process.env.NEVERTWICE_SEED ?? randomBytes(4).readUInt32LE());
  return { seed: from, chance: seeded(from), prefix: `nt1_${randomBytes(4).toString("hex")}_` };
}

export function describeHistories(ledgers: Ledgers): void {
  describe.each(Object.entries(ledgers))("%s", (_, ledger) => histories(ledger));
}

function histories(ledger: Ledgers[string]): void {
  it(
    `${STORE_HISTORIES} histories of the store port`,
    async () => {
      const open = await ledger();
      const stores = Array.from({ length: PROCESSES }, open);
      onTestFinished(async () => {
        for (const store of stores) await store.close();
      });
      for (const store of stores) await store.read(["nt1_first"]);
      const { seed: from, ...rest } = seed();
      const bad = await storeHistories(stores, { ...rest, histories: STORE_HISTORIES });
      tried("histories checked", STORE_HISTORIES);
      expect(bad, `seed ${from}`).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it(
    `${ENGINE_HISTORIES} histories of calls`,
    async () => {
      const open = await ledger();
      const programs = Array.from({ length: PROCESSES }, () =>
        nevertwice({ store: open(), sweep: false, onWarning: () => {} }),
      );
      onTestFinished(async () => {
        for (const nt of programs) await nt.close();
      });
      const { seed: from, ...rest } = seed();
      const bad = await engineHistories(programs, { ...rest, histories: ENGINE_HISTORIES });
      tried("histories checked", ENGINE_HISTORIES);
      expect(bad, `seed ${from}`).toEqual([]);
    },
    TIMEOUT_MS,
  );
}
