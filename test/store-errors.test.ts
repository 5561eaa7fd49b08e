/** What a store throws reaches callers as STORE_UNAVAILABLE, whichever operation met it. */
import { nevertwice, type Store } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { expect, it } from "vitest";

const boom = async (): Promise<never> => {
  throw new Error("socket hang up");
};

it.each([["list"], ["sweep"]] as const)(
  "a store whose %s throws: retryAll and sweep say STORE_UNAVAILABLE",
  async (broken) => {
    const store: Store = memoryStore();
    store[broken] = boom;
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    const refused = { code: "STORE_UNAVAILABLE", message: expect.stringContaining("socket hang up") };
    await expect(nt.sweep()).rejects.toMatchObject(refused);
    if (broken === "list") await expect(nt.retryAll({}, { by: "me", reason: "test" })).rejects.toMatchObject(refused);
    await nt.close();
  },
);
