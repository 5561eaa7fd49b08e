/** Errors of a step as errors of its run: which step it is, and what lets the run go on. */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { StoredError } from "../core/record.ts";
import { stepAction } from "./step-records.ts";

export interface NamedStep {
  readonly run: string;
  readonly path: readonly string[];
  readonly step: string;
}

export function stepLabel({ path, step }: Pick<NamedStep, "path" | "step">): string {
  return `step ${JSON.stringify([...path, step].join(" › "))}`;
}

/** What nevertwice says about the step itself. An error of the user's own, or of an action called inside the step, stays as it is. */
export function namedError(error: unknown, key: string | undefined, named: NamedStep): unknown {
  if (!isNevertwiceError(error) || error.key !== key) return error;
  const { code, message, outcome, cause } = error;
  const details = { key, outcome, cause };
  const known = stepAction(named.run);
  const [label, own] = [stepLabel(named), `${known} (`];
  const rest = message.startsWith(own) ? message.slice(known.length) : `: ${message}`;
  if (code !== "OUTCOME_UNKNOWN") return new NevertwiceError(code, `run ${named.run}, ${label}${rest}`, details);
  return new NevertwiceError(
    code,
    `run ${named.run} waits for a decision on ${label}${rest} Then call the run again: it goes on with that step.`,
    details,
  );
}

const steps = new WeakMap<object, NamedStep>();

/** The error ended this step; for the record of the run, whose own error it may become. */
export function rememberStep(error: unknown, step: NamedStep): void {
  if (typeof error === "object" && error !== null) steps.set(error, step);
}

/** As the record of the run keeps it. */
export function withStep(stored: StoredError, error: unknown): StoredError {
  const step = typeof error === "object" && error !== null ? steps.get(error) : undefined;
  if (step === undefined) return stored;
  // The remedy is for the caller, and would fill the record.
  if (isNevertwiceError(error) && error.code === "OUTCOME_UNKNOWN") {
    const why = (error.outcome as { readonly why?: string } | undefined)?.why;
    return { ...stored, message: `waits for a decision on ${stepLabel(step)}${why === undefined ? "" : `: ${why}`}` };
  }
  return stored.message.startsWith(`run ${step.run}`)
    ? stored
    : { ...stored, message: `${stepLabel(step)}: ${stored.message}` };
}
