/**
 * How much waits in a ledger, counted truly: statistics know how many records are in doubt or failed, but not which of
 * them are slots and runs that are run again by their next call, nor which silent holders had sent. Only these are read.
 */
import { doubtBegan } from "../../core/doubt-cause.ts";
import { entryOf } from "../../core/entry-name.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type LedgerStats, type ListQuery, type Store } from "../../core/store.ts";
import { nextByItself } from "./next-by-itself.ts";

const PAGE = 1_000;
// Past this a number says no more than "many", and doctor is to be quick.
const MOST_READ = 10_000;

export interface Counted {
  readonly count: number;
  /** False: there may be more. */
  readonly all: boolean;
}

export async function silentHolders(store: Store, own: Pick<ListQuery, "tenant">): Promise<Counted> {
  let count = 0;
  const all = await throughAll(store, { states: ["sent"], lapsed: true, ...own }, () => {
    count += 1;
  });
  return { count, all };
}

interface RunAgain {
  readonly unknown: number;
  readonly failed: number;
  readonly all: boolean;
  /** Since when the oldest of those that are held for a decision is in doubt. */
  readonly heldSince: number | null;
}

/** Slots and runs in doubt or failed that are run again by their next call. */
export async function runAgain(
  store: Store,
  { actions }: LedgerStats,
  own: Pick<ListQuery, "tenant">,
): Promise<RunAgain> {
  const found = { unknown: 0, failed: 0, all: true, heldSince: null as number | null };
  const at = instantOf(store);
  for (const { action, states } of actions) {
    if (!isContainer(action) || states.unknown + states.failed === 0) continue;
    const query = { action, states: ["unknown", "failed"], ...own } as const;
    found.all &&= await throughAll(store, query, (record) => {
      if (nextByItself(record, at) !== null) found[record.state as "unknown" | "failed"] += 1;
      else if (record.state === "unknown") found.heldSince = earlier(found.heldSince, doubtBegan(record));
    });
  }
  return found;
}

// Of each the first record is read.
const MOST_ACTIONS = 100;

/** Since when the oldest doubt waits that somebody has to decide about. */
export async function oldestDoubt(
  store: Store,
  { actions, oldestUnknownAt }: LedgerStats,
  { unknown, heldSince }: RunAgain,
  own: Pick<ListQuery, "tenant">,
): Promise<number | null> {
  if (unknown === 0) return oldestUnknownAt;
  let since = heldSince;
  const inDoubt = actions.filter(({ action, states }) => states.unknown > 0 && !isContainer(action));
  for (const { action } of inDoubt.slice(0, MOST_ACTIONS)) {
    const { items } = await store.list({ action, states: ["unknown"], order: "oldest", limit: 1, ...own });
    for (const { record } of items) since = earlier(since, doubtBegan(record));
  }
  return since;
}

function earlier(one: number | null, other: number): number {
  return one === null ? other : Math.min(one, other);
}

/** Those that `nextByItself` knows. */
function isContainer(action: string): boolean {
  const { kind } = entryOf(action);
  return kind === "job" || kind === "plan" || kind === "run";
}

/** False: it ended before the last record. */
async function throughAll(
  store: Store,
  query: Omit<ListQuery, "limit" | "cursor">,
  see: (record: LedgerRecord) => void,
): Promise<boolean> {
  let cursor: string | null = null;
  for (let read = 0; read < MOST_READ; read += PAGE) {
    const from: { cursor?: string } = cursor === null ? {} : { cursor };
    const page: Awaited<ReturnType<Store["list"]>> = await store.list({ ...query, limit: PAGE, ...from });
    for (const { record } of page.items) see(record);
    cursor = page.cursor;
    if (cursor === null) return true;
  }
  return false;
}
