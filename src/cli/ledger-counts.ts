/** How much of what is in the ledger: the store's own count, or one tenant's, page by page. */
import { STATES, type State } from "../core/record.ts";
import { statsOf } from "../core/scan.ts";
import { type ActionStats, instantOf, type LedgerStats, type Store } from "../core/store.ts";

const PAGE = 500;

export async function countLedger(store: Store, tenant: string | undefined): Promise<LedgerStats> {
  if (tenant === undefined) return store.stats();
  let counted = emptyStats();
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Store["list"]>> = await store.list({
      tenant,
      limit: PAGE,
      ...(cursor !== null && { cursor }),
    });
    counted = added(counted, statsOf(page.items, instantOf(store)));
    cursor = page.cursor;
  } while (cursor !== null);
  return counted;
}

export function emptyStats(): LedgerStats {
  return { total: 0, states: noStates(), actions: [], lapsed: 0, oldestPendingAt: null, oldestUnknownAt: null };
}

function noStates(): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
}

function added(a: LedgerStats, b: LedgerStats): LedgerStats {
  const actions = new Map<string, ActionStats>();
  for (const one of [...a.actions, ...b.actions]) {
    const before = actions.get(one.action);
    const states = before === undefined ? one.states : addedStates(before.states, one.states);
    actions.set(one.action, { action: one.action, total: (before?.total ?? 0) + one.total, states });
  }
  return {
    total: a.total + b.total,
    states: addedStates(a.states, b.states),
    actions: [...actions.values()],
    lapsed: a.lapsed + b.lapsed,
    oldestPendingAt: earlier(a.oldestPendingAt, b.oldestPendingAt),
    oldestUnknownAt: earlier(a.oldestUnknownAt, b.oldestUnknownAt),
  };
}

function addedStates(a: Readonly<Record<State, number>>, b: Readonly<Record<State, number>>): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, a[state] + b[state]])) as Record<State, number>;
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b);
}
