import { type At, atMs } from "../core/at.ts";
import { type Duration, durationMs } from "../core/duration.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import { PREVENTED_ACTION, type PreventedEntry, sumPrevented } from "../core/prevented.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Page, Store } from "../core/store.ts";
import type { CallDefaults } from "./call.ts";
import type { Engine } from "./engine.ts";
import { onlyOf, type TenantChoice, tenantOf } from "./tenancy.ts";

export interface PreventedQuery extends TenantChoice {
  /** How far back ("7d"), or from when on (a Date). By whole hours; all that is kept unless given, which is 90 days. */
  readonly since?: Duration | Date;
}

export interface Prevented {
  /** Calls that were not run. */
  readonly prevented: number;
  /** Calls that ran all the same, under mode: "observe". */
  readonly observed: number;
  /** By tenant, action and cause; the most frequent first. */
  readonly entries: readonly PreventedEntry[];
}

const PAGE = 200;
const OPTIONS = new Set(["since", "tenant", "tenants"]);

export async function listPrevented(
  engine: Engine,
  query: PreventedQuery,
  { confinedTo }: CallDefaults,
): Promise<Prevented> {
  for (const option of Object.keys(query)) {
    if (!OPTIONS.has(option)) throw noSuchOption("prevented()", option, OPTIONS);
  }
  const { since, ...choice } = query;
  const tenant = tenantOf(choice, confinedTo, "prevented()");
  const from = sinceMs(since, engine.services.ledger.instant().now);
  return engine.during(async () => {
    await engine.services.prevented.flush();
    const { ledger } = engine.services;
    return readPrevented(ledger, { since: from, tenant }, ledger.instant());
  });
}

function sinceMs(since: PreventedQuery["since"], now: number): number {
  if (since === undefined) return 0;
  const refuse = (what: string) => configError(`prevented(): since: ${what}.`);
  return since instanceof Date ? atMs(since as At, refuse) : now - durationMs(since, "prevented(): since");
}

export async function readPrevented(
  store: Pick<Store, "list">,
  { since, tenant }: { readonly since: number; readonly tenant: string | undefined },
  at: Instant,
): Promise<Prevented> {
  const notes: LedgerRecord[] = [];
  let cursor: string | null = null;
  do {
    const from: { readonly cursor?: string } = cursor === null ? {} : { cursor };
    const page: Page = await store.list({ action: PREVENTED_ACTION, limit: PAGE, ...onlyOf(tenant), ...from });
    notes.push(...page.items.map(({ record }) => record));
    cursor = page.cursor;
  } while (cursor !== null);
  const entries = sumPrevented(notes, since, at);
  const sum = (of: "prevented" | "observed") => entries.reduce((total, one) => total + one[of], 0);
  return { prevented: sum("prevented"), observed: sum("observed"), entries };
}
