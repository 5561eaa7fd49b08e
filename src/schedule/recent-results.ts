/** What a job's last slots resulted in, for code and for commands alike: what not to repeat. */
import type { Store } from "../core/store.ts";
import type { Payloads } from "../engine/payloads.ts";
import { jobAction } from "./job-action.ts";

export interface RecentQuery {
  readonly job: string;
  readonly tenant: string;
  readonly count: number;
}

/** The newest first. Slots without a result are left out. */
export async function recentResults(
  store: Store,
  load: (record: Parameters<Payloads["load"]>[0]) => unknown,
  { job, tenant, count }: RecentQuery,
): Promise<unknown[]> {
  const query = { action: jobAction(job), states: ["confirmed"] as const, limit: count, tenant };
  const { items } = await store.list(query);
  return items.map(({ record }) => ownResult(load(record))).filter((result) => result !== undefined && result !== null);
}

/** Of a command the ledger keeps how it ended, and in it what it wrote as its own result. */
function ownResult(result: unknown): unknown {
  if (typeof result !== "object" || result === null) return result;
  const { exitCode, durationMs, lastLines, result: own } = result as Record<string, unknown>;
  const isCommand = exitCode === 0 && typeof durationMs === "number" && Array.isArray(lastLines);
  return isCommand ? own : result;
}
