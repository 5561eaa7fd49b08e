/** F34, F36: workers of the outbox killed while thousands of intents drain into a provider that counts. */
import { nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { effort, seeded } from "../support/effort.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";

const WORKER = new URL("./outbox-worker.mjs", import.meta.url).pathname;
const INTENTS = effort(4_000, 20_000);
// As many in both commands: with fewer, all kills may hit workers that have nothing under way.
const PLAIN_INTENTS = 20_000;
const KILLS = { keyed: effort(5, 12), plain: 6 };
// Of the drain that one worker finishes.
const SHARED = effort(2_000, 4_000);
// What one worker has under way, and so the most that its death can leave in doubt.
const CONCURRENCY = 32;
// Longer than any round trip on a starved machine, short enough that a dead worker's share comes back soon.
const LEASE_MS = 2_000;

afterAll(cleanUp);

type Kind = "keyed" | "plain";
const letter = { keyed: "A", plain: "C" };

async function scene(store: string, kind: Kind, intents: number) {
  const provider = await startProvider();
  const nt = nevertwice({ store, sweep: false });
  onTestFinished(async () => {
    await nt.close();
    await provider.close();
  });
  const action = nt.action(kind, { key: ["id"], keep: "forever", run: async (_: { id: string }) => null });
  const ids = Array.from({ length: intents }, (_, i) => `${letter[kind]}-${i}`);
  await action.enqueueMany(ids.map((id) => ({ id })));
  const start = () =>
    startProgram(WORKER, { store, provider: provider.url, leaseMs: LEASE_MS, concurrency: CONCURRENCY });
  const states = async () => (await nt.store.stats()).states;
  /** What is still on its way; doubts count where the policy can settle them. */
  const open = async () => {
    const { pending, claimed, sent, unknown } = await states();
    return pending + claimed + sent + (kind === "keyed" ? unknown : 0);
  };
  return { provider, nt, ids, start, states, open };
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function untilDrained(open: () => Promise<number>): Promise<void> {
  const tooLate = Date.now() + 150_000;
  while ((await open()) > 0) {
    if (Date.now() > tooLate) throw new Error(`${await open()} intents never came to an end`);
    await pause(100);
  }
}

type Worker = ReturnType<typeof startProgram>;

/** Until this worker has begun something, or nothing is left to begin. */
async function untilBusy(worker: Worker | undefined, open: () => Promise<number>): Promise<void> {
  await Promise.race([worker?.event("begun").catch(() => {}), untilDrained(open)]);
}

const stores: Record<string, () => Promise<string>> = {
  PostgreSQL: async () => (await freshDatabase()).url,
  "one SQLite file": async () => `sqlite:${temporaryFolder()}/ledger.db`,
};

describe.each(Object.keys(stores))("workers on %s", (name) => {
  const open = stores[name] as () => Promise<string>;

  it("F34 F36 killed at random while thousands of intents drain: 0 lost, 0 doubled, with a provider that honours keys", async () => {
    const { provider, ids, start, states, open: left } = await scene(await open(), "keyed", INTENTS);
    const random = seeded(Number(process.env.NEVERTWICE_SEED ?? 7));
    const fleet = Array.from({ length: 4 }, start);
    let kills = 0;
    for (; kills < KILLS.keyed && (await left()) > 0; kills += 1) {
      const victim = Math.floor(random() * fleet.length);
      await untilBusy(fleet[victim], left);
      await pause(random() * 300);
      await fleet[victim]?.kill();
      fleet[victim] = start();
    }
    await untilDrained(left);
    expect(kills).toBeGreaterThan(effort(1, 3));
    expect(ids.filter((id) => provider.effectsOf(id) !== 1)).toEqual([]);
    expect(await states()).toMatchObject({ confirmed: INTENTS, failed: 0, unknown: 0 });
    expect(provider.mismatches).toEqual([]);
    for (const one of fleet) one.end();
  }, 170_000);

  it("F34 killed at random while thousands drain into a provider that honours nothing: every doubt is visible as unknown, and nothing is sent twice", async () => {
    const { provider, nt, ids, start, states, open: left } = await scene(await open(), "plain", PLAIN_INTENTS);
    const random = seeded(11);
    const fleet = Array.from({ length: 4 }, start);
    for (let kills = 0; kills < KILLS.plain; kills += 1) {
      // Spread over the drain, so that the last ones too hit workers that are busy.
      const share = (kills + random()) / KILLS.plain;
      await untilDrained(async () => Math.max(0, (await left()) - PLAIN_INTENTS * (1 - 0.9 * share)));
      const victim = Math.floor(random() * fleet.length);
      await untilBusy(fleet[victim], left);
      await fleet[victim]?.kill();
      fleet[victim] = start();
    }
    await untilDrained(left);
    expect(ids.filter((id) => provider.effectsOf(id) > 1)).toEqual([]);
    const { confirmed, unknown } = await states();
    expect(confirmed + unknown).toBe(PLAIN_INTENTS);
    expect(unknown, "a kill that left nothing in doubt hit nobody at work").toBeGreaterThan(0);
    const held = (await nt.store.list({ states: ["unknown"], limit: 1_000 })).items;
    expect(held).toHaveLength(unknown);
    const doubtful = new Set(held.map(({ record }) => JSON.parse((record.input as { json: string }).json).id));
    expect(ids.filter((id) => provider.effectsOf(id) !== 1 && !doubtful.has(id))).toEqual([]);
    // A kill leaves no more in doubt than was under way.
    expect(unknown).toBeLessThanOrEqual(KILLS.plain * CONCURRENCY);
    for (const one of fleet) one.end();
  }, 170_000);

  it("four workers share the work; three are killed, and the fourth finishes it", async () => {
    const { provider, ids, start, states, open: left } = await scene(await open(), "keyed", SHARED);
    const fleet = Array.from({ length: 4 }, start);
    await Promise.all(fleet.map((one) => one.event("begun")));
    const [last, ...others] = fleet;
    await Promise.all(others.map((one) => one.kill()));
    await untilDrained(left);
    expect(ids.filter((id) => provider.effectsOf(id) !== 1)).toEqual([]);
    expect(await states()).toMatchObject({ confirmed: SHARED });
    last?.signal("SIGTERM");
    const { status } = await (last as (typeof fleet)[number]).event("stopped");
    expect(status.done).toBeGreaterThan(0);
    expect(status.done).toBeLessThan(SHARED);
  }, 170_000);
});
