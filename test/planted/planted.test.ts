/** A harness that never caught anything proves nothing: each naive design is caught, nevertwice passes the same. */
import { afterAll, describe, expect, it } from "vitest";
import { cleanUp } from "../crash/lib/processes.mjs";
import { SCENARIOS } from "./scenarios.ts";

afterAll(cleanUp);

describe.concurrent("nevertwice", () => {
  it.each(Object.entries(SCENARIOS))("passes %s", async (_name, scenario) => {
    expect(await scenario("nevertwice")).toEqual([]);
  });
});

// Each design, and the scenario that is there for its sake.
const PLANTED = [
  ["one-transaction", "killedInFlight"],
  ["deleted-on-error", "failsAfterTheEffect"],
  ["no-fence", "stoppedBeforeSending"],
  ["no-sent-mark", "killedInFlight"],
  ["get-on-written-row", "failedCommit"],
  ["synchronous-normal", "syncedBeforeSending"],
] as const;

describe.concurrent("a planted design is caught", () => {
  it.each(PLANTED)("%s, by %s", async (guard, name) => {
    const violations = await SCENARIOS[name]?.(guard);
    console.log(`${guard}: ${violations?.join("; ")}`);
    expect(violations?.length).toBeGreaterThan(0);
  });
});

describe.concurrent("what the planted designs do right is not held against them", () => {
  it.each([
    ["no-fence", "killedInFlight"],
    ["no-sent-mark", "stoppedBeforeSending"],
    ["get-on-written-row", "syncedBeforeSending"],
    ["synchronous-normal", "killedInFlight"],
    ["deleted-on-error", "failedCommit"],
  ] as const)("%s passes %s", async (guard, name) => {
    expect(await SCENARIOS[name]?.(guard)).toEqual([]);
  });
});
