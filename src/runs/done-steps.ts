/** Steps that a subject had before the sequence was nevertwice's: named by the caller of start(), recorded as done, not run. */
import { type At, atMs } from "../core/at.ts";
import { configError, NevertwiceError } from "../core/errors.ts";
import type { Swaps } from "../engine/order-place.ts";
import type { PastIntent } from "../engine/past.ts";
import type { Standing } from "./forward.ts";

/** The names of the steps, or when each of them was taken: the pause to the next step is counted from there. */
export type DoneSteps = readonly string[] | Readonly<Record<string, At>>;

export interface DoneStep {
  readonly step: string;
  /** Null: not known, so that the pause to the next step begins now. */
  readonly at: number | null;
}

/** In the order of the list. A gap is refused: a subject goes forward only, so the step in it would never be taken. */
export function doneSteps(given: DoneSteps | undefined, list: readonly string[], where: string): DoneStep[] {
  if (given === undefined) return [];
  if (typeof given !== "object" || given === null)
    throw configError(`${where}: done takes the names of steps, or an object of names and times.`);
  const times: Readonly<Record<string, At>> | null = Array.isArray(given) ? null : (given as Record<string, At>);
  const names: readonly string[] = times === null ? (given as readonly string[]) : Object.keys(times);
  const unknown = names.find((step) => !list.includes(step));
  if (unknown !== undefined)
    throw configError(
      `${where}: done names ${JSON.stringify(unknown)}, and the sequence has no such step. Its steps are: ${list.join(", ")}. Nothing was queued.`,
    );
  const last = list.findLastIndex((step) => names.includes(step));
  const gap = list.slice(0, last).find((step) => !names.includes(step));
  if (gap !== undefined)
    throw configError(
      `${where}: done names ${JSON.stringify(list[last])} and not ${JSON.stringify(gap)}, which comes before it. A subject goes forward only, so ${JSON.stringify(gap)} would never be taken. Name it too if it is over for this subject, or leave ${JSON.stringify(list[last])} out. Nothing was queued.`,
    );
  return list.slice(0, last + 1).map((step) => ({
    step,
    at:
      times === null
        ? null
        : atMs(times[step], (what) =>
            configError(`${where}: done, ${JSON.stringify(step)}: ${what}. Nothing was queued.`),
          ),
  }));
}

interface Known {
  readonly step: string;
  readonly key: string;
  readonly standing: Standing;
}

/** The named steps that have no record yet. Throws where the ledger says something else about one of them. */
export function stillToRecord(
  done: readonly DoneStep[],
  steps: readonly Known[],
  subject: string,
  where: string,
): DoneStep[] {
  return done.filter(({ step }) => {
    const known = steps.find((one) => one.step === step);
    if (known === undefined || known.standing === "absent") return true;
    if (known.standing === "taken" || known.standing === "forgotten") return false;
    throw new NevertwiceError(
      "INVALID_INPUT",
      `${where}: ${JSON.stringify(subject)} was started already, and its step ${JSON.stringify(step)} is ${known.standing === "waiting" ? "queued" : "in the ledger as not taken"}. done is for a subject that nevertwice has not started. Leave done out to go on with it, or stop() the subject. Nothing was changed.`,
      { key: known.key },
    );
  });
}

/** One write for all of them, in the caller's transaction where there is one. */
export async function recordDone(
  swaps: Swaps,
  done: readonly DoneStep[],
  intentOf: (step: string) => Promise<PastIntent>,
  keepMs: number | null,
): Promise<void> {
  const { now } = swaps.now();
  // From now on, however long ago the step was taken: a record that has expired already would let it be taken again.
  const keepOf = (at: number | null) => (keepMs === null ? null : keepMs + Math.max(0, now - (at ?? now)));
  const records = await Promise.all(
    done.map(async ({ step, at }) => (await intentOf(step)).recordOf(null, { as: "done", at, keepMs: keepOf(at) })),
  );
  const puts = records.flatMap((record) => (record === null ? [] : [{ record, expected: null }]));
  const results = await swaps.write(puts);
  if (results.every((result) => result?.ok)) return;
  throw new NevertwiceError(
    "IN_FLIGHT",
    "another process started the same subject at the same moment. Call start again: what is recorded stays.",
  );
}
