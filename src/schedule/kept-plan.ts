/** A plan is made once and read by every run of its slot: one that the ledger would change or leave out is refused. */
import { NevertwiceError } from "../core/errors.ts";
import { deriveKey } from "../core/key/key.ts";
import { lostAsJson } from "../core/lost-as-json.ts";
import type { Store } from "../core/store.ts";
import { DEFAULT_LIMITS } from "../engine/payloads.ts";
import { planAction } from "./job-action.ts";

const refusals = new WeakSet<object>();

/** The plan as the ledger gives it back. */
export function keptPlan<P>(plan: P, where: string): P {
  // Stored as nothing, and nothing comes back.
  if (plan === undefined) return plan;
  const lost = lostAsJson(plan, "plan", { exact: true });
  if (lost !== null) throw refusal(where, `${lost.path} is ${lost.what}. ${lost.remedy}`);
  const json = JSON.stringify(plan);
  const bytes = Buffer.byteLength(json);
  if (bytes > DEFAULT_LIMITS.resultBytes)
    throw refusal(
      where,
      `as JSON it has ${bytes} bytes, and ${DEFAULT_LIMITS.resultBytes} is the most. Store what is large elsewhere, and return its id or path.`,
    );
  return JSON.parse(json) as P;
}

/** Not a failure that passes by itself: the program has to be corrected, and may then be called again. */
export function planVerdict(error: unknown): "refused" | undefined {
  return typeof error === "object" && error !== null && refusals.has(error) ? "refused" : undefined;
}

function refusal(where: string, why: string): NevertwiceError {
  const error = new NevertwiceError(
    "INVALID_INPUT",
    `${where}: its plan cannot be kept, so that a second run of the slot would get another one: ${why} The slot was not run.`,
  );
  refusals.add(error);
  return error;
}

export interface PlanRetention {
  readonly store: Store;
  readonly tenant: string;
  readonly secret: string | Uint8Array | undefined;
  retain(key: string, keepMs: number | null): Promise<void>;
}

export function planKey(
  { tenant, secret }: Pick<PlanRetention, "tenant" | "secret">,
  { job, slot }: { readonly job: string; readonly slot: string },
): string {
  return deriveKey({ tenant, action: planAction(job), version: 1, scope: null, parts: [slot], secret });
}

/**
 * A slot that is in doubt or failed may be run again at any later time, and then needs its plan: the plan is kept without an
 * end until the slot is done, and for the slot's keep (null: forever) after that. If this is never called, it is kept longer.
 */
export async function keepPlan(
  { store, tenant, secret, retain }: PlanRetention,
  { job, slot }: { readonly job: string; readonly slot: string },
  keepMs: number | null,
): Promise<void> {
  const key = planKey({ tenant, secret }, { job, slot });
  const [stored] = await store.read([key]);
  // Given once: each time would put the end off.
  if (stored && stored.record.keepMs !== keepMs) await retain(key, keepMs);
}
