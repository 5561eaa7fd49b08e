/** The last results as one environment variable: the newest first, and as many as fit. */
import type { LedgerRecord } from "../../core/record.ts";
import type { Store } from "../../core/store.ts";
import { type RecentQuery, recentResults } from "../recent-results.ts";
import { MOST_VARIABLE_BYTES } from "./plan.ts";

export async function recentVariable(store: Store, query: RecentQuery): Promise<string> {
  const results = query.count === 0 ? [] : await recentResults(store, plainResult, query);
  const texts = results.map((result) => JSON.stringify(result));
  let bytes = 2;
  const fitting: string[] = [];
  for (const text of texts) {
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > MOST_VARIABLE_BYTES) break;
    fitting.push(text);
  }
  return `[${fitting.join(",")}]`;
}

/** A sealed result, or one that was not kept, is not for a command without the key. */
function plainResult({ result }: LedgerRecord): unknown {
  return result !== null && "json" in result ? JSON.parse(result.json) : undefined;
}
