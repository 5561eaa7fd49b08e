/** All doubts of a ledger, page by page: first the holders that fell silent, then `unknown`. Each has its own index. */
import type { ListQuery, Page, Stored } from "../core/store.ts";

export type DoubtQuery = Omit<ListQuery, "cursor" | "states" | "lapsed" | "limit">;

const PAGE = 200;

export async function* pagesOfDoubts(
  list: (query: ListQuery) => Promise<Page>,
  query: DoubtQuery,
): AsyncIterable<Pick<Page, "items" | "damaged">> {
  // A sweep may write a silent holder's doubt down in between: it would come twice. There are few of them at any time.
  const silent = new Set<string>();
  const isNew = ({ record }: Stored) => !silent.has(record.key);
  for (const which of [{ states: ["sent"], lapsed: true }, { states: ["unknown"] }] as const) {
    let cursor: string | null = null;
    do {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const page: Page = await list({ ...query, ...which, limit: PAGE, ...from });
      yield { ...page, items: page.items.filter(isNew) };
      if ("lapsed" in which) for (const { record } of page.items) silent.add(record.key);
      cursor = page.cursor;
    } while (cursor !== null);
  }
}
