/** Why a step of a sequence was not taken. The record keeps the name of the error, so that the reason is known later. */
import type { LedgerRecord } from "../core/record.ts";
import { NO_LONGER_NEEDED } from "../core/retention.ts";
import type { Standing } from "./forward.ts";

const NAMES = {
  stopped: "SequenceStopped",
  passed: "SequencePassed",
  unlisted: "SequenceStepUnlisted",
  blocked: "SequenceBlocked",
} as const;

type Reason = keyof typeof NAMES;

/** Not taken, and not by its own failure. `isOver`: nothing of the subject depends on it any more. */
export class NotTaken extends Error {
  readonly code: string | undefined;

  constructor(as: Reason, message: string, isOver: boolean) {
    super(message);
    this.name = NAMES[as];
    this.code = isOver ? NO_LONGER_NEEDED : undefined;
  }
}

/** start() may queue it again: the list may have the step again, and the step before it may be brought back. */
export function mayBeQueuedAgain(error: unknown): boolean {
  return error instanceof Error && (error.name === NAMES.unlisted || error.name === NAMES.blocked);
}

export function standingOf({ state, error }: LedgerRecord): Standing {
  switch (state) {
    case "pending":
    case "claimed":
      return "waiting";
    case "failed": {
      const known = (Object.keys(NAMES) as Reason[]).find((as) => NAMES[as] === error?.name);
      return known ?? "failed";
    }
    default:
      return "taken";
  }
}
