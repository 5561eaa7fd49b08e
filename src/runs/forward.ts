/**
 * A subject of a sequence goes forward only. The list of steps may change with a release, so where the subject is follows
 * from what it has behind it, compared with the present list. Pure: sequence.ts reads the ledger.
 *
 * - Everything up to the last step that the subject has behind it is over, taken or not.
 * - A step that was removed from the list counts at the place it had: before the steps that followed it, and after any new
 *   step in front of those. A new step may be the removed one under another name, so who has the one behind it does not
 *   take the other.
 */

export type Standing =
  /** Was never queued for this subject. */
  | "absent"
  /** Queued, and not known to have been sent. */
  | "waiting"
  /** Done, or in doubt. */
  | "taken"
  /** Settled so long ago that its record is gone. */
  | "forgotten"
  /** Surely not sent, and no tries left, or refused. */
  | "failed"
  /** Not taken because the step before it failed. */
  | "blocked"
  /** Not taken because the subject was stopped. */
  | "stopped"
  /** Not taken because a later step was behind the subject already. */
  | "passed"
  /** Not taken because the release that it met did not have it. */
  | "unlisted";

export function isBehind(standing: Standing): boolean {
  return standing === "taken" || standing === "forgotten";
}

const AHEAD: ReadonlySet<Standing> = new Set(["waiting", "failed", "blocked", "stopped", "unlisted"]);

/** Queued, and still to be taken: by a worker, or after a restart. */
export function isAhead(standing: Standing): boolean {
  return AHEAD.has(standing);
}

/** How many steps of the list are over for a subject. `enrolled`: what was ever queued for it, in order. */
export function stepsBehind(
  list: readonly string[],
  enrolled: readonly string[],
  isOver: (step: string) => boolean,
): number {
  const last = list.findLastIndex(isOver) + 1;
  let behind = last;
  forRemoved(list, enrolled, (step, place) => {
    if (isOver(step)) behind = Math.max(behind, place);
  });
  return behind;
}

// A subject meets few releases; of more names than this the oldest removed ones are dropped.
const MOST_ENROLLED = 1_000;

/** What was ever queued for a subject, with the present list in its present order. */
export function withList(enrolled: readonly string[], list: readonly string[]): string[] {
  const removed = new Map<number, string[]>();
  forRemoved(list, enrolled, (step, place) => {
    removed.set(place, [step, ...(removed.get(place) ?? [])]);
  });
  const steps = list.flatMap((step, place) => [...(removed.get(place) ?? []), step]);
  return [...steps, ...(removed.get(list.length) ?? [])].slice(-MOST_ENROLLED);
}

/** Last one first. `place`: of the first step in the list that used to come after it. */
function forRemoved(
  list: readonly string[],
  enrolled: readonly string[],
  visit: (step: string, place: number) => void,
): void {
  const places = new Map(list.map((step, place) => [step, place]));
  let next = list.length;
  for (const step of [...enrolled].reverse()) {
    const place = places.get(step);
    if (place === undefined) visit(step, next);
    else next = Math.min(next, place);
  }
}

export interface ListedStep {
  readonly step: string;
  readonly standing: Standing;
  /** taken, failed: when that was settled; null: it is not. */
  readonly settledAt: number | null;
  /** Why it failed. */
  readonly why: string;
}

export interface Progress {
  readonly steps: readonly ListedStep[];
  readonly behind: number;
  /** When the last step that is behind the subject was settled, removed ones included. */
  readonly lastTakenAt: number | null;
}

export type Decision =
  | { readonly do: "begin" }
  /** `yields`: the step before it was brought back, and is behind this one in the order of the outbox. */
  | { readonly do: "wait"; readonly until: number; readonly before: string; readonly yields: boolean }
  | { readonly do: "refuse"; readonly as: "passed" | "stopped" | "blocked"; readonly why: string };

/** Whether the step at `place` may begin now. */
export function decide(
  { steps, behind, lastTakenAt }: Progress,
  place: number,
  {
    afterMs,
    onFailed,
    now,
  }: { readonly afterMs: number; readonly onFailed: "stop" | "continue"; readonly now: number },
): Decision {
  if (place < behind) {
    const later = steps.findLast(({ standing }, i) => i > place && isBehind(standing));
    const named = later === undefined ? "a step that was removed from the list" : JSON.stringify(later.step);
    const why = `${named}, which comes later in the list, is behind it already: a subject goes forward only`;
    return { do: "refuse", as: "passed", why };
  }
  const before = stepBefore(steps, behind, place);
  if (before === null) return ripe(lastTakenAt, "the step before it");
  const named = JSON.stringify(before.step);
  switch (before.standing) {
    case "waiting":
      return { do: "wait", until: now + afterMs, before: before.step, yields: true };
    case "stopped":
      return {
        do: "refuse",
        as: "stopped",
        why: `the step before it, ${named}, was stopped. Call restart() to go on with both`,
      };
    case "failed":
    case "blocked":
      if (onFailed === "stop")
        return { do: "refuse", as: "blocked", why: `the step before it, ${named}, failed: ${before.why}` };
      return ripe(before.settledAt, before.step);
    default:
      // In doubt: it is not known when, or whether, it was taken.
      if (before.settledAt === null) return { do: "wait", until: now + afterMs, before: before.step, yields: false };
      return ripe(Math.max(before.settledAt, lastTakenAt ?? 0), before.step);
  }

  function ripe(since: number | null, step: string): Decision {
    const until = (since ?? 0) + (since === null ? 0 : afterMs);
    return until <= now ? { do: "begin" } : { do: "wait", until, before: step, yields: false };
  }
}

const COUNTS: ReadonlySet<Standing> = new Set(["waiting", "stopped", "failed", "blocked"]);

/** What the step at `place` follows: the nearest one that was taken, or is still to be. */
function stepBefore(steps: readonly ListedStep[], behind: number, place: number): ListedStep | null {
  for (let i = place - 1; i >= 0; i -= 1) {
    const one = steps[i] as ListedStep;
    if (one.standing === "taken") return one;
    if (COUNTS.has(one.standing) && i >= behind) return one;
  }
  return null;
}

/**
 * Whether a start queues a step. One that failed only because of the step before it is queued again together with that one:
 * not while that one stays failed. `before`: the step before it after this start; null: there is none ahead.
 */
export function isQueuedAgain(standing: Standing, before: Standing | null, onFailed: "stop" | "continue"): boolean {
  if (standing !== "blocked") return true;
  if (before === "stopped") return false;
  return onFailed === "continue" || (before !== "failed" && before !== "blocked");
}
