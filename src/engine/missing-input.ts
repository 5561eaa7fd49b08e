/** An input that is missing from its record, although there was one: it must not be taken for `undefined`. */
import { NevertwiceError } from "../core/errors.ts";
import { canCompare, differing, type InputPrint, isInPart } from "../core/key/fingerprint.ts";
import type { LedgerRecord } from "../core/record.ts";

/** `call`: with what a stored input of `undefined` is run, after parsing. The digests tell whether it was that. */
export function isInputMissing(
  record: LedgerRecord,
  call: { readonly print: InputPrint },
  free: readonly string[],
): boolean {
  // First, since digests are made when they are asked for, and this is in every job.
  if (record.input !== null) return false;
  const { print } = call;
  if (isInPart(record.fingerprint) || !canCompare(record.fingerprint, print)) return true;
  const differs = differing(record.fingerprint, print, free);
  return differs.guarded.length + differs.free.length > 0;
}

export function missingInput({ action, key }: LedgerRecord): NevertwiceError {
  return new NevertwiceError(
    "INVALID_INPUT",
    `${action}: its stored input is missing: the record says that there was one, and it was removed from the store. Nothing was run. Restore the record from a backup, then bring it back: nevertwice retry ${key}`,
    { key },
  );
}
