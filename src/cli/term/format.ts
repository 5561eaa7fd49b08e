/** Times, ages and keys as people read them. */
import { visible } from "./text.ts";

// "nt1_" and ten characters: 50 bits, so that even a ledger of millions rarely has two alike, and short enough to type.
const SHORT_KEY = 14;

export function shortKey(key: string): string {
  return key.slice(0, SHORT_KEY);
}

interface Unit {
  readonly letter: string;
  readonly name: string;
  readonly ms: number;
}

const SECOND: Unit = { letter: "s", name: "second", ms: 1_000 };
const UNITS: readonly Unit[] = [
  { letter: "y", name: "year", ms: 365.25 * 86_400_000 },
  { letter: "d", name: "day", ms: 86_400_000 },
  { letter: "h", name: "hour", ms: 3_600_000 },
  { letter: "m", name: "minute", ms: 60_000 },
  SECOND,
];
const UP_TO_DAYS = UNITS.slice(1);

const MOST_SLACK_MS = 15 * 60_000;

/** Rounded down, but for a moment: 30 days less a blink are 30 days, not 29. The moment does not grow with the count. */
function largestUnit(exactMs: number, units: readonly Unit[] = UNITS) {
  const rounded = ({ ms }: Unit) => Math.floor((exactMs + Math.min(ms / 100, MOST_SLACK_MS)) / ms);
  const unit = units.find((one) => rounded(one) >= 1) ?? SECOND;
  return { ...unit, count: rounded(unit) };
}

/** For tables: "12s", "4m", "3h", "5d". */
export function age(ms: number): string {
  const { count, letter } = largestUnit(Math.max(0, ms));
  return `${count}${letter}`;
}

/** For sentences: "4 minutes". */
function span(ms: number): string {
  const { count, name } = largestUnit(Math.max(0, ms));
  return plural(count, name);
}

/** Of `keep`, for tables: in days however many there are, to be compared with what was configured. */
export function keepAge(ms: number): string {
  const { count, letter } = largestUnit(Math.max(0, ms), UP_TO_DAYS);
  return `${count}${letter}`;
}

/** Of `keep`, for sentences: "732 days". */
export function keepSpan(ms: number): string {
  const { count, name } = largestUnit(Math.max(0, ms), UP_TO_DAYS);
  return plural(count, name);
}

export function relative(at: number, now: number): string {
  if (Math.abs(now - at) < 1_000) return "now";
  return at <= now ? `${span(now - at)} ago` : `in ${span(at - now)}`;
}

/** Local time with its offset: 2026-01-15T10:15:02+01:00. */
export function localIso(at: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "(not a time)";
  const offset = -date.getTimezoneOffset();
  const two = (n: number) => String(n).padStart(2, "0");
  const shifted = new Date(at + offset * 60_000).toISOString().slice(0, 19);
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return shifted + zone;
}

export function moment(at: number, now: number): string {
  return `${localIso(at)} (${relative(at, now)})`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

export function bytes(count: number): string {
  for (const [unit, size] of [
    ["TB", 1e12],
    ["GB", 1e9],
    ["MB", 1e6],
  ] as const) {
    if (count >= size) return `${(count / size).toFixed(count >= 10 * size ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(count / 1e3)} kB`;
}

/** A value on a command line that is to be copied: quoted for a shell where it needs to be. */
export function shellWord(value: string): string {
  const shown = visible(value);
  return /^[\w@%+=:,./-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", "'\\''")}'`;
}
