/**
 * F3 to F9 on the JSONL ledger: SIGKILL at every system call that changes its files, from the making of the file to its
 * compaction, and at every stage of an attempt; killed again while a successor repairs what it found.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { effort, sampleSeed } from "../support/effort.mjs";
import { violations } from "./lib/invariants.mjs";
import { cleanUp, countKill, pooled, startVictim, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";
import { changingCalls, straceKilling } from "./lib/strace.mjs";

const MAX_CALLS = 400;
const AT_ONCE = 3;
// The short command kills at every so many calls, from another one on each day.
const EVERY = effort(5, 1);
// strace counts per thread: with one thread in the pool every sync is counted in one row.
const ENV = { UV_THREADPOOL_SIZE: "1" };

let provider: Awaited<ReturnType<typeof startProvider>>;

beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

let orders = 0;

function ordersFor(kind: string, more: object = {}, ids = 1) {
  orders += 1;
  return {
    kind: "file",
    ledger: `${temporaryFolder()}/ledger.jsonl`,
    provider: provider.url,
    ids: Array.from({ length: ids }, (_, i) => `${kind}-file-${orders}-${i}`),
    leaseMs: 3_000,
    ...more,
  };
}

type Order = ReturnType<typeof ordersFor>;

interface Killed {
  readonly killed: boolean;
  readonly order: Order;
  readonly said: readonly { readonly id: string; readonly outcome: { readonly status: string } }[];
}

async function run(order: Order, wrap: readonly string[]): Promise<Killed> {
  const victim = startVictim(order, { wrap, env: ENV });
  const { code, signal } = await victim.exited;
  const killed = signal === "SIGKILL";
  if (killed) countKill();
  else expect([code, victim.stderr]).toEqual([0, ""]);
  return { killed, order, said: victim.said.filter((one) => one.event === "outcome") };
}

async function killAtEach(start: (nth: number) => Promise<Killed>): Promise<Killed[]> {
  const runs: Killed[] = [];
  for (let from = 1 + (sampleSeed % EVERY); from <= MAX_CALLS; from += AT_ONCE * EVERY) {
    const done = await pooled(
      Array.from({ length: AT_ONCE }, (_, i) => () => start(from + i * EVERY)),
      AT_ONCE,
    );
    runs.push(...done);
    if (done.some((one) => !one.killed)) return runs;
  }
  throw new Error(`still killed at the ${MAX_CALLS}th call`);
}

async function recoverAll(runs: readonly Killed[]): Promise<string[]> {
  const child = startVictim({ recover: runs.map(({ order }) => ({ ...order, pauseAt: undefined })) });
  await child.event("end");
  await child.exited;
  const recovered = new Map(child.said.map((one) => [one.ledger, one]));
  return runs.flatMap(({ order, said }) => {
    const after = recovered.get(order.ledger);
    if (after?.event !== "recovered") return [`${order.ids[0]}: not recovered: ${JSON.stringify(after)}`];
    return violations({ ids: order.ids, records: after.records, provider, said });
  });
}

describe("F3: killed at every write, sync, rename and truncation", () => {
  it.each([
    { what: "one call with prepare, no provider key", order: () => ordersFor("C", { prepare: true }) },
    { what: "one call with a provider key", order: () => ordersFor("A") },
    {
      what: "three calls, compacted after each commit",
      order: () => ordersFor("C", { compactAfterLines: -1_000_000 }, 3),
    },
    { what: "six calls at once, one commit", order: () => ordersFor("C", { together: true }, 6) },
  ])(
    "$what",
    async ({ what, order }) => {
      const calls = await changingCalls((wrap) => run(order(), wrap));
      expect(calls).toEqual(expect.arrayContaining(["pwrite64", "fdatasync", "fsync", "rename"]));
      const runs: Killed[] = [];
      for (const call of calls) runs.push(...(await killAtEach((nth) => run(order(), straceKilling(call, nth)))));
      const kills = runs.filter((one) => one.killed).length;
      console.log(`JSONL, ${what}, at ${calls.join(", ")}: ${kills} kills`);
      expect(kills).toBeGreaterThan(effort(0, 8));
      expect(await recoverAll(runs)).toEqual([]);
    },
    180_000,
  );
});

/** Runs until the point, is killed there, and tells how the ledger and the provider stand afterwards. */
async function killedAt(kind: string, point: string) {
  const order = ordersFor(kind, { prepare: true, leaseMs: 500 });
  const victim = startVictim({ ...order, pauseAt: { point } });
  await victim.paused();
  await victim.kill();
  return order;
}

async function recovered(order: Order) {
  const child = startVictim({ recover: [order] });
  const after = await child.event("recovered");
  await child.exited;
  return { state: after.records[0].state, effects: provider.effectsOf(order.ids[0] as string) };
}

describe("killed at each stage of an attempt", () => {
  it.each([
    ["F4", "C", "prepare", { state: "confirmed", effects: 1 }],
    ["F5", "C", "marked", { state: "unknown", effects: 0 }],
    ["F7", "C", "replied", { state: "unknown", effects: 1 }],
    ["F7", "A", "replied", { state: "confirmed", effects: 1 }],
    ["F8", "C", "confirmed", { state: "confirmed", effects: 1 }],
  ])("%s: %s at %s", async (_fault, kind, point, expected) => {
    expect(await recovered(await killedAt(kind, point))).toEqual(expected);
  });

  it("F6, F9: killed in flight, then again at every write of the recovery", async () => {
    const order = await killedAt("C", "marked");
    for (let nth = 1; nth <= 6; nth += 1) {
      const child = startVictim({ recover: [order] }, { wrap: straceKilling("pwrite64", nth), env: ENV });
      const { signal } = await child.exited;
      if (signal === "SIGKILL") countKill();
    }
    expect(await recovered(order)).toEqual({ state: "unknown", effects: 0 });
  }, 60_000);
});
