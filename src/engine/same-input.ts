/** Whether a call's input is the one that a record is about. */
import { canCompare, differing } from "../core/fingerprint.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { Call } from "./call.ts";

/** The guarded fields that make the record another input's; null: it is the call's to go on with. */
export function differsFrom(call: Call, record: LedgerRecord, now: number): readonly string[] | null {
  if (expired(record, now)) return null;
  if (!canCompare(record.fingerprint, call.print) && isSafeUncompared(record, call)) return null;
  const { guarded } = differing(record.fingerprint, call.print, call.definition.free);
  // Known not to have happened, and nobody is at it: the corrected input may go ahead.
  if (guarded.length === 0 || (record.state === "failed" && !record.final)) return null;
  return guarded;
}

/**
 * The record's digests belong to an encryption key that is not given. Answers that run nothing and show no result need
 * no comparison: a result that is sealed, and a doubt that this call will not run again with its own input.
 */
function isSafeUncompared({ state, result }: LedgerRecord, { definition }: Call): boolean {
  if (state === "confirmed") return result !== null && !("json" in result);
  return (state === "sent" || state === "unknown") && definition.policy.doubt.kind !== "retry";
}
