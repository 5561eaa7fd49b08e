/** What an attempt is sent again with: under the provider's key it must carry the bytes of the first send. */
import { canCompare, differing, isComparable, isInPart } from "../core/key/fingerprint.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { Call } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
import { parseInput } from "./standard-schema.ts";

type Services = Pick<ExecutionServices, "ledger" | "payloads">;

/** Whether the bytes of the first send are at hand, reworded free fields or not. */
export function hasSameBytes({ payloads }: Services, call: Call, record: LedgerRecord): boolean {
  if (call.definition.prepare && payloads.loadDraft(record, true).omitted !== undefined) return false;
  if (record.input !== null && payloads.load(record, "input").omitted === undefined) return true;
  // Not stored, or sealed for others: only this call's own input is left, and it must be known to be the same.
  return (
    isComparable(record.fingerprint) &&
    canCompare(record.fingerprint, call.print) &&
    call.print.alike === undefined &&
    differing(record.fingerprint, call.print, call.definition.free).free.length === 0
  );
}

/** An input that cannot be had any more (the schema has changed) gives the claim back: the doubt is what it was. */
export async function inputToResend(services: Services, call: Call, stored: Stored): Promise<unknown> {
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

export async function originalInput({ payloads }: Services, call: Call, record: LedgerRecord): Promise<unknown> {
  const { fingerprint } = record;
  const differs = differing(fingerprint, call.print, call.definition.free);
  const isInOtherForm = call.print.alike?.guarded === fingerprint.guarded;
  if (!isInPart(fingerprint) && differs.free.length === 0 && !isInOtherForm) return call.input;
  const given = payloads.load(record, "input").value;
  const { schema, name } = call.definition;
  return schema === undefined ? given : parseInput(schema, given, name);
}

/** The same call with the input of an attempt in doubt, to ask about it; null: that input cannot be had here. */
export async function withStoredInput({ payloads }: Services, call: Call, record: LedgerRecord): Promise<Call | null> {
  const { schema, name } = call.definition;
  if (record.input === null) return null;
  const { value, omitted } = payloads.load(record, "input");
  if (omitted !== undefined) return null;
  try {
    return { ...call, given: value, input: schema === undefined ? value : await parseInput(schema, value, name) };
  } catch {
    // The schema has changed since: the doubt is left to a person.
    return null;
  }
}
