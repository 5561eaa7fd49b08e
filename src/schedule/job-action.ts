/** The action under which a job's slots stand in the ledger: one list for commands and for jobs in code. */
import { entryAction } from "../core/entry-name.ts";
import { configError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";

export function jobAction(job: string): string {
  if (typeof job === "string" && job.trim() !== "" && job.length <= 150) return entryAction("job", job);
  throw configError(
    `a job's name must be a text of 1 to 150 characters that is not blank; got ${JSON.stringify(job)}. It is part of the key of each of its runs.`,
  );
}

/** `at`: the slot's instant, which jobs in code record. A command records the slot alone. */
export interface SlotInput {
  readonly slot: string;
  readonly at?: number;
}

/** A slot is one intent, whether a command or code asks for it: its name says all, and `at` only repeats it. */
export const SLOT_KEY = { key: ["slot"], free: ["at"] } as const;

/** `at` that one of the two did not record is no difference that a caller should learn of. */
export function sameSlot<R>(outcome: Outcome<R>): Outcome<R> {
  if (outcome.status !== "done" || outcome.differs === undefined) return outcome;
  const { differs: _, ...same } = outcome;
  return same;
}

/** Where the plans of a job's slots are kept. */
export function planAction(job: string): string {
  return entryAction("plan", job);
}
