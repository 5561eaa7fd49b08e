/** What is wrong with what `run` returned, said once per action. */
import type { Warnings } from "./events.ts";
import { losesMeaningAsJson } from "./payloads.ts";

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
    `action ${action}: what run returned is not stored: ${why}. That it is done is on record, but a repeat gets undefined for a result, and so does a run that goes on. Return less, such as the provider's id.`,
  );
}
