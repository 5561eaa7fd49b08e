/** What is wrong with what `run` returned, said once per action. */
import { type ReturnedError, returnedError } from "../core/returned-error.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";
import { losesMeaningAsJson } from "./payloads.ts";

/** A failure that `run` returned instead of throwing it. What only resembles one is stored, and reported. */
export function failureIn(
  warnings: Warnings,
  { name: action, writtenAs }: Pick<Definition, "name" | "writtenAs">,
  value: unknown,
): ReturnedError | null {
  // A tool's guard has read the answer already, by the tool's own options.
  const failure = writtenAs === "tool" ? null : returnedError(value);
  if (failure !== "unclear") return failure;
  warnings.warn(
    "RESULT_IS_ERROR",
    action,
    `action ${action}: run returned { error } with an error in it, and that is stored as done. If it means a failure, check it in run: \`if (error) throw error\`. If not, return the data alone.`,
  );
  return null;
}

export function warnOfOddResult(warnings: Warnings, action: string, value: unknown): void {
  const odd = losesMeaningAsJson(value);
  if (odd === null) return;
  warnings.warn(
    "RESULT_NOT_PLAIN",
    action,
    `action ${action}: run returned ${odd}. Return plain data, such as the provider's id.`,
  );
}

export function warnOfLostResult(warnings: Warnings, action: string, why: string): void {
  warnings.warn(
    "RESULT_NOT_STORED",
    action,
    `action ${action}: what run returned is not stored: ${why}. That it is done is on record, but a repeat, and a run that goes on, has no result to return: it throws RESULT_UNAVAILABLE. Return less, such as the provider's id.`,
  );
}
