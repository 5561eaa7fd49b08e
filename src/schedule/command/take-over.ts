/**
 * Whether a command's slot whose attempt is in doubt may be run again. That no process is left says nothing about what the
 * command did. It settles the doubt of a runner that died, and of a command that was ended where a failure may be retried.
 * Where a failure is to be held it settles nothing more: a person has to look.
 */
import type { ProbeAnswer } from "../../core/policy.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { Store } from "../../core/store.ts";
import { groupOf, isHeld, plainDraft, runnerDied, stillRuns } from "../slot-attempt.ts";
import { hasLeftExit } from "./ended.ts";
import { type ExitFolder, removeExitFile } from "./exit-file.ts";
import { groupStanding } from "./process-group.ts";

export interface TakeOverOptions {
  readonly failed: "retry" | "hold";
  readonly exits?: ExitFolder;
  readonly onTakeOver?: () => void;
}

export async function mayTakeOver(
  store: Store,
  key: string,
  { failed, exits, onTakeOver }: TakeOverOptions,
): Promise<ProbeAnswer<never>> {
  const [stored] = await store.read([key]);
  if (stored === undefined || stored === null) return "not-done";
  const { record } = stored;
  if (isHeld(record) || (failed === "hold" && !runnerDied(record))) return "unknown";
  // Asked after its processes: the shell leaves the exit code before it ends.
  if (stillRuns(record) || hasLeftExit(record, { folder: exits ?? null })) return "unknown";
  const group = groupOf(record);
  if (group !== null && groupStanding(group) === "elsewhere") onTakeOver?.();
  else removeUnused(record);
  return "not-done";
}

/** Nothing is left that could write to it. */
function removeUnused(record: LedgerRecord): void {
  const exit = plainDraft(record)?.exit;
  if (typeof exit === "string") removeExitFile(exit);
}
