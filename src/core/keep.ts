/**
 * How long a record has to be kept because of the time in its key. Forgotten before its window is over, "one report a
 * month" would run a second time in that month. A window is recognised by the shape of its name, anywhere in the text of
 * the key: a text that only resembles one is kept longer than it had to be, which harms nothing.
 */
import { LONGEST_DURATION_MS } from "./duration.ts";

/** A window, or a scheduled instant, that a key names. */
export interface NamedWindow {
  readonly name: string;
  /** The longest that a window of this kind lasts; 0 for a scheduled instant, whose name does not say when the next is. */
  readonly lengthMs: number;
  /** Epoch ms: over in every time zone, since the name does not say which one was meant. */
  readonly endsAt: number;
  /** The name is a whole text in the key, not a piece of one. */
  readonly whole: boolean;
}

export interface Keep {
  /** How long after it was settled; null: forever. */
  readonly keepMs: number | null;
  /** And not before this (epoch ms): an intent may name a window that has not begun. */
  readonly guardUntil: number | null;
  /** A window that a keep given by hand is too short for; null: there is none. */
  readonly tooShortFor: NamedWindow | null;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Local time has been up to 16 hours behind UTC (Alaska until 1867); today it is 12. */
const FARTHEST_BEHIND_MS = 16 * HOUR_MS;

/** What the windows of a calendar last at most. */
export const WINDOW_MS = {
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 31 * DAY_MS,
  quarter: 92 * DAY_MS,
  year: 366 * DAY_MS,
} as const;

const SIZE_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
};

/** What has to be kept at least, by refusal for jobs and by default for all: two windows, or two gaps between instants. */
export function leastKeepMs(windowMs: number): number {
  return Math.min(2 * windowMs, LONGEST_DURATION_MS);
}

/** The keep of a record with this key. A keep that was given by hand is not changed. */
export function keepOfWindows(keepMs: number | null, byHand: boolean, windows: readonly NamedWindow[]): Keep {
  if (keepMs === null) return { keepMs, guardUntil: null, tooShortFor: null };
  let most = keepMs;
  let guardUntil: number | null = null;
  const notBefore = (at: number) => {
    guardUntil = Math.max(guardUntil ?? at, at);
  };
  for (const { lengthMs, endsAt } of windows) {
    // A run ahead of its scheduled instant is asked for again when the instant comes.
    if (lengthMs === 0) notBefore(endsAt + keepMs);
    else if (!byHand) {
      most = Math.max(most, leastKeepMs(lengthMs));
      notBefore(endsAt + lengthMs);
    }
  }
  // A date inside a longer text may be anything: only a part that is a window is worth a warning.
  const tooShortFor = byHand
    ? outlastingWindow(
        keepMs,
        windows.filter(({ whole }) => whole),
      )
    : null;
  return { keepMs: most, guardUntil, tooShortFor };
}

/** How long a record that begins now is to be kept once it is settled. */
export function keepFrom({ keepMs, guardUntil }: { keepMs: number | null; guardUntil?: number | null }, now: number) {
  if (keepMs === null || guardUntil === null || guardUntil === undefined) return keepMs;
  return Math.max(keepMs, Math.min(Math.ceil(guardUntil - now), LONGEST_DURATION_MS));
}

/** The window that is longer than half of a keep given by hand; null: there is none. */
export function outlastingWindow(keepMs: number | null, windows: readonly NamedWindow[]): NamedWindow | null {
  const longest = longestOf(windows);
  return keepMs === null || longest === null || leastKeepMs(longest.lengthMs) <= keepMs ? null : longest;
}

function longestOf(windows: readonly NamedWindow[]): NamedWindow | null {
  return windows.reduce<NamedWindow | null>(
    (longest, one) => (one.lengthMs > (longest?.lengthMs ?? 0) ? one : longest),
    null,
  );
}

// A key whose parts are given may have 64 KiB. A whole input may be larger: dates far inside of it are not its window.
const MOST_CHARACTERS = 128 * 1024;
const NONE: readonly NamedWindow[] = Object.freeze([]);

/** All windows that a text names. */
export function windowsIn(text: string): readonly NamedWindow[] {
  let found: NamedWindow[] | null = null;
  // Every name but a year's has a dash behind four digits; to look for it costs less than a pattern over the whole text.
  for (const mark of ["-", "/1y"]) {
    for (let at = text.indexOf(mark, 4); at !== -1 && at < MOST_CHARACTERS; at = text.indexOf(mark, at + 1)) {
      if (!isYear(text, at - 4)) continue;
      const window = mark === "-" ? datedWindow(text, at - 4) : yearWindow(text, at - 4);
      if (window === null) continue;
      found ??= [];
      found.push(window);
      at = Math.max(at, at - 4 + window.name.length - 1);
    }
  }
  return found ?? NONE;
}

function isYear(text: string, from: number): boolean {
  for (let at = from; at < from + 4; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 48 || code > 57) return false;
  }
  return true;
}

const DATE = "(\\d{4})-(\\d\\d)-(\\d\\d)";
const DATED = new RegExp(
  [
    "(?<week>(\\d{4})-W(\\d\\d))",
    "(?<quarter>(\\d{4})-Q([1-4]))",
    `(?<period>${DATE}/${DATE})`,
    // With a letter right behind it, "5ms" may be five minutes and an "s": the longer reading is the safe one.
    "(?<sized>(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d{3})?)?Z)/(?:(\\d+)(ms(?![a-z])|s|m|h|d|w)|slot))",
    // With a digit right behind it, it is rather a month and more: the month is the longer window.
    `(?<day>${DATE}(?!\\d))`,
    "(?<month>(\\d{4})-(\\d\\d))",
  ].join("|"),
  "y",
);

function datedWindow(text: string, from: number): NamedWindow | null {
  DATED.lastIndex = from;
  const match = DATED.exec(text);
  if (match === null) return null;
  const [name] = match;
  const shape = Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined)?.[0];
  const span = spanOf(shape as string, name);
  return span === null ? null : { name, ...span, whole: isWhole(text, from, name) };
}

type Span = Pick<NamedWindow, "lengthMs" | "endsAt">;

function spanOf(shape: string, name: string): Span | null {
  if (shape === "sized") return sizedSpan(name);
  const [year = 0, second = 0, third = 1] = name.split(/[-/WQ]+/).map(Number);
  switch (shape) {
    case "week":
      return second < 1 || second > 53 ? null : calendarSpan(weekStart(year, second), WINDOW_MS.week);
    case "quarter":
      return calendarSpan(utcDay(year, 3 * second - 2, 1), WINDOW_MS.quarter);
    case "period":
      return periodSpan(name);
    case "day":
      return isDate(second, third) ? calendarSpan(utcDay(year, second, third), WINDOW_MS.day) : null;
    default:
      return isDate(second, 1) ? calendarSpan(utcDay(year, second, 1), WINDOW_MS.month) : null;
  }
}

function calendarSpan(start: number, lengthMs: number): Span {
  return { lengthMs, endsAt: start + lengthMs + FARTHEST_BEHIND_MS };
}

function periodSpan(name: string): Span | null {
  const [from = 0, to = 0] = name.split("/").map((date) => Date.parse(`${date}T00:00:00Z`));
  return to > from ? { lengthMs: to - from, endsAt: to + FARTHEST_BEHIND_MS } : null;
}

/** windowOf() and the slots of jobs: named by an instant in UTC. */
function sizedSpan(name: string): Span | null {
  const [from = "", size = ""] = name.split("/");
  const start = Date.parse(from);
  if (Number.isNaN(start)) return null;
  if (size === "slot") return { lengthMs: 0, endsAt: start };
  const [, count, unit] = /^(\d+)([a-z]+)$/.exec(size) as RegExpExecArray;
  const lengthMs = Math.min(Number(count) * (SIZE_MS[unit as string] as number), LONGEST_DURATION_MS);
  // With a shift in it a window of a zone's wall clock lasts longer, by less than its size. Such windows divide a day.
  const shiftMs = lengthMs > DAY_MS ? 0 : lengthMs;
  return lengthMs === 0 ? null : { lengthMs, endsAt: start + lengthMs + shiftMs };
}

function yearWindow(text: string, from: number): NamedWindow | null {
  const name = text.slice(from, from + "2026/1y".length);
  // A word, not the name that year() gives.
  if (text.startsWith("ear", from + name.length)) return null;
  const span = calendarSpan(utcDay(Number(name.slice(0, 4)), 1, 1), WINDOW_MS.year);
  return { name, ...span, whole: isWhole(text, from, name) };
}

/** In the text of a key every text of its own is in quotes. */
function isWhole(text: string, from: number, name: string): boolean {
  return text.charAt(from - 1) === '"' && text.charAt(from + name.length) === '"';
}

function isDate(month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/** The Monday of an ISO week: the first has 4 January in it. */
function weekStart(year: number, week: number): number {
  const fourth = utcDay(year, 1, 4);
  const weekday = (new Date(fourth).getUTCDay() + 6) % 7;
  return fourth + (7 * (week - 1) - weekday) * DAY_MS;
}

/** Date.UTC reads the years 0 to 99 as 1900 to 1999; setUTCFullYear does not. */
function utcDay(year: number, month: number, day: number): number {
  return new Date(0).setUTCFullYear(year, month - 1, day);
}
