/**
 * How much a test tries. `npm test` tries a sample that another day chooses anew; `npm run test:long` tries everything. What was
 * tried is counted, and shown when the run ends (tally.ts).
 */
import { appendFileSync } from "node:fs";

export const isLong = process.env.NEVERTWICE_TESTS === "long";

/** What the sample of this run is chosen by. The end of the run names it. */
export const sampleSeed = Number(process.env.NEVERTWICE_TEST_SEED ?? 0);

/**
 * @template T
 * @param {T} short
 * @param {T} long
 * @returns {T}
 */
export function effort(short, long) {
  return isLong ? long : short;
}

/** mulberry32: small, seeded, good enough to choose moments by. */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/**
 * So many of the items in the short command, all of them in the long one. In their order.
 * @template T
 * @param {readonly T[]} items
 * @param {number} most
 * @returns {T[]}
 */
export function sample(items, most) {
  if (isLong || items.length <= most) return [...items];
  const random = seeded(sampleSeed + items.length);
  const chosen = new Set();
  while (chosen.size < most) chosen.add(Math.floor(random() * items.length));
  return items.filter((_, at) => chosen.has(at));
}

/** @typedef {"processes killed" | "histories checked" | "power losses" | "faults injected" | "frameworks" | "versions of TypeScript" | "runtimes"} Tried */

/**
 * Counts what was tried, over all files and processes of the run.
 * @param {Tried} what
 * @param {number} [many]
 */
export function tried(what, many = 1) {
  const tally = process.env.NEVERTWICE_TALLY;
  if (tally !== undefined && many > 0) appendFileSync(tally, `${many} ${what}\n`);
}
