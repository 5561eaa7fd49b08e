/**
 * F3: SIGKILL at every system call that changes the ledger's files. strace delivers the signal when the victim enters its
 * N-th such call, for N = 1, 2, … until it finishes unharmed.
 *
 * strace counts per thread, and a commit may happen on the loop or in the store's thread. So besides the run from birth
 * strace is attached at each stage of an attempt, and its counting begins with the commit that ends the stage.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { effort, sampleSeed } from "../support/effort.mjs";
import { violations } from "./lib/invariants.mjs";
import { cleanUp, countKill, pooled, startVictim, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";
import { attachStrace, changingCalls, straceKilling } from "./lib/strace.mjs";

const MAX_CALLS = 400;
const AT_ONCE = 3;
// The short command kills at every so many calls, from another one on each day.
const EVERY = effort(5, 1);

/** The file-changing calls this SQLite makes: fsync or fdatasync, for one, is a matter of how it was built. */
let made: string[];
let provider: Awaited<ReturnType<typeof startProvider>>;

beforeAll(async () => {
  provider = await startProvider();
  made = await changingCalls((wrap) => fromBirth(ordersFor("C"), wrap));
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

interface Killed {
  readonly killed: boolean;
  readonly said: readonly { readonly id: string; readonly outcome: { readonly status: string } }[];
  readonly order: Order;
}

type Order = ReturnType<typeof ordersFor>;
type Victim = ReturnType<typeof startVictim>;

let orders = 0;

function ordersFor(kind: string, more: object = {}, ids = 1) {
  orders += 1;
  return {
    ledger: `${temporaryFolder()}/ledger.db`,
    provider: provider.url,
    ids: Array.from({ length: ids }, (_, i) => `${kind}-${orders}-${i}`),
    leaseMs: 3_000,
    ...more,
  };
}

async function endOf(victim: Victim, order: Order): Promise<Killed> {
  const { code, signal } = await victim.exited;
  const killed = signal === "SIGKILL";
  if (killed) countKill();
  else expect([code, victim.stderr]).toEqual([0, ""]);
  return { killed, order, said: victim.said.filter((one) => one.event === "outcome") };
}

function fromBirth(order: Order, wrap: readonly string[]): Promise<Killed> {
  return endOf(startVictim(order, { wrap }), order);
}

/** The victim runs to the point by itself and stops; from there on it is traced. */
async function fromPoint(order: Order, point: string, call: string, nth: number): Promise<Killed> {
  const victim = startVictim({ ...order, pauseAt: { point } });
  await victim.paused();
  const { ended } = await attachStrace(victim.pid, straceKilling(call, nth));
  victim.signal("SIGCONT");
  const end = await endOf(victim, order);
  await ended;
  return end;
}

/** Kills at the N-th call, for all N (or every so many) up to the first that leaves the victim unharmed. */
async function killAtEach(run: (nth: number) => Promise<Killed>): Promise<Killed[]> {
  const runs: Killed[] = [];
  for (let from = 1 + (sampleSeed % EVERY); from <= MAX_CALLS; from += AT_ONCE * EVERY) {
    const batch = Array.from({ length: AT_ONCE }, (_, i) => () => run(from + i * EVERY));
    const done = await pooled(batch, AT_ONCE);
    runs.push(...done);
    if (done.some((one) => !one.killed)) return runs;
  }
  throw new Error(`still killed at the ${MAX_CALLS}th call`);
}

/** One process recovers all ledgers, one after the other; by then the dead holders' leases are mostly over. */
async function recoverAll(runs: readonly Killed[]): Promise<string[]> {
  const child = startVictim({ recover: runs.map((run) => run.order) });
  await child.event("end");
  await child.exited;
  const recovered = new Map(child.said.map((one) => [one.ledger, one]));
  return runs.flatMap((run) => {
    const after = recovered.get(run.order.ledger);
    if (after?.event !== "recovered") return [`${run.order.ids[0]}: not recovered: ${JSON.stringify(after)}`];
    return violations({ ids: run.order.ids, records: after.records, provider, said: run.said });
  });
}

function report(what: string, runs: readonly Killed[]): number {
  const kills = runs.filter((run) => run.killed).length;
  console.log(`${what}: ${kills} kills`);
  return kills;
}

it("F3: killed at every write, sync, rename, unlink and truncation from the making of the file on", async () => {
  const order = () => ordersFor("C", { prepare: true });
  const calls = made;
  expect(calls).toEqual(expect.arrayContaining(["pwrite64", "rename", "unlink"]));
  expect(calls.some((call) => call === "fsync" || call === "fdatasync")).toBe(true);
  const runs: Killed[] = [];
  for (const call of calls) runs.push(...(await killAtEach((nth) => fromBirth(order(), straceKilling(call, nth)))));
  expect(report(`from birth, at ${calls.join(", ")}`, runs)).toBeGreaterThan(effort(3, calls.length));
  expect(await recoverAll(runs)).toEqual([]);
}, 300_000);

// Where strace is attached, and so which commit is killed: the claim, the send mark, the confirm, the close.
const POINTS = ["opened", "prepare", "replied", "confirmed"];

it.each([
  { name: "C", points: POINTS, order: () => ordersFor("C", { prepare: true }) },
  { name: "A", points: ["prepare", "replied"], order: () => ordersFor("A", { prepare: true }) },
  {
    name: "C, eight calls through the thread",
    points: ["opened"],
    order: () => ordersFor("C", { together: true }, 8),
  },
])(
  "$name: killed at every write and sync of each commit",
  async ({ name, points, order }) => {
    const runs: Killed[] = [];
    for (const point of points) {
      const calls = made.filter((call) => call !== "rename" && (point === "confirmed" || /write|sync/.test(call)));
      for (const call of calls) runs.push(...(await killAtEach((nth) => fromPoint(order(), point, call, nth))));
    }
    expect(report(`${name}, commit by commit`, runs)).toBeGreaterThan(effort(0, 5));
    expect(await recoverAll(runs)).toEqual([]);
  },
  300_000,
);
