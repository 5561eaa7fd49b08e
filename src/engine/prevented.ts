/**
 * Calls that were answered from the ledger instead of being run: counted in memory, so that a repeat costs no write, and added to
 * a note in the ledger by the background sweep, by sweep() and when the program closes.
 */
import { randomUUID } from "node:crypto";
import { entryOf } from "../core/entry-name.ts";
import { isNote } from "../core/note.ts";
import {
  addPrevented,
  dayOf,
  HOUR_MS,
  type HourCount,
  type PreventedCause,
  type PreventedCount,
  type PreventedWrite,
  preventedKey,
} from "../core/prevented.ts";
import type { OfTool } from "./call.ts";
import type { Ledger } from "./ledger.ts";

/** The call that was answered. */
export interface Counted {
  readonly definition: { readonly name: string };
  readonly tenant: string;
  readonly key: string;
  readonly ofTool?: OfTool;
}

interface Pending {
  readonly hours: Map<number, HourCount>;
  key: string;
}

type Causes = Map<PreventedCause, Pending>;

// Between two sweeps. Names and tenants may be made at call time; what is more is not counted.
const MOST_PENDING = 10_000;
const MOST_SWAPS = 16;

export class PreventedCounts {
  readonly #ledger: Ledger;
  /** By tenant and action. */
  #pending = new Map<string, Map<string, Causes>>();
  #size = 0;
  /** With the ids of their first try: a reply may have been lost. */
  #unwritten: PreventedWrite[] = [];
  #flushing: Promise<void> | null = null;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  count({ definition: { name }, tenant, key, ofTool = {} }: Counted, cause: PreventedCause): void {
    const { observed, tally } = ofTool;
    if (tally !== undefined) {
      tally.cause = cause;
      return;
    }
    const at = this.#ledger.instant().now;
    const pending = this.#of(tenant, name, cause, key);
    if (pending === null) return;
    pending.key = key;
    const hour = Math.floor(at / HOUR_MS);
    const known = pending.hours.get(hour);
    if (known === undefined) {
      pending.hours.set(hour, { prevented: observed ? 0 : 1, observed: observed ? 1 : 0, first: at, last: at });
      return;
    }
    if (observed) known.observed += 1;
    else known.prevented += 1;
    known.last = at;
  }

  #of(tenant: string, name: string, cause: PreventedCause, key: string): Pending | null {
    let actions = this.#pending.get(tenant);
    let causes = actions?.get(name);
    const known = causes?.get(cause);
    if (known !== undefined) return known;
    if (this.#size >= MOST_PENDING || isOwn(name)) return null;
    if (actions === undefined) {
      actions = new Map();
      this.#pending.set(tenant, actions);
    }
    if (causes === undefined) {
      causes = new Map();
      actions.set(name, causes);
    }
    this.#size += 1;
    const pending = { hours: new Map<number, HourCount>(), key };
    causes.set(cause, pending);
    return pending;
  }

  /** Never rejects: what could not be written is kept for the next time. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = null;
    });
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    const writes = [...this.#unwritten, ...this.#taken()];
    this.#unwritten = [];
    for (const [index, write] of writes.entries()) {
      try {
        if (!(await this.#write(write))) this.#unwritten.push(write);
      } catch {
        this.#unwritten.push(...writes.slice(index, index + MOST_PENDING));
        return;
      }
    }
  }

  #taken(): PreventedWrite[] {
    const taken = this.#pending;
    this.#pending = new Map();
    this.#size = 0;
    return [...taken].flatMap(([tenant, actions]) => {
      const counts = [...actions].flatMap(([action, causes]) =>
        [...causes].map(([cause, pending]): PreventedCount => ({ action, cause, ...pending })),
      );
      const days = new Set(counts.flatMap(({ hours }) => [...hours.keys()].map((hour) => dayOf(hour * HOUR_MS))));
      return [...days].map((day) => ({ tenant, day, id: randomUUID(), counts }));
    });
  }

  async #write(write: PreventedWrite): Promise<boolean> {
    let stored = await this.#ledger.read(preventedKey(write.tenant, write.day));
    for (let swap = 0; swap < MOST_SWAPS; swap += 1) {
      const record = addPrevented(stored?.record ?? null, write, this.#ledger.instant());
      if (record === null) return true;
      const result = await this.#ledger.put({ record, expected: stored?.version ?? null });
      if (result.ok) return true;
      stored = result.current;
    }
    return false;
  }
}

/** What jobs and the ledger look up for themselves is nobody's duplicate. */
function isOwn(action: string): boolean {
  return isNote(action) || entryOf(action).kind === "plan";
}
