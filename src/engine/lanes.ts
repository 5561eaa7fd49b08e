/**
 * Limits per destination that hold across processes: the state of each destination is a note in the ledger, swapped by
 * whoever wants in or gets out. Wishes of one process for one destination share a swap.
 */
import { messageOf, NevertwiceError } from "../core/errors.ts";
import { deriveKey } from "../core/key/key.ts";
import { askLane, type LaneAnswer, type Limit, laneMemoryMs, leaveLane, readLane } from "../core/limit.ts";
import { type NoteName, readNote, writeNote } from "../core/note.ts";
import { unstorableIn } from "../core/storable-text.ts";
import { instantOf, type Store, type Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { Call } from "./call.ts";
import { setImmediate, setTimeout } from "./real-timers.ts";

const MAX_SWAPS = 256;
const NOTE_ACTION = "nevertwice.limit";

interface Wish {
  readonly id: string;
  readonly holdMs: number;
  readonly resolve: (answer: LaneAnswer) => void;
  readonly reject: (error: unknown) => void;
}

interface Lane {
  readonly name: Omit<NoteName, "keepMs">;
  readonly limit: Limit;
  wishes: Wish[];
  leaving: { readonly id: string; readonly tookMs: number }[];
  /** As last seen: most swaps need no read. */
  seen: Stored | null;
  busy: boolean;
}

export interface LaneName {
  readonly tenant: string;
  readonly action: string;
  /** Null: all of the action share one limit. */
  readonly destination: string | null;
}

/** A destination whose name is known to be usable. */
export interface LaneKey {
  readonly key: string;
  readonly tenant: string;
}

/** The store, and who is to know of a note in it that cannot be read. */
export interface LaneLedger {
  readonly store: Store;
  reportDamage(error: unknown): void;
}

export class Lanes {
  readonly #ledger: LaneLedger;
  readonly #store: Store;
  readonly #secret: string | Uint8Array | undefined;
  readonly #lanes = new Map<string, Lane>();

  constructor(ledger: LaneLedger, secret: string | Uint8Array | undefined) {
    this.#ledger = ledger;
    this.#store = ledger.store;
    this.#secret = secret;
  }

  /** Throws where the destination is a text that no key can be made of. */
  keyOf({ tenant, action, destination }: LaneName): LaneKey {
    const parts = destination === null ? [action, "(all)"] : [action, "by", destination];
    const identity = { tenant, action: NOTE_ACTION, version: 1, scope: null, parts, secret: this.#secret };
    return { key: deriveKey(identity), tenant };
  }

  enter(name: LaneKey, limit: Limit, wish: { readonly id: string; readonly holdMs: number }): Promise<LaneAnswer> {
    const lane = this.#lane(name, limit);
    return new Promise((resolve, reject) => {
      lane.wishes.push({ ...wish, resolve, reject });
      this.#soon(lane);
    });
  }

  /** Not waited for by whoever leaves: a slot that is given back late only keeps others waiting. */
  leave(name: LaneKey, limit: Limit, id: string, tookMs: number): void {
    if (limit.concurrency === null) return;
    const lane = this.#lane(name, limit);
    lane.leaving.push({ id, tookMs });
    this.#soon(lane);
  }

  /** Until every slot is given back. */
  async settled(): Promise<void> {
    while (this.#lanes.size > 0) await new Promise((done) => setTimeout(done, 5));
  }

  #lane({ key, tenant }: LaneKey, limit: Limit): Lane {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      const name = { key, tenant, action: NOTE_ACTION };
      lane = { name, limit, wishes: [], leaving: [], seen: null, busy: false };
      this.#lanes.set(key, lane);
    }
    return lane;
  }

  #soon(lane: Lane): void {
    if (lane.busy) return;
    lane.busy = true;
    setImmediate(() => void this.#serve(lane));
  }

  async #serve(lane: Lane): Promise<void> {
    while (lane.wishes.length > 0 || lane.leaving.length > 0) {
      const wishes = lane.wishes;
      const leaving = lane.leaving;
      lane.wishes = [];
      lane.leaving = [];
      try {
        const answers = await this.#swap(lane, wishes, leaving);
        for (const [i, wish] of wishes.entries()) wish.resolve(answers[i] as LaneAnswer);
      } catch (error) {
        this.#ledger.reportDamage(error);
        // A slot that could not be given back is free when its time is over.
        for (const wish of wishes) wish.reject(error);
      }
    }
    lane.busy = false;
    this.#lanes.delete(lane.name.key);
  }

  async #swap(lane: Lane, wishes: readonly Wish[], leaving: Lane["leaving"]): Promise<readonly LaneAnswer[]> {
    if (lane.seen === null) [lane.seen = null] = await this.#store.read([lane.name.key]);
    for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
      const at = instantOf(this.#store);
      const before = readLane(readNote(lane.seen?.record ?? null, at));
      const tookMs = leaving.length === 0 ? null : leaving.reduce((sum, one) => sum + one.tookMs, 0) / leaving.length;
      const freed = leaveLane(before, new Set(leaving.map(({ id }) => id)), tookMs);
      const { state, answers } = askLane(freed, lane.limit, wishes, at);
      const name = { ...lane.name, keepMs: laneMemoryMs(state, lane.limit, at) };
      const record = writeNote(lane.seen?.record ?? null, name, JSON.stringify(state), at);
      const [result] = await this.#store.write([{ record, expected: lane.seen?.version ?? null }]);
      if (result?.ok) {
        lane.seen = { record, version: result.version };
        return answers;
      }
      lane.seen = result?.current ?? null;
    }
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the limit of ${lane.name.action} changed ${MAX_SWAPS} times under one write: try again later.`,
    );
  }
}

/** Whatever limit.by does, this either answers or throws an error that says what to correct. */
export function laneOf(
  lanes: Lanes,
  { definition: { name: action }, tenant, key, input }: Call,
  by: Limit["by"],
  advice: string,
): LaneKey {
  const refuse = (what: string, cause?: unknown) =>
    new NevertwiceError(
      "INVALID_INPUT",
      `${action}: limit.by ${what} for this input. It must return a string that is not blank. ${advice}`,
      { key, cause },
    );
  if (by === null) return lanes.keyOf({ tenant, action, destination: null });
  let destination: unknown;
  try {
    destination = by(input);
  } catch (error) {
    throw refuse(`threw (${toStoredError(error).message})`, error);
  }
  if (destination instanceof Promise) {
    destination.catch(() => {});
    throw refuse("returned a promise");
  }
  if (typeof destination !== "string" || destination.trim() === "") throw refuse("named no destination");
  const unstorable = unstorableIn(destination);
  if (unstorable !== null) throw refuse(`named a destination that cannot be kept (${unstorable})`);
  try {
    return lanes.keyOf({ tenant, action, destination });
  } catch (error) {
    throw refuse(`named a destination that cannot be stored (${messageOf(error)})`, error);
  }
}
