/** When a job is due: instants that every host computes alike, whatever its clock says. */
import { type Duration, durationMs } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { parseCron } from "./cron-library.ts";
import { cronNumbers } from "./cron-number.ts";
import { longestCronGapMs } from "./longest-gap.ts";

export interface Timetable {
  /** The first instant after this one; null: there is none any more. */
  next(after: number): number | null;
  /** The last instants up to and including this one, oldest first. */
  upTo(at: number, count: number): number[];
  /** Counts the instants: the next one has the next number. */
  number(at: number): number;
  /** The longest time from one instant to the next; 0: there are no two. */
  longestGapMs(): number;
}

export interface TimetableOptions {
  /** "0 6 * * *": minute, hour, day of month, month, day of week. */
  readonly cron?: string;
  /** Instead: every so often, counted from 1970 in UTC. */
  readonly every?: Duration;
  /** The zone of the cron expression; UTC unless given. */
  readonly tz?: string;
}

const SHORTEST_EVERY_MS = 100;

export function timetable({ cron, every, tz }: TimetableOptions, where: string): Timetable {
  if ((cron === undefined) === (every === undefined))
    throw configError(`${where}: give either cron ("0 6 * * *") or every ("5m"), one of them.`);
  if (cron !== undefined) return byCron(cron, tz ?? "UTC", where);
  if (tz !== undefined) throw configError(`${where}: tz belongs to cron; every is counted in UTC.`);
  return byInterval(durationMs(every as Duration, `${where}: every`), where);
}

function byCron(expression: string, zone: string, where: string): Timetable {
  const cron = parseCron(expression, zone, where);
  return {
    longestGapMs: () => longestCronGapMs(cron, where),
    number: cronNumbers(cron, zone, where),
    next: (after) => cron.nextRun(new Date(after))?.getTime() ?? null,
    upTo: (at, count) =>
      cron
        // Runs before a second: asked for the next one, and one more, so that the instant itself counts and none after it.
        .previousRuns(count + 1, new Date(at + 1_000))
        .map((run) => run.getTime())
        .filter((run) => run <= at)
        .slice(0, count)
        .reverse(),
  };
}

function byInterval(everyMs: number, where: string): Timetable {
  if (everyMs < SHORTEST_EVERY_MS) throw configError(`${where}: every must be at least ${SHORTEST_EVERY_MS}ms.`);
  const last = (at: number) => Math.floor(at / everyMs) * everyMs;
  return {
    longestGapMs: () => everyMs,
    number: (at) => Math.floor(at / everyMs),
    next: (after) => last(after) + everyMs,
    upTo: (at, count) => Array.from({ length: count }, (_, i) => last(at) - (count - 1 - i) * everyMs),
  };
}

const SLOT_MARK = "/slot";

/** What names a scheduled instant in keys, in the ledger and on the screen. */
export function slotOfInstant(at: number): string {
  const iso = new Date(at).toISOString();
  // Behind a slash, as windows are: a moment that just passed is a slot here, not the time of a call.
  return `${iso.endsWith(":00.000Z") ? `${iso.slice(0, 16)}Z` : iso}${SLOT_MARK}`;
}

/** The instant that such a name stands for; null: it is another text. */
export function instantOfSlot(slot: string): number | null {
  const at = slot.endsWith(SLOT_MARK) ? Date.parse(slot.slice(0, -SLOT_MARK.length)) : Number.NaN;
  return !Number.isNaN(at) && slotOfInstant(at) === slot ? at : null;
}
