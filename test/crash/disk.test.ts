/** F11: the disk refuses. A claim that is not durable sends nothing, and the ledger is intact afterwards. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanUp, pooled, startVictim, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";
import { viewLedger } from "./lib/recovery.mjs";
import { attachStrace, straceFailing } from "./lib/strace.mjs";

let provider: Awaited<ReturnType<typeof startProvider>>;

beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

const SYNCS = ["fsync", "fdatasync"];
const WRITES = ["pwrite64"];
const FAULTS = [
  { fault: "EIO on every sync", calls: SYNCS, error: "EIO" },
  { fault: "EIO on every write", calls: WRITES, error: "EIO" },
  { fault: "ENOSPC on every write", calls: WRITES, error: "ENOSPC" },
];
const CALLERS = [
  { callers: "one caller, on the loop", many: 1 },
  { callers: "32 callers, through the thread", many: 32 },
];

let runs = 0;

/** Opens on a healthy disk, stops, and makes its calls on a sick one. */
async function callOnSickDisk(wrap: string[], many: number) {
  runs += 1;
  const ids = Array.from({ length: many }, (_, i) => `C-disk-${runs}-${i}`);
  const ledger = `${temporaryFolder()}/ledger.db`;
  const order = { ledger, provider: provider.url, ids, leaseMs: 5_000, together: true };
  const victim = startVictim({ ...order, pauseAt: { point: "opened" } });
  await victim.paused();
  const { ended } = await attachStrace(victim.pid, wrap);
  victim.signal("SIGCONT");
  await victim.event("end");
  await victim.exited;
  await ended;
  return { ids, said: victim.said, after: await viewLedger(ledger) };
}

describe.each(FAULTS)("$fault", ({ calls, error }) => {
  it.each(CALLERS)("F11: $callers: STORE_UNAVAILABLE, nothing is sent, the ledger is intact", async ({ many }) => {
    const { ids, said, after } = await callOnSickDisk(straceFailing(calls, error, 1), many);
    const threw = said.filter((one) => one.event === "threw");
    expect(threw.map((one) => one.code)).toEqual(ids.map(() => "STORE_UNAVAILABLE"));
    expect(ids.map((id) => provider.requestsFor(id))).toEqual(ids.map(() => 0));
    expect(after.bad).toEqual([]);
  });
});

it.each(CALLERS)(
  "F11: $callers: from the n-th sync or write on, whoever was refused sent nothing",
  async ({ many }) => {
    const faults = FAULTS.flatMap(({ calls, error }) => [2, 4, 9].map((nth) => straceFailing(calls, error, nth)));
    const results = await pooled(
      faults.map((wrap) => () => callOnSickDisk(wrap, many)),
      3,
    );
    for (const { ids, said, after } of results) {
      expect(after.bad).toEqual([]);
      for (const id of ids) expectHonest(id, said, after.records);
    }
  },
);

it("F11: one failed sync is tried again: the effect follows the commit that succeeded", async () => {
  const { ids, said, after } = await callOnSickDisk(straceFailing(SYNCS, "EIO", 1, false), 1);
  expect(said.find((one) => one.event === "outcome")?.outcome.status).toBe("done");
  expect(provider.effectsOf(ids[0])).toBe(1);
  expect(after.records.map((record) => record.state)).toEqual(["confirmed"]);
});

/** Refused: nothing was sent. Told done: it happened once, and the ledger has it (as sent, if it could not be told). */
function expectHonest(
  id: string,
  said: readonly { event: string; id: string; code?: string }[],
  records: readonly { id: string; state: string }[],
) {
  const told = said.find((one) => one.id === id && (one.event === "threw" || one.event === "outcome"));
  const state = records.find((record) => record.id === id)?.state;
  if (told?.event === "threw") {
    expect([told.code, provider.requestsFor(id)]).toEqual(["STORE_UNAVAILABLE", 0]);
    return;
  }
  expect(provider.effectsOf(id)).toBe(1);
  expect(["confirmed", "sent"]).toContain(state);
}
