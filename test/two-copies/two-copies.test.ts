/** Several copies of nevertwice, or of SQLite, in one process on one ledger: shared where that is safe, refused where not. */
import { describe, expect, it } from "vitest";
import { runCopies } from "./run.mjs";

const CALLS = 64;
const STORES = ["sqlite", "file"] as const;
const allDone = { done: CALLS, errors: [] };
const refused = (theirs: RegExp) => ({ done: 0, errors: [expect.stringMatching(theirs)] });

describe.each(STORES)("on the %s store", (store) => {
  it.each(["two copies", "the same copy twice", "evaluated again"])(
    "on one SQLite library, everything runs once: %s",
    async (scenario) => {
      const { ended, effects, twice } = await runCopies({ scenario, drivers: 1, store, calls: CALLS });
      expect({ ended, effects, twice }).toEqual({ ended: [allDone, allDone], effects: CALLS, twice: 0 });
    },
  );

  it("two copies with a SQLite library each: whichever is second is refused, naming both, and the first goes on", async () => {
    const { ended, effects, twice } = await runCopies({ scenario: "two copies", drivers: 2, store, calls: CALLS });
    const nameOf = (copy: string) => `${copy}/node_modules/nevertwice with .*${copy}/node_modules/@photo`;
    const [first, second] = ended[0].done === CALLS ? ["one", "two"] : ["two", "one"];
    const both = new RegExp(`^CONFIG: .*${nameOf(first)}.*${nameOf(second)}.*Nothing was run\\.`);
    expect({ effects, twice }).toEqual({ effects: CALLS, twice: 0 });
    expect(first === "one" ? ended : ended.toReversed()).toEqual([allDone, refused(both)]);
  });

  it("a copy with a library of its own may open the ledger once the other has closed it", async () => {
    const scenario = "closed before the other";
    const { ended, effects } = await runCopies({ scenario, drivers: 2, store, calls: CALLS });
    expect({ ended, effects }).toEqual({ ended: [allDone, allDone], effects: CALLS });
  });
});

describe.each(["a connection of the program", "another thread"])("%s has the ledger's file open", (scenario) => {
  it("on the ledger's own SQLite library: nothing is refused", async () => {
    const { ended } = await runCopies({ scenario, drivers: 1, calls: CALLS });
    expect(ended).toEqual([allDone]);
  });

  // By /proc: see docs/bundling.md for other systems.
  it.runIf(process.platform === "linux")("on another SQLite library: refused before the file is opened", async () => {
    const { ended, effects } = await runCopies({ scenario, drivers: 2, calls: CALLS });
    expect(ended).toEqual([refused(/^CONFIG: .* a connection of .*two\/node_modules\/@photostructure/)]);
    expect(effects).toBe(0);
  });
});
