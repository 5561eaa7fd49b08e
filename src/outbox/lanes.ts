/**
 * Limits per destination that hold across processes: the state of each destination is a note in the ledger, swapped by
 * whoever wants in or gets out. Wishes of one process for one destination share a swap.
 */
import { NevertwiceError } from "../core/errors.ts";
import { deriveKey } from "../core/key.ts";
import { type NoteName, readNote, writeNote } from "../core/ledger-note.ts";
import { askLane, EMPTY_LANE, type LaneAnswer, type LaneState, type Limit, leaveLane } from "../core/limit.ts";
import { instantOf, type Store, type Stored } from "../core/store.ts";

// A destination nobody has asked for this long has nothing worth remembering.
const KEEP_MS = 3_600_000;
const MAX_SWAPS = 256;

interface Wish {
  readonly id: string;
  readonly holdMs: number;
  readonly resolve: (answer: LaneAnswer) => void;
  readonly reject: (error: unknown) => void;
}

interface Lane {
  readonly name: NoteName;
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
  readonly destination: string;
}

export class Lanes {
  readonly #store: Store;
  readonly #secret: string | Uint8Array | undefined;
  readonly #lanes = new Map<string, Lane>();

  constructor(store: Store, secret: string | Uint8Array | undefined) {
    this.#store = store;
    this.#secret = secret;
  }

  enter(name: LaneName, limit: Limit, wish: { readonly id: string; readonly holdMs: number }): Promise<LaneAnswer> {
    const lane = this.#lane(name, limit);
    return new Promise((resolve, reject) => {
      lane.wishes.push({ ...wish, resolve, reject });
      this.#soon(lane);
    });
  }

  /** Not waited for by whoever leaves: a slot that is given back late only keeps others waiting. */
  leave(name: LaneName, limit: Limit, id: string, tookMs: number): void {
    if (limit.concurrency === null) return;
    const lane = this.#lane(name, limit);
    lane.leaving.push({ id, tookMs });
    this.#soon(lane);
  }

  /** Until every slot is given back. */
  async settled(): Promise<void> {
    while (this.#lanes.size > 0) await new Promise((done) => setTimeout(done, 5));
  }

  #lane({ tenant, action, destination }: LaneName, limit: Limit): Lane {
    const id = JSON.stringify([tenant, action, destination]);
    let lane = this.#lanes.get(id);
    if (lane === undefined) {
      const parts = [action, destination === "" ? "(all)" : destination];
      const identity = { tenant, action: "nevertwice.limit", version: 1, scope: null, parts, secret: this.#secret };
      const name = { key: deriveKey(identity), tenant, action: identity.action, keepMs: KEEP_MS };
      lane = { name, limit, wishes: [], leaving: [], seen: null, busy: false };
      this.#lanes.set(id, lane);
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
        // A slot that could not be given back is free when its time is over.
        for (const wish of wishes) wish.reject(error);
      }
    }
    lane.busy = false;
    for (const [id, one] of this.#lanes) if (one === lane) this.#lanes.delete(id);
  }

  async #swap(lane: Lane, wishes: readonly Wish[], leaving: Lane["leaving"]): Promise<readonly LaneAnswer[]> {
    if (lane.seen === null) [lane.seen = null] = await this.#store.read([lane.name.key]);
    for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
      const at = instantOf(this.#store);
      const before = stateOf(readNote(lane.seen?.record ?? null, at));
      const tookMs = leaving.length === 0 ? null : leaving.reduce((sum, one) => sum + one.tookMs, 0) / leaving.length;
      const freed = leaveLane(before, new Set(leaving.map(({ id }) => id)), tookMs);
      const { state, answers } = askLane(freed, lane.limit, wishes, at);
      const record = writeNote(lane.seen?.record ?? null, lane.name, JSON.stringify(state), at);
      const [result] = await this.#store.write([{ record, expected: lane.seen?.version ?? null }]);
      if (result?.ok) {
        lane.seen = { record, version: result.version };
        return answers;
      }
      lane.seen = result?.current ?? null;
    }
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the limit of ${lane.name.action} changed ${MAX_SWAPS} times under one worker; its work is put back and tried later.`,
    );
  }
}

function stateOf(json: string | null): LaneState {
  return json === null ? EMPTY_LANE : { ...EMPTY_LANE, ...(JSON.parse(json) as Partial<LaneState>) };
}
