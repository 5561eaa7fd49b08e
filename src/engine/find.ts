/**
 * From a provider's own id back to the intents that have it. No index serves it: one would cost every call a write, and
 * this is asked when something went wrong. A page is a filtered look at the ledger.
 */
import { configError, noSuchOption } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { providerId, providerIdForms } from "../core/provider-id.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { ListQuery, Page } from "../core/store.ts";
import type { CallDefaults } from "./call.ts";
import type { Engine } from "./engine.ts";
import { onlyOf, type TenantChoice, tenantOf } from "./tenancy.ts";

export interface FindQuery extends TenantChoice {
  /** As the provider names it: a message id, a charge id. Angle brackets around a Message-ID may be there or not. */
  readonly providerId: string;
  /** Only records of this action: less to look at. */
  readonly action?: string;
}

/** An intent that was found. */
export interface Found {
  readonly key: string;
  readonly tenant: string;
  readonly action: string;
  readonly version: number;
  readonly scope: string | null;
  /** Who made the attempt that succeeded; null: nobody was named. */
  readonly agent: string | null;
  /** As it was given; undefined where it was not kept, or is sealed with a key that this program does not have. */
  readonly input: unknown;
  readonly outcome: Outcome<unknown> | Absent;
  /** Epoch ms. */
  readonly createdAt: number;
}

const OPTIONS = new Set(["providerId", "action", "tenant", "tenants"]);
const PAGE = 200;

export async function findIntents(engine: Engine, query: FindQuery, defaults: CallDefaults): Promise<readonly Found[]> {
  const filter = filterOf(query, defaults);
  return engine.during(async () => {
    const found: Found[] = [];
    let cursor: string | null = null;
    do {
      engine.requireOpen();
      const page: Page = await engine.services.ledger.list({ ...filter, ...(cursor !== null && { cursor }) });
      const { now } = engine.services.ledger.instant();
      for (const { record } of page.items) if (!expired(record, now)) found.push(foundOf(engine, record));
      cursor = page.cursor;
    } while (cursor !== null);
    return found;
  });
}

function filterOf(query: FindQuery, defaults: CallDefaults): ListQuery {
  if (typeof query !== "object" || query === null)
    throw configError(
      `find() takes an object: find({ providerId: ${typeof query === "string" ? JSON.stringify((query as string).slice(0, 300)) : '"msg_1"'} }).`,
    );
  for (const option of Object.keys(query)) {
    if (!OPTIONS.has(option)) throw noSuchOption("find()", option, OPTIONS);
  }
  const given: unknown = query?.providerId;
  const id = typeof given === "string" ? providerId(given) : null;
  if (id === null)
    throw configError(
      `find(): providerId is ${typeof given === "string" ? JSON.stringify(given.slice(0, 300)) : String(given)}. It takes the provider's id as a text of 1 to 255 characters without blanks, such as "msg_1" or "ch_1".`,
    );
  const { providerId: _asked, action, ...choice } = query;
  return {
    limit: PAGE,
    providerIds: providerIdForms(id, defaults.digestKeys),
    ...(action !== undefined && { action }),
    ...onlyOf(tenantOf(choice, defaults.confinedTo, "find()")),
  };
}

function foundOf(engine: Engine, record: LedgerRecord): Found {
  const { key, tenant, action, version, scope, agent, createdAt } = record;
  const { value: input } = engine.services.payloads.load(record, "input");
  return { key, tenant, action, version, scope, agent, input, outcome: engine.describe(record), createdAt };
}
