/** Doubts with the same cause, put together and counted. */
import { type DoubtCause, doubtBegan, kindOfDoubt } from "../../core/doubt-cause.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { Store } from "../../core/store.ts";
import { type DoubtQuery, pagesOfDoubts } from "../../engine/doubt-pages.ts";

export interface DoubtGroup extends DoubtCause {
  readonly count: number;
  /** When its oldest doubt began. */
  readonly since: number;
  /** The oldest of them, to look at. */
  readonly example: { readonly key: string; readonly why: string | null };
}

// Errors that all differ would fill the memory; nobody reads ten thousand groups.
const MOST_GROUPS = 10_000;

/** Counts records by cause. Of each group it keeps an example's key, and no record. */
export class DoubtGroups {
  readonly #groups = new Map<string, DoubtGroup>();
  counted = 0;
  /** Doubts of further causes than are kept. */
  beyond = 0;

  add(record: LedgerRecord): void {
    this.counted += 1;
    const kind = kindOfDoubt(record);
    const known = this.#groups.get(kind.id);
    if (known === undefined && this.#groups.size >= MOST_GROUPS) {
      this.beyond += 1;
      return;
    }
    const began = doubtBegan(record);
    const isOldest = known === undefined || began < known.since;
    this.#groups.set(kind.id, {
      ...kind,
      count: (known?.count ?? 0) + 1,
      since: isOldest ? began : known.since,
      example: isOldest ? { key: record.key, why: record.why } : known.example,
    });
  }

  /** The largest first; of the same size always in the same order. */
  list(): DoubtGroup[] {
    const order = (a: string, b: string) => (a < b ? -1 : Number(a > b));
    return [...this.#groups.values()].sort(
      (a, b) =>
        b.count - a.count || order(a.action, b.action) || order(a.error, b.error) || order(a.step ?? "", b.step ?? ""),
    );
  }
}

export interface Grouped {
  readonly groups: readonly DoubtGroup[];
  readonly counted: number;
  /** Doubts of further causes than are listed. */
  readonly beyond: number;
  /** Whether every doubt was counted. */
  readonly all: boolean;
}

/** `most`: about so many doubts are read. `skips`: which records are no decision of anybody's, and not counted. */
export async function groupDoubts(
  store: Store,
  query: DoubtQuery,
  {
    most = Number.POSITIVE_INFINITY,
    progress = () => {},
    skips = () => false,
  }: { most?: number; progress?: (counted: number) => void; skips?: (record: LedgerRecord) => boolean } = {},
): Promise<Grouped> {
  const groups = new DoubtGroups();
  let all = true;
  for await (const { items } of pagesOfDoubts((one) => store.list(one), query)) {
    if (groups.counted >= most) {
      all = items.length === 0;
      if (!all) break;
    }
    for (const { record } of items) if (!skips(record)) groups.add(record);
    progress(groups.counted);
  }
  return { groups: groups.list(), counted: groups.counted, beyond: groups.beyond, all };
}
