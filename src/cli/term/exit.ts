/** How the command ends: a script reads the number, a person the line. */
import { isNevertwiceError } from "../../core/errors.ts";
import type { Absent, Outcome } from "../../core/outcome.ts";

export const EXIT = {
  ok: 0,
  /** A problem was found, or the ledger refused. */
  problem: 1,
  usage: 2,
  unavailable: 3,
  /** `each` ended early because so many inputs in a row failed: the rest is begun by the next start. */
  stopped: 4,
} as const;

/** `status` answers by its exit code; 14 is an answer of claim and enqueue, which have an input to compare. */
const STATUS_EXIT = {
  done: 0,
  in_flight: 10,
  queued: 11,
  failed: 12,
  unknown: 13,
  conflict: 14,
  absent: 15,
} as const;

export function exitOfStatus(status: (Outcome<unknown> | Absent)["status"]): number {
  return STATUS_EXIT[status];
}

const DONE_BEFORE = 16;

/** Of a claim that claimed nothing: 0 would tell a script to go on. */
export function exitOfClaim(status: (Outcome<unknown> | Absent)["status"]): number {
  return status === "done" ? DONE_BEFORE : STATUS_EXIT[status];
}

/** The command line is not understood, or lacks something: says what to write instead. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** What is wrong with a word of the command line may be found out deep inside: it is still the command line that is wrong. */
export function asUsage<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw isNevertwiceError(error) ? new UsageError(error.message, { cause: error }) : error;
  }
}

/** The ledger was reached, and what was asked for cannot be done. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
}

export function exitOfError(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  if (isNevertwiceError(error) && (error.code === "STORE_UNAVAILABLE" || error.code === "CONFIG")) {
    return EXIT.unavailable;
  }
  return EXIT.problem;
}

export function codeOfError(error: unknown): string {
  if (error instanceof UsageError) return "USAGE";
  return isNevertwiceError(error) ? error.code : "PROBLEM";
}
