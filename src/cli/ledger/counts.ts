/** How many intents of what kind are in the ledger: its notes, and further keys of one intent, are none. */
import { ALIAS_AGENT } from "../../core/key/formerly.ts";
import { isNote } from "../../core/note.ts";
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
  const counts = withoutNotes(await store.stats({ ...onlyOf(tenant), ...(waiting && { waiting }) }));
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

/** Notes are settled: they are counted as confirmed, and nowhere else. */
function withoutNotes(counts: LedgerStats): LedgerStats {
  const notes = counts.actions.filter(({ action }) => isNote(action)).reduce((sum, { total }) => sum + total, 0);
  return { ...fewer(counts, notes), actions: counts.actions.filter(({ action }) => !isNote(action)) };
}

function withoutAliases(counts: LedgerStats, aliases: ReadonlyMap<string, number>): LedgerStats {
  const all = [...aliases.values()].reduce((sum, count) => sum + count, 0);
  const actions = counts.actions.map((one) => fewer(one, aliases.get(one.action) ?? 0));
  return { ...fewer(counts, all), actions: actions.filter(({ total }) => total > 0) };
}

/** By so many that are confirmed. */
function fewer<C extends Pick<LedgerStats, "total" | "states">>(of: C, by: number): C {
  // Counted a moment apart, or estimated.
  const less = Math.min(by, of.states.confirmed);
  return { ...of, total: of.total - less, states: { ...of.states, confirmed: of.states.confirmed - less } };
}

export function emptyStats(): LedgerStats {
  return { total: 0, states: noStates(), actions: [], lapsed: 0, oldestPendingAt: null, oldestUnknownAt: null };
}

function noStates(): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
}
