/**
 * Which input an attempt had, where the record has taken another one since. The history says so at each replacement, so that
 * whoever tells of a late success needs to know no more than its fence.
 */
import type { Fingerprint, LedgerRecord, ReplacedInput } from "./record.ts";

/** As another input takes its place: what the record's input was, and of which attempts. */
export function replacedIn(record: LedgerRecord): { readonly replaced: ReplacedInput } {
  const { guarded, free, fields } = record.fingerprint;
  return { replaced: { from: (lastReplaced(record)?.to ?? 0) + 1, to: record.fence, guarded, free, fields } };
}

/** Null: the record has had this input ever since the attempt with this fence. */
export function earlierInput(record: LedgerRecord, fence: number): Fingerprint | null {
  if (fence > (lastReplaced(record)?.to ?? 0)) return null;
  const own = record.history.find(({ replaced }) => replaced && replaced.from <= fence && fence <= replaced.to);
  const { guarded, free, fields } = own?.replaced ?? NOT_KNOWN;
  return guarded === "" ? NOT_KNOWN : { guarded, free, fields };
}

function lastReplaced({ history }: LedgerRecord): ReplacedInput | undefined {
  return history.findLast(({ replaced }) => replaced !== undefined)?.replaced;
}

/** Of an input that was forgotten, or fell out of the history: no input is the same. */
export const NOT_KNOWN: Fingerprint = Object.freeze({ guarded: "", free: null, fields: Object.freeze({ "": "" }) });
