/** F15–F19, F26 on the embedded store. */
import { unlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeHolders } from "./lib/holders.ts";
import { startProgram, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";

const HOLDER = fileURLToPath(new URL("./holder.mjs", import.meta.url));

let provider: Awaited<ReturnType<typeof startProvider>>;

beforeAll(async () => {
  provider = await startProvider({ script: () => ({ delayMs: 2_500 }) });
});
afterAll(() => provider.close());

it("F19: the ledger is gone under the holder: the work is told to stop, nobody sends a second time", async () => {
  const spec = {
    ledger: `${temporaryFolder()}/ledger.db`,
    provider: provider.url,
    id: "C-slow",
    leaseMs: 700,
    timeoutMs: 700,
    obeys: true,
    lingerMs: 100,
  };
  const holder = startProgram(HOLDER, spec);
  await provider.arrived(spec.id);
  // No heartbeat gets through any more.
  unlinkSync(spec.ledger);
  const aborted = await holder.event("aborted");
  expect(["LEASE_LOST", "TimeoutError"]).toContain(aborted.reason);
  await holder.event("end");
  expect(provider.requestsFor(spec.id)).toBe(1);
});

describeHolders("sqlite", () => `${temporaryFolder()}/ledger.db`);
