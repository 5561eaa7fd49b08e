/** Dead letters brought back by the hundred: all of them, or those that a filter picks, or only shown. */
import { configError, isNevertwiceError, messageOf } from "../core/errors.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Page } from "../core/store.ts";
import type { Engine } from "./engine.ts";
import { checkSignature, retryFailed, type Signature } from "./operate.ts";

export interface RetryFilter {
  readonly action?: string;
  readonly tenant?: string;
  readonly scope?: string;
  /** Which of them, by what the record says: `({ error }) => error?.code === "EXPIRED"`. */
  readonly where?: (record: LedgerRecord) => boolean;
  /** At most this many; all that fit, unless given. */
  readonly limit?: number;
  /** Change nothing, only say which it would be. */
  readonly dryRun?: boolean;
}

export interface RetryReport {
  /** The keys that became pending again, or would. */
  readonly retried: readonly string[];
  /** Somebody else was faster, or the ledger says no. */
  readonly refused: readonly { readonly key: string; readonly why: string }[];
}

const PAGE = 200;

/** Oldest first, page by page: what fails again meanwhile lies behind the cursor, so that this ends. */
export function retryAll(engine: Engine, filter: RetryFilter, signature: Signature): Promise<RetryReport> {
  return engine.during(() => retryPages(engine, filter, signature));
}

async function retryPages(engine: Engine, filter: RetryFilter, signature: Signature): Promise<RetryReport> {
  checkSignature(signature, "retryAll");
  const { where = () => true, limit = Number.POSITIVE_INFINITY, dryRun = false, action, tenant, scope } = filter;
  if (limit !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(limit) && limit > 0))
    throw configError(`retryAll: limit is ${String(limit)}; it takes a whole number above zero.`);
  const picks = {
    ...(action !== undefined && { action }),
    ...(tenant !== undefined && { tenant }),
    ...(scope !== undefined && { scope }),
  };
  const retried: string[] = [];
  const refused: { key: string; why: string }[] = [];
  let cursor: string | null = null;
  do {
    engine.requireOpen();
    const from: { cursor?: string } = cursor === null ? {} : { cursor };
    const page: Page = await engine.services.ledger.store.list({
      states: ["failed"],
      order: "oldest",
      limit: PAGE,
      ...picks,
      ...from,
    });
    const wanted = page.items.filter(({ record }) => where(record)).slice(0, limit - retried.length);
    const answers = await Promise.all(
      wanted.map(({ record }) => (dryRun ? null : refusalOf(engine, record, signature))),
    );
    for (const [i, { record }] of wanted.entries()) {
      const why = answers[i] ?? null;
      if (why === null) retried.push(record.key);
      else refused.push({ key: record.key, why });
    }
    cursor = page.cursor;
  } while (cursor !== null && retried.length < limit);
  return { retried, refused };
}

async function refusalOf(engine: Engine, { key, tenant }: LedgerRecord, signature: Signature): Promise<string | null> {
  try {
    await retryFailed(engine, { key, tenant }, signature);
    return null;
  } catch (error) {
    if (isNevertwiceError(error) && error.code !== "STORE_UNAVAILABLE") return messageOf(error);
    throw error;
  }
}
