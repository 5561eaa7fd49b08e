/** Dead letters brought back by the hundred: all of them, or those that a filter picks, or only shown. */
import { isOfAllRecords } from "../core/damaged-record.ts";
import { configError, isNevertwiceError, messageOf } from "../core/errors.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Page, Stored } from "../core/store.ts";
import type { Engine } from "./engine.ts";
import { checkSignature, retryFailed, type Signature } from "./operate.ts";
import { onlyOf, type TenantChoice, tenantOf } from "./tenancy.ts";

export interface RetryFilter extends TenantChoice {
  readonly action?: string;
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
export function retryAll(
  engine: Engine,
  filter: RetryFilter,
  signature: Signature,
  confinedTo: string | undefined,
): Promise<RetryReport> {
  return engine.during(() => retryPages(engine, filter, signature, confinedTo));
}

async function retryPages(
  engine: Engine,
  filter: RetryFilter,
  signature: Signature,
  confinedTo: string | undefined,
): Promise<RetryReport> {
  checkSignature(signature, "retryAll");
  const tenant = tenantOf(filter, confinedTo, "retryAll");
  const { where = () => true, limit = Number.POSITIVE_INFINITY, dryRun = false, action, scope } = filter;
  if (limit !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(limit) && limit > 0))
    throw configError(`retryAll: limit is ${String(limit)}; it takes a whole number above zero.`);
  const picks = {
    ...(action !== undefined && { action }),
    ...onlyOf(tenant),
    ...(scope !== undefined && { scope }),
  };
  const retried: string[] = [];
  const refused: { key: string; why: string }[] = [];
  let cursor: string | null = null;
  do {
    engine.requireOpen();
    const from: { cursor?: string } = cursor === null ? {} : { cursor };
    const page: Page = await engine.services.ledger.list({
      states: ["failed"],
      order: "oldest",
      limit: PAGE,
      ...picks,
      ...from,
    });
    for (const { key, message } of page.damaged ?? []) refused.push({ key, why: message });
    const wanted = page.items.filter(({ record }) => where(record)).slice(0, limit - retried.length);
    const answers = dryRun ? new Map() : await retryThese(engine, wanted, signature);
    for (const { record } of wanted) {
      const why = answers.get(record.key) ?? null;
      if (why === null) retried.push(record.key);
      else refused.push({ key: record.key, why });
    }
    cursor = page.cursor;
  } while (cursor !== null && retried.length < limit);
  return { retried, refused };
}

/** Why each of them stays what it is; null: it is pending again. Those of an order come back in the order they had. */
async function retryThese(
  engine: Engine,
  wanted: readonly Stored[],
  signature: Signature,
): Promise<Map<string, string | null>> {
  const answers = new Map<string, string | null>();
  const retry = async ({ record }: Stored) => {
    answers.set(record.key, await refusalOf(engine, record, signature));
  };
  const inOrder = wanted.filter(({ record }) => record.terms?.line !== undefined);
  inOrder.sort((a, b) => (a.record.terms?.place ?? 0) - (b.record.terms?.place ?? 0));
  await Promise.all(wanted.filter(({ record }) => record.terms?.line === undefined).map(retry));
  for (const stored of inOrder) await retry(stored);
  return answers;
}

async function refusalOf(engine: Engine, { key, tenant }: LedgerRecord, signature: Signature): Promise<string | null> {
  try {
    await retryFailed(engine, { key, tenant }, signature);
    return null;
  } catch (error) {
    if (isNevertwiceError(error) && !isOfAllRecords(error)) return messageOf(error);
    throw error;
  }
}
