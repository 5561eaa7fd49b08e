/**
 * Numbers the instants of a cron expression. Days and times of day are counted apart, on the wall clock of the zone: to
 * walk through all instants would take seconds for an expression of every few minutes.
 *
 * Where the clock is set back, the repeated times get their numbers again, and neighbours still differ. Where it is set
 * forward, the numbers of the times in the gap are left out.
 */
import { offsetMs } from "../core/key/windows.ts";
import type { CronExpression } from "./cron-library.ts";
import { type CronParts, cronParts } from "./longest-gap.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
// The same for every process, whenever it starts.
const FROM = Date.UTC(2024, 0, 1);

export function cronNumbers(cron: CronExpression, zone: string, where: string): (at: number) => number {
  let parts: CronParts | null = null;
  let counted = { day: FROM, days: 0 };
  const daysUpTo = (day: number, { days, everyDay }: CronParts) => {
    if (everyDay) return Math.round((day - FROM) / DAY_MS);
    if (day < counted.day) counted = { day: FROM, days: 0 };
    let at = counted.day;
    let count = counted.days;
    // At most one for each day since 2024.
    for (;;) {
      const next = days.nextRun(new Date(at - 1_000))?.getTime();
      if (next === undefined || next >= day) break;
      count += 1;
      at = next + DAY_MS;
    }
    counted = { day, days: count };
    return count;
  };
  return (at) => {
    parts ??= cronParts(cron.getPattern(), where);
    const even = evenGapMs(parts);
    if (even !== null) return Math.floor(at / even);
    const wall = at + offsetMs(at, zone);
    const day = Math.floor(wall / DAY_MS) * DAY_MS;
    const minute = Math.floor((wall - day) / MINUTE_MS) * MINUTE_MS;
    // A time that the clock leaves out in spring is due at the first moment after the gap.
    const before = Math.max(0, parts.times.filter((time) => time <= minute).length - 1);
    const minutes = daysUpTo(day, parts) * parts.times.length + before;
    const inMinute = parts.seconds.filter((second) => second < wall - day - minute).length;
    return minutes * parts.seconds.length + inMinute;
  };
}

/** Every day at times that are evenly spread: then the instants are too, wherever clocks are changed by whole gaps. */
function evenGapMs({ times, seconds, everyDay }: CronParts): number | null {
  const gapMs = DAY_MS / times.length;
  const even =
    everyDay && seconds.length === 1 && times.every((time, at) => time === (times[0] as number) + at * gapMs);
  return even && times.length > 1 && 3_600_000 % gapMs === 0 ? gapMs : null;
}
