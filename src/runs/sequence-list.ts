/** The list of steps of a sequence and the options that go with it, checked once when the sequence is made. */
import { type Duration, durationMs, formatDuration } from "../core/duration.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import { resolvePolicy } from "../core/policy.ts";
import { unstorableIn } from "../core/storable-text.ts";

export type SequenceStep = string | { readonly step: string; readonly after?: Duration };

export interface Planned {
  readonly step: string;
  readonly afterMs: number;
}

interface ListOptions {
  readonly run: unknown;
  readonly after?: Duration;
  readonly onFailed?: "stop" | "continue";
  readonly keep?: Duration | "forever";
}

const OPTIONS = new Set("after onFailed run effect keep lease timeout doubt retry whenStoreDown".split(" "));
const STEP = new Set(["step", "after"]);
const MOST_STEPS = 100;

export function planOf(steps: readonly SequenceStep[], options: ListOptions, where: string): Planned[] {
  if (!Array.isArray(steps) || steps.length === 0 || steps.length > MOST_STEPS)
    throw configError(
      `${where}: it takes a list of 1 to ${MOST_STEPS} steps, such as ["welcome", { step: "social_proof", after: "2d" }].`,
    );
  if (typeof options !== "object" || options === null || typeof options.run !== "function")
    throw configError(`${where}: run is missing. Give it what a step does: { run: async ({ subject, step }) => … }.`);
  for (const option of Object.keys(options)) {
    if (!OPTIONS.has(option)) throw noSuchOption(where, option, OPTIONS);
  }
  const { onFailed = "stop", after = 0, keep } = options;
  if (onFailed !== "stop" && onFailed !== "continue")
    throw configError(`${where}: onFailed is ${JSON.stringify(onFailed)}; it takes "stop" or "continue".`);
  const names = new Set<string>();
  const planned = steps.map((given: SequenceStep, i) => {
    const { step, after: own = undefined } = typeof given === "string" ? { step: given } : (given ?? {});
    if (typeof step !== "string" || step.trim() === "") throw configError(`${where}: step ${i + 1} has no name.`);
    const unstorable = unstorableIn(step);
    if (unstorable !== null)
      throw configError(`${where}: the name of step ${i + 1} cannot be kept: ${unstorable}. Leave it out.`);
    const [wrong] = typeof given === "string" ? [] : Object.keys(given).filter((name) => !STEP.has(name));
    if (wrong !== undefined)
      throw configError(
        `${where}: the step ${JSON.stringify(step)} has no option ${JSON.stringify(wrong)}; it takes step and after.`,
      );
    if (names.has(step))
      throw configError(
        `${where}: two steps are called ${JSON.stringify(step)}. Names of steps must be unique: a step is recorded by its name, once for each subject. Give one of them another name, such as ${JSON.stringify(`${step}-2`)}.`,
      );
    names.add(step);
    return { step, afterMs: durationMs(own ?? (i === 0 ? 0 : after), `${where}: after of ${JSON.stringify(step)}`) };
  });
  if (keep !== undefined) checkKeep(planned, resolvePolicy({ keep }, where).keepMs, where);
  return planned;
}

/** From the first step to the last, where none comes late. */
export function timeTaken(planned: readonly Planned[]): number {
  return planned.reduce((sum, { afterMs }) => sum + afterMs, 0);
}

/** A step is compared with the one before it, and a subject is known for at least as long as its sequence took. */
function checkKeep(planned: readonly Planned[], keepMs: number | null, where: string): void {
  const takesMs = timeTaken(planned);
  if (keepMs === null || takesMs < keepMs) return;
  throw configError(
    `${where}: its steps take ${formatDuration(takesMs)}, and keep is ${formatDuration(keepMs)}: a step would be forgotten before the next one looks for it. Give keep more time, such as { keep: ${JSON.stringify(formatDuration(2 * takesMs))} }, or "forever", or leave it out.`,
  );
}
