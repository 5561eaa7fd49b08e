/**
 * Work over every row of a ledger in memory, a slice at a time. The event loop turns between two slices, so that looking at
 * a large ledger does not stop the calls of the program it lies in.
 */
import { setImmediate } from "../../engine/real-timers.ts";
import { SweepPlaces } from "./bounded-map.ts";

// Some milliseconds of work.
const SLICE_ROWS = 5_000;

/** The iterator may be one over a Map that changes meanwhile: what is removed is passed over, what is added comes last. */
export async function eachInSlices<R>(rows: Iterable<R>, visit: (row: R) => void): Promise<void> {
  let left = SLICE_ROWS;
  for (const row of rows) {
    visit(row);
    left -= 1;
    if (left > 0) continue;
    left = SLICE_ROWS;
    await nextTurn();
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((done) => setImmediate(done));
}

// A timer is this late at most, as one would be behind a slow function of the program's own.
const LOOP_SHARE_MS = 25;

/**
 * How long work has been done on the event loop since it last turned. A store that answers at once lets a row of awaited
 * calls go on without a turn, and no timer, heartbeat or request of the program would come in before its end.
 */
export class LoopShare {
  #since: number | null = null;

  /** True: wait for the next turn first. */
  isSpent(now: number): boolean {
    if (this.#since !== null) return now - this.#since > LOOP_SHARE_MS;
    this.#since = now;
    setImmediate(() => {
      this.#since = null;
    });
    return false;
  }
}

/**
 * Goes round all rows, a part at a time. Each tenant has a position of its own: with one for all, what one tenant's sweep
 * has passed another's would not look at.
 */
export class Rotations<R> {
  readonly #all: () => Iterator<R>;
  readonly #positions = new SweepPlaces<Iterator<R>>();

  constructor(all: () => Iterator<R>) {
    this.#all = all;
  }

  /**
   * Up to `most` wanted rows, of up to `look` rows that are looked at. `end`: the last row of the round was among them; the
   * next call begins a new round. `thorough`: a call that began in the middle of a round goes on with a whole one, in which
   * rows of the first may come again.
   */
  async next(
    tenant: string | undefined,
    { look, most, wanted, thorough }: { look: number; most: number; wanted: (row: R) => boolean; thorough: boolean },
  ): Promise<{ rows: R[]; end: boolean }> {
    let whole = !this.#positions.has(tenant);
    const rows: R[] = [];
    for (let looked = 1; (thorough || looked <= look) && rows.length < most; looked += 1) {
      const { value, done } = this.#position(tenant).next();
      if (looked % SLICE_ROWS === 0) await nextTurn();
      if (!done) {
        if (wanted(value)) rows.push(value);
        continue;
      }
      this.#positions.delete(tenant);
      if (whole || !thorough) return { rows, end: true };
      whole = true;
    }
    return { rows, end: false };
  }

  #position(tenant: string | undefined): Iterator<R> {
    let position = this.#positions.get(tenant);
    if (position === undefined) {
      position = this.#all();
      this.#positions.set(tenant, position);
    }
    return position;
  }
}
