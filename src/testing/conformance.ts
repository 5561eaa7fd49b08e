/**
 * The store conformance suite: any store, any test runner. What holds here is what the engine relies on; nothing else
 * about a store matters to it.
 *
 * What a ledger cannot do is data (`offers`, optional members), and its tests are then not registered at all: a skipped
 * test reads like a passed one after a month.
 */
import { type Case, type ConformanceOptions, onFreshLedger } from "./harness.ts";
import { basics } from "./sections/basics.ts";
import { clock, closing } from "./sections/clock-and-close.ts";
import { compareAndSwap } from "./sections/compare-and-swap.ts";
import { corruption } from "./sections/corruption.ts";
import { leases } from "./sections/leases.ts";
import { listing } from "./sections/listing.ts";
import { races } from "./sections/races.ts";
import { stats, sweeping } from "./sections/stats-and-sweep.ts";
import { transactions } from "./sections/transactions.ts";

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
