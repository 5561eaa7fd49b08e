/** K10: queued work whose intent may have a record under another key: by an earlier definition, or by whoever knows no former keys. */
import { otherInputMeets } from "../core/conflict.ts";
import { errorForOutcome } from "../core/outcome.ts";
import { leaseAlive } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Call, CallDefaults } from "../engine/call.ts";
import type { Definition } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { by } from "../engine/events.ts";
import { aliasSwapsOf, keysOf, locate, otherFields, yieldTo } from "../engine/formerly.ts";
import { giveBack, type NotBegun, parkLeased } from "../engine/leased-record.ts";
import { makeCall } from "../engine/make-call.ts";

interface Services {
  readonly engine: Engine;
  readonly defaults: CallDefaults;
}

const UNDER_WAY_MS = 1_000;
const IN_DOUBT_MS = 30_000;

export function hasOtherKeys({ formerly, successor }: Definition): boolean {
  return formerly.length > 0 || successor !== undefined;
}

/** Null: the leased record is the one of its intent, and may begin. Nobody else begins it under another key from then on. */
export async function elsewhere(
  services: Services,
  { definition, given, input, version, tenant, scope }: Call,
  leased: Stored,
): Promise<{ readonly as: "done" } | NotBegun | null> {
  const { ledger, events } = services.engine.services;
  const { record } = leased;
  const call = callOf(services, definition.successor ?? definition, given, input, {
    version,
    tenant,
    ...(scope !== null && { scope }),
  });
  // Its key was derived in another way: by other parts, or from an input that the schema has changed since.
  if (call === null || !keysOf(call).some(({ key }) => key === record.key)) return null;
  const swaps = aliasSwapsOf(ledger);
  const located = await locate(swaps, call, { holding: record.key });
  const governs = located.stored?.record;
  if (governs === undefined || governs.key === record.key) return null;
  const differs = otherFields(located, ledger.instant());
  // In doubt, it is waited for: once settled as not done, this one may run.
  if (differs.length > 0 && otherInputMeets(governs, ledger.instant()) === "conflict") {
    const conflict = { status: "conflict", key: governs.key, differs } as const;
    return parkLeased(services, leased, errorForOutcome(conflict, definition.name), "unreadable");
  }
  if (governs.state === "confirmed") {
    if (!(await yieldTo(swaps, leased, located))) return { as: "moved" };
    events.emit({ type: "replayed", action: record.action, key: governs.key, ...by(record), attempt: governs.attempt });
    return { as: "done" };
  }
  const at = ledger.instant();
  const underWay = leaseAlive(governs, at);
  return giveBack(services, leased, at.now + (underWay ? UNDER_WAY_MS : IN_DOUBT_MS), underWay);
}

/** Null: a key function of today does not take the input that was stored. */
function callOf(
  { defaults }: Services,
  definition: Definition,
  given: unknown,
  input: unknown,
  options: { readonly version: number; readonly tenant: string; readonly scope?: string },
): Call | null {
  try {
    return makeCall(definition, given, input, options, defaults);
  } catch {
    return null;
  }
}
