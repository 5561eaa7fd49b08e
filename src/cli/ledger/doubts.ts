/** The doubts of a ledger: records that may or may not have happened, page by page on any store. */
import type { DamagedRecord } from "../../core/damaged-record.ts";
import type { ListQuery, Page, Store, Stored } from "../../core/store.ts";
import { UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

export type DoubtFilter = Omit<ListQuery, "cursor" | "states" | "lapsed">;

// A doubt's page comes from two lists, each with its own index: first the holders that fell silent, then `unknown`.
const SILENT = "silent";
const UNKNOWN = "unknown";

export async function doubts(store: Store, filter: DoubtFilter, cursor: string | undefined): Promise<Page> {
  const [list, at] = splitCursor(cursor);
  const items: Stored[] = [];
  const damaged: DamagedRecord[] = [];
  const found = () => (damaged.length === 0 ? {} : { damaged });
  if (list === SILENT) {
    const page = await store.list({ ...filter, states: ["sent"], lapsed: true, ...(at !== "" && { cursor: at }) });
    items.push(...page.items);
    damaged.push(...(page.damaged ?? []));
    if (page.cursor !== null) return { items, cursor: `${SILENT}.${page.cursor}`, ...found() };
  }
  const left = filter.limit - items.length;
  const from = list === UNKNOWN && at !== "" ? { cursor: at } : {};
  const page = await store.list({ ...filter, limit: Math.max(1, left), states: ["unknown"], ...from });
  if (left === 0) return { items, cursor: page.items.length > 0 ? `${UNKNOWN}.` : null, ...found() };
  damaged.push(...(page.damaged ?? []));
  const more = page.cursor === null ? null : `${UNKNOWN}.${page.cursor}`;
  return { items: [...items, ...page.items], cursor: more, ...found() };
}

export function splitCursor(cursor: string | undefined): readonly [list: string, at: string] {
  if (cursor === undefined) return [SILENT, ""];
  const match = /^(silent|unknown)\.(.*)$/s.exec(cursor);
  if (match) return [match[1] as string, match[2] as string];
  throw new UsageError(`--cursor ${oneLine(cursor)} is not the cursor of an earlier page of ls --doubt.`);
}
