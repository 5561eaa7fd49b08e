/** What is wrong with what `run` returned, said once per action. */
import { namedError, type ReturnedError, returnedError } from "../core/returned-error.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";
import { losesMeaningAsJson } from "./payloads.ts";

/** A failure that `run` returned instead of throwing it. What only resembles one is stored, and reported. */
export function failureIn(
  warnings: Warnings,
  { name: action, writtenAs }: Pick<Definition, "name" | "writtenAs">,
  value: unknown,
  attempt: object | null = null,
): ReturnedError | null {
  // A tool's guard has read the answer already, by the tool's own options.
  const failure = writtenAs === "tool" ? null : returnedError(value);
  if (failure !== "unclear" && failure !== null) return failure;
  const shape = writtenAs !== "tool" || isUnjudged(attempt) ? namedError(value) : null;
  if (shape !== null) warnings.warn("RESULT_IS_ERROR", action, errorAsResult(action, shape, writtenAs));
  return null;
}

function errorAsResult(action: string, shape: string, writtenAs: Definition["writtenAs"]): string {
  const recorded = `returned ${shape}, and that is recorded as done: a repeat gets it back, and nothing is run again`;
  const thrown = "If it means that nothing was done, throw it: `throw refused(error)`";
  return writtenAs === "tool"
    ? `tool ${action}: it ${recorded}. ${thrown}; or give the tool \`errors: "not-done"\`. If it is a result like any other: \`errors: "answer"\`.`
    : `action ${action}: run ${recorded}. ${thrown}; or \`throw error\`, where the rules are to judge it. If it is no failure, return the data alone.`;
}

// Attempts of tools whose options do not say what their errors mean.
const unjudged = new WeakSet<object>();

export function leaveUnjudged(attempt: object | undefined): void {
  if (attempt !== undefined) unjudged.add(attempt);
}

function isUnjudged(attempt: object | null): boolean {
  return attempt !== null && unjudged.has(attempt);
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
