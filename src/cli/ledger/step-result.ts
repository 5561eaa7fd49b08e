/** A step that is settled as done needs what it returned: the run asks for it to go on, and would never end without it. */
import { needsResult } from "../../core/entry-name.ts";
import type { LedgerRecord } from "../../core/record.ts";

/** Null: the record is no step, and may be settled without a result. */
export function stepNeedsResult({ action }: LedgerRecord): string | null {
  if (!needsResult(action)) return null;
  return "this record is a step of a run, which goes on with what the step returned: give --result <json>, or --void if it returns nothing. Without either the run would end at this step with RESULT_UNAVAILABLE. Nothing was changed.";
}
