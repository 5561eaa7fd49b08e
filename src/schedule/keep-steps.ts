/**
 * How long the records of a job's slots are kept, by the instants of the slots. Releases with different keeps may run the
 * same job, one after the other or at the same time, and a record is kept for as long as the process that ran the slot
 * said. From these steps follows from which instant on every slot that is done still has its record.
 */

/** Every slot from `since` up to the next step was run with this keep or a longer one. */
export interface KeepStep {
  /** Epoch ms; null: from the beginning. */
  readonly since: number | null;
  /** Null: forever. */
  readonly keepMs: number | null;
}

export interface KeptSlots {
  /** Later steps have a longer keep. There is at least one. */
  readonly steps: readonly KeepStep[];
  /** The latest slot that was run before its instant; null: there is none. */
  readonly ahead: number | null;
}

export interface SlotRun {
  /** What the process keeps the slot for; null: forever. */
  readonly keepMs: number | null;
  /** The slot's instant. */
  readonly at: number;
  readonly now: number;
}

const HOUR_MS = 3_600_000;
// Clocks differ and are set: a longer keep counts from a moment later on, which costs nothing, since those slots are recent.
const RISE_MARGIN_MS = HOUR_MS;
const MOST_STEPS = 16;

/** To be recorded before the slot is run. The same object where nothing changes. */
export function withRun(kept: KeptSlots, run: SlotRun): KeptSlots {
  const steps = withKeep(kept, run);
  const ahead = run.at > run.now && run.at > orBeginning(kept.ahead) ? run.at : kept.ahead;
  if (steps === kept.steps && ahead === kept.ahead) return kept;
  return { steps: bounded(steps, run.now), ahead };
}

/** Every slot from this instant on that is done still has its record, and will for a moment. */
export function knownFrom({ steps }: KeptSlots, now: number): number {
  for (let index = steps.length - 1; index >= 0; index -= 1) {
    const { since, keepMs } = steps[index] as KeepStep;
    const edge = keepMs === null ? Number.NEGATIVE_INFINITY : now - keepMs + marginOf(keepMs);
    const end = steps[index + 1]?.since ?? Number.POSITIVE_INFINITY;
    if (edge > orBeginning(since)) return Math.min(edge, end);
  }
  return orBeginning((steps[0] as KeepStep).since);
}

function withKeep({ steps, ahead }: KeptSlots, { keepMs, now }: SlotRun): readonly KeepStep[] {
  const last = steps.at(-1) as KeepStep;
  if (last.keepMs === keepMs) return steps;
  const shorter = steps.filter((step) => isShorter(step.keepMs, keepMs));
  const longer = steps[shorter.length];
  // The first of the steps that promise as much or more promises this; what follows would promise too much.
  if (longer !== undefined) return [...shorter, { since: longer.since, keepMs }];
  // Whoever read the note before this change may still run a slot for which it asked: none of those is later than this.
  const since = Math.max(now, orBeginning(ahead), orBeginning(last.since)) + RISE_MARGIN_MS;
  return [...steps, { since, keepMs }];
}

/** Without what no slot needs any more, and not more than a few: a step that is left out counts as the one before it. */
function bounded(steps: readonly KeepStep[], now: number): readonly KeepStep[] {
  const first = steps.findIndex(({ keepMs }, index) => {
    const next = steps[index + 1];
    return next === undefined || keepMs === null || orBeginning(next.since) > now - keepMs;
  });
  const [oldest, ...rest] = steps.slice(first);
  return [oldest as KeepStep, ...rest.slice(-(MOST_STEPS - 1))];
}

function isShorter(one: number | null, other: number | null): boolean {
  return one !== null && (other === null || one < other);
}

/** A record that expires between the answer and the claim would be as bad as one that is gone. */
function marginOf(keepMs: number): number {
  return Math.min(HOUR_MS, keepMs / 8);
}

function orBeginning(at: number | null): number {
  return at ?? Number.NEGATIVE_INFINITY;
}
