/**
 * The longest time between two instants of a cron expression: what its slots have to be remembered for. Days and times of
 * day are looked at apart from each other, since an expression of every minute in one month has half a million instants
 * between the two that matter.
 */
import { type CronExpression, parseCron } from "./cron-library.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
// The same for every process, whenever it starts. The span has a 29 February that follows eight years after another.
const FROM = Date.UTC(2024, 0, 1);
const TO = Date.UTC(2108, 0, 1);
/** More than a year of days. What is less frequent than daily is looked at for longer: once a month for 41 years. */
const MOST_DAYS = 500;
// To look takes some 20 ms; a program may define a job for each of its customers.
const GAPS_KEPT = 64;
const gaps = new Map<string, number>();

export function longestCronGapMs(cron: CronExpression, where: string): number {
  const pattern = cron.getPattern();
  const known = gaps.get(pattern);
  if (known !== undefined) return known;
  const gapMs = findLongestGapMs(pattern, where);
  if (gaps.size >= GAPS_KEPT) gaps.delete(gaps.keys().next().value as string);
  gaps.set(pattern, gapMs);
  return gapMs;
}

export interface CronParts {
  /** The times of day without seconds, in milliseconds after midnight. */
  readonly times: readonly number[];
  /** The seconds of a minute, in milliseconds. */
  readonly seconds: readonly number[];
  /** The days alone, each at midnight in UTC. */
  readonly days: CronExpression;
  readonly everyDay: boolean;
}

/** Times of day and days, apart from each other and from the zone. */
export function cronParts(pattern: string, where: string): CronParts {
  // Five fields, or seconds in front of them, or a year behind those; nicknames such as @yearly are spelled out already.
  const fields = pattern.trim().split(/\s+/);
  const [seconds, [minute, hour, ...days]] = fields.length > 5 ? [fields[0], fields.slice(1)] : ["0", fields];
  const parse = (...parts: unknown[]) => parseCron(parts.join(" "), "UTC", where);
  const minutes = instants(parse(minute, "*", "*", "*", "*"), HOUR_MS);
  const hours = instants(parse(0, hour, "*", "*", "*"), DAY_MS);
  const [date, month, weekday, ...year] = days;
  return {
    times: hours.flatMap((from) => minutes.map((at) => from + at)),
    seconds: instants(parse(seconds, "*", "*", "*", "*", "*"), 60_000),
    days: parse(0, 0, 0, date, month, weekday, ...year),
    everyDay: [date, month, weekday, ...year].every((field) => field === "*"),
  };
}

function findLongestGapMs(pattern: string, where: string): number {
  const { times, seconds, days } = cronParts(pattern, where);
  const dayGapMs = longestDayGapMs(days);
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  const within = times.slice(1).map((at, index) => at - (times[index] as number));
  // Not worth a walk through the seconds: at most a minute longer.
  const slackMs = seconds.length === 1 ? 0 : 60_000;
  return Math.max(dayGapMs === 0 ? 0 : dayGapMs + first - last, ...within) + slackMs;
}

/** When it is due in the first stretch of this length, counted from its beginning. */
function instants(cron: CronExpression, lengthMs: number): number[] {
  const found: number[] = [];
  let at = FROM - 1_000;
  // An hour has 60 minutes and a day 24 hours, so this ends.
  for (;;) {
    const next = cron.nextRun(new Date(at))?.getTime();
    if (next === undefined || next >= FROM + lengthMs) return found;
    found.push(next - FROM);
    at = next;
  }
}

/** 0: there are no two such days. */
function longestDayGapMs(cron: CronExpression): number {
  let longest = 0;
  let last: number | null = null;
  for (let days = 0; days < MOST_DAYS; days += 1) {
    const next: number | undefined = cron.nextRun(new Date(last ?? FROM - 1_000))?.getTime();
    if (next === undefined || next > TO) break;
    if (last !== null) longest = Math.max(longest, next - last);
    last = next;
  }
  return longest;
}
