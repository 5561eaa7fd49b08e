/** Counting records for `stats`: one shape and one order for all stores. */
import { STATES, type State } from "../../core/record.ts";
import type { ActionStats, LedgerStats } from "../../core/store.ts";

type Counts = { total: number; states: Record<State, number> };

export class Tally {
  readonly #all = none();
  readonly #actions = new Map<string, Counts>();

  add(action: string, state: State, count = 1): void {
    if (count === 0) return;
    const one = this.#actions.get(action) ?? none();
    this.#actions.set(action, one);
    for (const counts of [one, this.#all]) {
      counts.total += count;
      // The state of a damaged row may be none that there is.
      if (Object.hasOwn(counts.states, state)) counts.states[state] += count;
    }
  }

  /** The most frequent action first. */
  stats(rest: Pick<LedgerStats, "lapsed" | "oldestPendingAt" | "oldestUnknownAt">): LedgerStats {
    const actions: ActionStats[] = [...this.#actions].map(([action, one]) => ({ action, ...one }));
    actions.sort((a, b) => b.total - a.total || (a.action < b.action ? -1 : 1));
    return { ...this.#all, actions, ...rest };
  }
}

function none(): Counts {
  return { total: 0, states: Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number> };
}
