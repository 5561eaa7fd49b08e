/**
 * Enqueuers, workers and people who bring dead letters back, interleaved at every read and write and killed anywhere. In
 * one order at most one record runs at a time, what was enqueued before another enqueue began runs first, and nothing
 * waits forever.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { isUnplaced } from "../core/order.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Store, Stored } from "../core/store.ts";
import { type LedgerEvent, transition } from "../core/transition.ts";
import { memoryStore } from "../stores/memory.ts";
import { insertInLine, type KnownNote, place, type Swaps } from "./order-place.ts";
import { lookAgainAt, turnOf } from "./turn.ts";

const LINE = "nt1_order";
const LEASE_MS = 1_000;
const MOST_STEPS = 20_000;

/** Decides whose read or write is next, and who dies before or after it. */
class Simulation {
  readonly #next: () => number;
  #waiting: { readonly actor: string; readonly go: () => void }[] = [];
  readonly dead = new Set<string>();
  passed = 0;
  steps = 0;

  constructor(next: () => number) {
    this.#next = next;
  }

  chance(share: number): boolean {
    return this.#next() < share;
  }

  instant(): Instant {
    return { now: 1_000_000 + this.passed, steady: 1_000_000 + this.passed, epoch: "e" };
  }

  /** The actor goes on when it is picked; one that is killed never does. */
  async turn<T>(actor: string, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((go) => this.#waiting.push({ actor, go }));
    return work();
  }

  kill(actor: string): void {
    this.dead.add(actor);
    this.#waiting = this.#waiting.filter((one) => one.actor !== actor);
  }

  async step(): Promise<boolean> {
    for (let turns = 0; turns < 3; turns += 1) await new Promise((done) => setImmediate(done));
    if (this.#waiting.length === 0) return false;
    this.steps += 1;
    const [one] = this.#waiting.splice(Math.floor(this.#next() * this.#waiting.length), 1);
    one?.go();
    return true;
  }
}

interface Round {
  readonly key: string;
  readonly startedAt: number;
  returnedAt: number;
  over: boolean;
}

class World {
  readonly sim: Simulation;
  readonly store: Store;
  readonly rounds = new Map<string, Round>();
  readonly begun: string[] = [];
  readonly problems: string[] = [];
  readonly running = new Map<string, string>();
  #clock = 0;

  constructor(next: () => number) {
    this.sim = new Simulation(next);
    this.store = memoryStore({ clock: this.sim });
  }

  tick(): number {
    this.#clock += 1;
    return this.#clock;
  }

  swaps(actor: string): Swaps {
    return {
      read: (keys) => this.sim.turn(actor, () => this.store.read(keys)),
      write: (puts) => this.sim.turn(actor, () => this.store.write(puts)),
      now: () => this.sim.instant(),
    };
  }

  /** As the ledger does it: compared, swapped, begun again on what others have written. */
  async apply(actor: string, seen: Stored | null, event: LedgerEvent): Promise<{ ok: boolean; stored: Stored | null }> {
    let stored = seen;
    for (;;) {
      const change = transition(stored?.record ?? null, event, this.sim.instant());
      if (!change.ok) return { ok: false, stored };
      const { record } = change;
      const [result] = await this.swaps(actor).write([{ record, expected: stored?.version ?? null }]);
      if (result?.ok) return { ok: true, stored: { record, version: result.version } };
      stored = result?.current ?? null;
    }
  }

  /** A new round of a key, from the moment its record is queued. */
  queued(key: string, startedAt: number): Round {
    const round = { key, startedAt, returnedAt: Number.POSITIVE_INFINITY, over: false };
    this.rounds.set(key, round);
    return round;
  }

  begin(key: string, actor: string): void {
    if (this.running.size > 0) this.problems.push(`${key} begins while ${[...this.running.keys()]} runs`);
    const mine = this.rounds.get(key);
    for (const other of this.rounds.values())
      if (mine !== undefined && other !== mine && !other.over && other.returnedAt < mine.startedAt)
        this.problems.push(`${key} begins before ${other.key}, which was enqueued before it`);
    this.running.set(key, actor);
    this.begun.push(key);
  }
}

function enqueueOf(key: string, world: World): LedgerEvent {
  const intent = {
    key,
    tenant: "",
    action: "job",
    version: 1,
    scope: null,
    fingerprint: { guarded: "", free: null, fields: {} },
    input: null,
    keepMs: null,
  };
  return { type: "enqueue", intent, dueAt: world.sim.instant().now, terms: { line: LINE }, holder: `${world.tick()}` };
}

async function enqueuer(world: World, actor: string, keys: readonly string[]): Promise<void> {
  let known: KnownNote | null = null;
  for (const key of keys) {
    const startedAt = world.tick();
    let round: Round | null = null;
    const insert = async () => {
      const { ok, stored } = await world.apply(actor, null, enqueueOf(key, world));
      if (ok) round = world.queued(key, startedAt);
      return stored;
    };
    known = await insertInLine(world.swaps(actor), LINE, insert, known);
    if (round !== null) (round as Round).returnedAt = world.tick();
  }
}

/** Brings dead letters back, with and without seeing to their place. */
async function reviver(world: World, actor: string, times: number): Promise<void> {
  for (let left = times; left > 0; left -= 1) {
    const { items } = await world.sim.turn(actor, () => world.store.list({ limit: 50, states: ["failed"] }));
    const [stored] = items;
    if (stored === undefined) continue;
    const startedAt = world.tick();
    const { ok, stored: revived } = await world.apply(actor, stored, { type: "retry", by: "a", reason: "b" });
    if (!ok || revived === null) continue;
    const round = world.queued(stored.record.key, startedAt);
    if (world.sim.chance(0.3)) continue;
    await place(world.swaps(actor), revived);
    round.returnedAt = world.tick();
  }
}

async function worker(world: World, actor: string): Promise<void> {
  for (;;) {
    const query = { holder: `${actor} ${world.tick()}`, limit: 3, leaseMs: LEASE_MS, to: "claimed" } as const;
    const leased = await world.sim.turn(actor, () => world.store.lease(query));
    await Promise.all(leased.map((stored) => runOne(world, actor, stored)));
  }
}

async function runOne(world: World, actor: string, leased: Stored): Promise<void> {
  const { key, fence, holder } = leased.record;
  const hold = { fence, holder: holder as string };
  const { stored, before } = await turnOf(world.swaps(actor), leased);
  if (stored === null || stored.record.fence !== fence || stored.record.holder !== holder) return;
  if (before !== null) {
    const dueAt = lookAgainAt(before, world.sim.instant());
    await world.apply(actor, stored, { type: "give-back", hold, dueAt });
    return;
  }
  world.begin(key, actor);
  await world.sim.turn(actor, async () => {});
  world.running.delete(key);
  const error = { name: "Error", message: "no" };
  const now = world.sim.instant().now;
  const event: LedgerEvent = world.sim.chance(0.6)
    ? { type: "confirm", hold, result: null }
    : { type: "not-sent", hold, error, retryAt: world.sim.chance(0.5) ? now : null, final: false };
  const round = world.rounds.get(key);
  const { stored: ended } = await world.apply(actor, stored, event);
  if (round !== undefined && ended?.record.state !== "pending") round.over = true;
}

async function play(numbers: readonly number[], enqueuers: readonly string[][], workers: number, kills: number) {
  let at = 0;
  const world = new World(() => {
    at = (at + 1) % numbers.length;
    return ((numbers[at] as number) * 0.6180339887 + at * 0.7548776662) % 1;
  });
  const { sim } = world;
  const enqueuing = enqueuers.map((keys, i) => {
    const actor = `e${i}`;
    return { actor, done: false, end: enqueuer(world, actor, keys) };
  });
  for (const one of enqueuing)
    one.end.then(() => {
      one.done = true;
    });
  void reviver(world, "r0", 4);
  void reviver(world, "r1", 4);
  let names = Array.from({ length: workers }, (_, i) => `w${i}`);
  for (const name of names) void worker(world, name);
  let killsLeft = kills;
  const left = async () => {
    const { items } = await world.store.list({ limit: 1_000 });
    return items.filter(({ record }: { record: LedgerRecord }) => !["confirmed", "failed"].includes(record.state));
  };
  for (;;) {
    if (killsLeft > 0 && sim.steps > 5 && sim.chance(0.05)) {
      killsLeft -= 1;
      const victims = [...names, ...enqueuing.filter(({ done }) => !done).map(({ actor }) => actor)];
      const victim = victims[Math.floor(victims.length * 0.999 * (sim.chance(0.5) ? 0.3 : 0.8))] as string;
      sim.kill(victim);
      for (const [key, actor] of world.running) if (actor === victim) world.running.delete(key);
      if (names.includes(victim)) {
        names = names.filter((name) => name !== victim);
        const fresh = `w${workers + kills - killsLeft}`;
        names.push(fresh);
        void worker(world, fresh);
      }
    }
    if (!(await sim.step())) break;
    // Time passes while nobody runs, so that no lease of a living worker runs out.
    if (world.running.size === 0 && sim.steps % 40 === 0) sim.passed += 60;
    if (sim.steps % 200 === 0 && world.running.size === 0) {
      const idle = enqueuing.every(({ actor, done }) => done || sim.dead.has(actor));
      const open = await left();
      if (idle && open.length === 0) break;
      if (idle && open.every(({ record }) => record.state === "claimed")) sim.passed += LEASE_MS * 2;
    }
    if (sim.steps > MOST_STEPS) {
      world.problems.push(
        `stuck: ${JSON.stringify((await left()).map(({ record }) => [record.key, record.state, record.terms]))}`,
      );
      break;
    }
  }
  for (const name of [...names, "r0", "r1"]) sim.kill(name);
  const unplaced = (await left()).filter(({ record }) => isUnplaced(record));
  return { ...world, begun: world.begun, problems: world.problems, unplaced };
}

it("within an order one at a time, in the order of enqueues, and nothing is stuck", async () => {
  const keys = fc.array(fc.constantFrom("a", "b", "c", "d", "e", "f", "g"), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { minLength: 50, maxLength: 200 }),
      fc.array(keys, { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 0, max: 4 }),
      async (numbers, enqueuers, workers, kills) => {
        const { problems, unplaced } = await play(numbers, enqueuers, workers, kills);
        expect(problems).toEqual([]);
        expect(unplaced).toEqual([]);
      },
    ),
    { numRuns: Number(process.env.NEVERTWICE_RUNS ?? 150), endOnFailure: true },
  );
}, 170_000);
