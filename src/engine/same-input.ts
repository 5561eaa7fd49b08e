/** Whether a call's input is the one that a record is about, and which bytes a resend has to carry. */
import { canCompare, differing, isComparable } from "../core/fingerprint.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { Call } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
import { parseInput } from "./standard-schema.ts";

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

/** A resend under the provider's key must carry the bytes of the first send, reworded free fields or not. */
export function sameBytes({ payloads }: ExecutionServices, call: Call, record: LedgerRecord): boolean {
  if (call.definition.prepare && payloads.loadDraft(record, true).omitted !== undefined) return false;
  if (record.input !== null && payloads.load(record, "input").omitted === undefined) return true;
  // Not stored, or sealed for others: only this call's own input is left, and it must be known to be the same.
  return (
    isComparable(record.fingerprint) &&
    canCompare(record.fingerprint, call.print) &&
    differing(record.fingerprint, call.print, call.definition.free).free.length === 0
  );
}

/** An input that cannot be had any more (the schema has changed) gives the claim back: the doubt is what it was. */
export async function inputToResend(services: ExecutionServices, call: Call, stored: Stored): Promise<unknown> {
  try {
    return await originalInput(services, call, stored.record);
  } catch (error) {
    const { fence, holder } = stored.record;
    const hold = { fence, holder: holder as string };
    const event = { type: "not-sent", hold, error: toStoredError(error), retryAt: null, final: false } as const;
    await services.ledger.apply(stored, event);
    throw error;
  }
}

export async function originalInput(
  { payloads }: ExecutionServices,
  call: Call,
  record: LedgerRecord,
): Promise<unknown> {
  if (differing(record.fingerprint, call.print, call.definition.free).free.length === 0) return call.input;
  const given = payloads.load(record, "input").value;
  const { schema, name } = call.definition;
  return schema === undefined ? given : parseInput(schema, given, name);
}
