/** How much of what is in the ledger. */
import { STATES, type State } from "../core/record.ts";
import type { LedgerStats, Store } from "../core/store.ts";
import { onlyOf } from "../engine/tenancy.ts";

/** `waiting`: only what waits for somebody (see StatsQuery). */
export function countLedger(
  store: Store,
  tenant: string | undefined,
  { waiting = false }: { readonly waiting?: boolean } = {},
): Promise<LedgerStats> {
  return store.stats({ ...onlyOf(tenant), ...(waiting && { waiting }) });
}

export function emptyStats(): LedgerStats {
  return { total: 0, states: noStates(), actions: [], lapsed: 0, oldestPendingAt: null, oldestUnknownAt: null };
}

function noStates(): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
}
