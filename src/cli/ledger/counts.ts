/** How much of what is in the ledger. */
import { ALIAS_AGENT } from "../../core/key/formerly.ts";
import { STATES, type State } from "../../core/record.ts";
import type { LedgerStats, Page, Store } from "../../core/store.ts";
import { onlyOf } from "../../engine/tenancy.ts";

const PAGE = 1_000;

/** `waiting`: only what waits for somebody (see StatsQuery). */
export async function countLedger(
  store: Store,
  tenant: string | undefined,
  { waiting = false }: { readonly waiting?: boolean } = {},
): Promise<LedgerStats> {
  const counts = await store.stats({ ...onlyOf(tenant), ...(waiting && { waiting }) });
  // No alias waits for anybody.
  return waiting || counts.states.confirmed === 0 ? counts : withoutAliases(counts, await aliasesIn(store, tenant));
}

/** K10: an alias is another key of an intent that is counted already. By action. */
async function aliasesIn(store: Store, tenant: string | undefined): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  let cursor: string | null = null;
  do {
    const from: { cursor?: string } = cursor === null ? {} : { cursor };
    const query = { limit: PAGE, states: ["confirmed"], agent: ALIAS_AGENT, ...onlyOf(tenant), ...from } as const;
    const page: Page = await store.list(query);
    for (const { record } of page.items) found.set(record.action, (found.get(record.action) ?? 0) + 1);
    cursor = page.cursor;
  } while (cursor !== null);
  return found;
}

function withoutAliases(counts: LedgerStats, aliases: ReadonlyMap<string, number>): LedgerStats {
  const less = <C extends Pick<LedgerStats, "total" | "states">>(of: C, by: number): C => {
    // Counted a moment apart.
    const fewer = Math.min(by, of.states.confirmed);
    return { ...of, total: of.total - fewer, states: { ...of.states, confirmed: of.states.confirmed - fewer } };
  };
  const all = [...aliases.values()].reduce((sum, count) => sum + count, 0);
  const actions = counts.actions.map((one) => less(one, aliases.get(one.action) ?? 0));
  return { ...less(counts, all), actions: actions.filter(({ total }) => total > 0) };
}

export function emptyStats(): LedgerStats {
  return { total: 0, states: noStates(), actions: [], lapsed: 0, oldestPendingAt: null, oldestUnknownAt: null };
}

function noStates(): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
}
