/**
 * F3: SIGKILL at every system call that changes the ledger's files. strace delivers the signal when the victim enters its
 * N-th such call, for N = 1, 2, … until it finishes unharmed; a call counts per thread.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { violations } from "./lib/invariants.mjs";
import { cleanUp, countKill, pooled, startVictim, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";
import { changingCalls, straceKilling } from "./lib/strace.mjs";

const MAX_CALLS = 400;
const AT_ONCE = 3;

let provider: Awaited<ReturnType<typeof startProvider>>;

beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

interface Killed {
  readonly killed: boolean;
  readonly said: readonly { readonly id: string; readonly outcome: { readonly status: string } }[];
  readonly order: { readonly ledger: string; readonly ids: readonly string[] };
}

function ordersFor(name: string, kind: string, more: object) {
  const ids = (more as { together?: boolean }).together
    ? [1, 2, 3, 4, 5, 6].map((n) => `${kind}-${name}-${n}`)
    : [`${kind}-${name}`];
  return { ledger: `${temporaryFolder()}/ledger.db`, provider: provider.url, ids, leaseMs: 1_000, ...more };
}

async function runUnder(wrap: readonly string[], order: ReturnType<typeof ordersFor>): Promise<Killed> {
  const victim = startVictim(order, { wrap });
  const { code, signal } = await victim.exited;
  const killed = signal === "SIGKILL";
  if (killed) countKill();
  else expect([code, victim.stderr]).toEqual([0, ""]);
  return { killed, order, said: victim.said.filter((one) => one.event === "outcome") };
}

/** Kills at the N-th call, for all N up to the first that leaves the victim unharmed. */
async function killAtEach(call: string, name: string, kind: string, more: object): Promise<Killed[]> {
  const runs: Killed[] = [];
  for (let from = 1; from <= MAX_CALLS; from += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, (_, i) => from + i);
    const done = await pooled(
      batch.map((nth) => () => runUnder(straceKilling(call, nth), ordersFor(`${name}-${call}-${nth}`, kind, more))),
      AT_ONCE,
    );
    runs.push(...done);
    if (done.some((run) => !run.killed)) return runs;
  }
  throw new Error(`${call}: still killed at the ${MAX_CALLS}th call`);
}

/** One process recovers all ledgers, one after the other; by then the dead holders' leases are mostly over. */
async function recoverAll(runs: readonly Killed[]) {
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

const WORKLOADS = [
  { name: "C, one call on the loop", kind: "C", more: { prepare: true } },
  { name: "A, one call on the loop", kind: "A", more: {} },
  { name: "C, six calls through the thread", kind: "C", more: { together: true } },
];

it.each(WORKLOADS)(
  "$name: killed at every write, sync, rename, unlink and truncation",
  async ({ name, kind, more }) => {
    const slug = name.replaceAll(/[^a-z]+/gi, "-");
    const calls = await changingCalls((wrap) => runUnder(wrap, ordersFor(`${slug}-count`, kind, more)));
    const runs: Killed[] = [];
    for (const call of calls) runs.push(...(await killAtEach(call, slug, kind, more)));
    const kills = runs.filter((run) => run.killed).length;
    console.log(`${name}: ${kills} kills at ${calls.join(", ")}`);
    expect(calls).toEqual(expect.arrayContaining(["pwrite64"]));
    expect(calls.some((call) => call === "fsync" || call === "fdatasync")).toBe(true);
    expect(await recoverAll(runs)).toEqual([]);
  },
  120_000,
);
