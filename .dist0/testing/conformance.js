/**
 * The store conformance suite: any store, any test runner. What holds here is what the engine relies on; nothing else
 * about a store matters to it.
 *
 * What a ledger cannot do is data (`offers`, optional members), and its tests are then not registered at all: a skipped
 * test reads like a passed one after a month.
 */
import { onFreshLedger } from "./harness.js";
import { basics } from "./sections/basics.js";
import { clock, closing } from "./sections/clock-and-close.js";
import { compareAndSwap } from "./sections/compare-and-swap.js";
import { corruption } from "./sections/corruption.js";
import { leases } from "./sections/leases.js";
import { listing } from "./sections/listing.js";
import { races } from "./sections/races.js";
import { stats, sweeping } from "./sections/stats-and-sweep.js";
import { transactions } from "./sections/transactions.js";
const SECTIONS = {
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
export function storeConformance(options) {
    const { runner, offers = [] } = options;
    runner.describe(`${options.name}: store conformance`, () => {
        for (const [section, cases] of Object.entries(SECTIONS)) {
            const held = cases.filter(({ needs }) => needs === undefined || offers.includes(needs));
            if (held.length === 0)
                continue;
            runner.describe(section, () => {
                for (const { name, body } of held)
                    runner.it(name, () => onFreshLedger(options, body));
            });
        }
    });
}
//# sourceMappingURL=conformance.js.map