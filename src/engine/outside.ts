/** Attempts that are made outside of this process. */
import { leaseAlive } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
import { originalInput } from "./resend-input.ts";

/** The claim on record is this caller's own, and its reply was lost: it is handed out once more. */
export async function isClaimedBefore(services: ExecutionServices, call: Call, stored: Stored): Promise<boolean> {
  const { outside } = call;
  const { record } = stored;
  const held = record.state === "claimed" || record.state === "sent";
  if (outside === undefined || !held || record.holder !== outside.holder) return false;
  if (!leaseAlive(record, services.ledger.instant())) return false;
  outside.claimed({ stored, input: await originalInput(services, call, record), again: true });
  return true;
}
