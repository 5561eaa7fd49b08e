import fc from "fast-check";
import { expect, it } from "vitest";
import { type KeptSlots, knownFrom, withRun } from "./keep-steps.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START: KeptSlots = { steps: [{ since: null, keepMs: 2 * DAY }], ahead: null };

type Step =
  | { readonly do: "pass"; readonly ms: number }
  /** The process asks for the slot of so many slots ago (below 0: ahead of its instant). */
  | { readonly do: "ask"; readonly process: number; readonly slotsAgo: number }
  /** The process runs what it asked for last. */
  | { readonly do: "run"; readonly process: number };

const KEEPS: readonly (number | null)[] = [2 * DAY, 3 * DAY, 5 * DAY, 12 * DAY, 40 * DAY, null];
const SLOT = DAY / 2;
const PROCESSES = 4;
const process = fc.nat(PROCESSES - 1);

function pass(most: number) {
  return fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: most }) });
}

const step: fc.Arbitrary<Step> = fc.oneof(
  pass(HOUR / 4),
  pass(3 * DAY),
  pass(50 * DAY),
  fc.record({ do: fc.constant("ask" as const), process, slotsAgo: fc.integer({ min: -6, max: 8 }) }),
  fc.record({ do: fc.constant("ask" as const), process, slotsAgo: fc.constant(0) }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant("run" as const), process }) },
);

/** A ledger with the note of one job, and processes that keep nothing in memory: each call is as after a restart. */
class World {
  now = 1_000 * DAY;
  kept: KeptSlots;
  /** When the record of a slot that is done expires. */
  readonly expiry = new Map<number, number>();
  readonly keeps: readonly (number | null)[];
  readonly #asked = new Map<number, { slot: number; at: number }>();

  constructor(keeps: readonly (number | null)[]) {
    this.keeps = keeps;
    this.kept = { steps: [{ since: null, keepMs: keeps[0] as number | null }], ahead: null };
  }

  take(step: Step): void {
    if (step.do === "pass") this.now += step.ms;
    else if (step.do === "ask") this.#ask(step.process, (Math.floor(this.now / SLOT) - step.slotsAgo) * SLOT);
    else this.#run(step.process);
  }

  /** Done, without a record, and yet within what some process would take for known. */
  takenForNew(): number[] {
    const gone = [...this.expiry].filter(([, expiresAt]) => expiresAt <= this.now).map(([slot]) => slot);
    const asking = this.keeps.map((keepMs) => withRun(this.kept, { keepMs, at: this.now, now: this.now }));
    return gone.filter((slot) => asking.some((kept) => slot >= knownFrom(kept, this.now)));
  }

  #keepOf(process: number): number | null {
    return this.keeps[process % this.keeps.length] as number | null;
  }

  #ask(process: number, slot: number): void {
    const kept = withRun(this.kept, { keepMs: this.#keepOf(process), at: slot, now: this.now });
    this.kept = JSON.parse(JSON.stringify(kept)) as KeptSlots;
    if (slot >= knownFrom(this.kept, this.now)) this.#asked.set(process, { slot, at: this.now });
    else this.#asked.delete(process);
  }

  #run(process: number): void {
    const asked = this.#asked.get(process);
    // The claim follows the answer within a moment.
    if (asked === undefined || this.now - asked.at > HOUR / 2 || this.expiry.has(asked.slot)) return;
    const keepMs = this.#keepOf(process) ?? Number.POSITIVE_INFINITY;
    // As the engine does: a slot that is run ahead is kept from its instant on.
    this.expiry.set(asked.slot, Math.max(this.now, asked.slot) + keepMs);
  }
}

it("no finished slot is taken for one that never ran, whatever keeps processes have and however they alternate", () => {
  const keeps = fc.array(fc.constantFrom(...KEEPS), { minLength: 1, maxLength: PROCESSES });
  fc.assert(
    fc.property(keeps, fc.array(step, { maxLength: 60, size: "max" }), (all, steps) => {
      const world = new World(all);
      for (const one of steps) {
        world.take(one);
        expect(world.takenForNew()).toEqual([]);
      }
    }),
    { numRuns: 3_000 },
  );
});

it("with one keep everything within it is known", () => {
  fc.assert(
    fc.property(fc.integer({ min: HOUR, max: 400 * DAY }), fc.integer({ min: 0, max: 400 * DAY }), (keepMs, now) => {
      const kept: KeptSlots = { steps: [{ since: null, keepMs }], ahead: null };
      expect(withRun(kept, { keepMs, at: now, now })).toBe(kept);
      expect(knownFrom(kept, now)).toBe(now - keepMs + Math.min(HOUR, keepMs / 8));
    }),
  );
});

it("a longer keep counts for the slots after the change; those before it move out of what is known one by one", () => {
  const now = 1_000 * DAY;
  const kept = withRun(START, { keepMs: 10 * DAY, at: now, now });
  const known = (days: number) => (knownFrom(kept, now + days * DAY) - now) / DAY;
  expect(known(0)).toBeCloseTo(-2, 0);
  expect(known(1)).toBeCloseTo(-1, 0);
  // From the change on until the longer keep is over too.
  expect([3, 5, 9].map(known)).toEqual([1 / 24, 1 / 24, 1 / 24]);
  expect(known(12)).toBeCloseTo(2, 0);
});

it("two keeps that take turns come to know the shorter of them, and no less", () => {
  let now = 1_000 * DAY;
  let kept = START;
  for (let turn = 0; turn < 40; turn += 1) {
    kept = withRun(kept, { keepMs: (turn % 2 === 0 ? 5 : 9) * DAY, at: now, now });
    now += DAY;
  }
  expect(knownFrom(kept, now)).toBeLessThanOrEqual(now - 5 * DAY + HOUR);
  expect(kept.steps.length).toBeLessThanOrEqual(16);
});
