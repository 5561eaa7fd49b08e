/** Why a decision about a doubt is not taken, though the ledger would: asked for one record, for a group, and for each line of a file. */
import { entryOf } from "../../core/entry-name.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { groupOf, stillRuns } from "../../schedule/slot-attempt.ts";
import { stepNeedsResult } from "../ledger/step-result.ts";

/** Null: nothing speaks against it. `hasResult`: what a repeat gets is given, were it nothing. */
export function objectionTo(
  record: LedgerRecord,
  as: "done" | "not-done" | "failed",
  hasResult: boolean,
): string | null {
  if (as === "done") return hasResult ? null : stepNeedsResult(record);
  return commandStillRuns(record);
}

/** Nothing of the attempt would be left on record: the next call, or the one after a retry, would start a second command beside it. */
export function commandStillRuns(record: LedgerRecord): string | null {
  if (entryOf(record.action).kind !== "job" || !stillRuns(record)) return null;
  const group = groupOf(record)?.group;
  return `its command still runs (process group ${group}), so it is too early to say. Nothing was changed. Wait for its end, after which the next call of the job goes on by itself, or end it: kill -- -${group}`;
}
