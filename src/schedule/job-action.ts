/** The action under which a job's slots stand in the ledger: one list for commands and for jobs in code. */
import { entryAction } from "../core/entry-name.ts";
import { configError } from "../core/errors.ts";

export function jobAction(job: string): string {
  if (typeof job === "string" && job.trim() !== "" && job.length <= 150) return entryAction("job", job);
  throw configError(
    `a job's name must be a text of 1 to 150 characters that is not blank; got ${JSON.stringify(job)}. It is part of the key of each of its runs.`,
  );
}

/** Where the plans of a job's slots are kept. */
export function planAction(job: string): string {
  return entryAction("plan", job);
}
