/**
 * Names of the stretch of time an instant falls into, for keys such as "one follow-up per lead and day". They take the
 * instant of the intent, never the wall clock: a retry after midnight must still name the day that was meant.
 */
import { type At, atMs, utcDay } from "../at.ts";
import { type Duration, durationMs, formatDuration } from "../duration.ts";
import { configError, NevertwiceError, noSuchOption } from "../errors.ts";

export interface ZoneOptions {
  /** An IANA name such as "Europe/Berlin". UTC unless given. */
  readonly timeZone?: string | undefined;
}

export interface BillingOptions extends ZoneOptions {
  /** The day of the month a period begins on, 1 to 31; the last day of a month that is too short. */
  readonly anchorDay: number;
}

interface LocalDate {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

const DAY_MS = 86_400_000;
const NO_OPTIONS: ZoneOptions = {};

/** "2026-01-15" */
export function day(at: At, options: ZoneOptions = NO_OPTIONS): string {
  return dateText(localDate("day", at, options));
}

/** The ISO week, "2026-W03": Monday first, and it belongs to the year of its Thursday. */
export function week(at: At, options: ZoneOptions = NO_OPTIONS): string {
  const { year, month, day } = localDate("week", at, options);
  const date = utcDay(year, month, day);
  const weekday = (new Date(date).getUTCDay() + 6) % 7;
  const thursday = date + (3 - weekday) * DAY_MS;
  const weekYear = new Date(thursday).getUTCFullYear();
  const number = 1 + Math.floor((thursday - utcDay(weekYear, 1, 1)) / (7 * DAY_MS));
  return `${digits(weekYear, 4)}-W${digits(number, 2)}`;
}

/** "2026-01" */
export function month(at: At, options: ZoneOptions = NO_OPTIONS): string {
  return dateText(localDate("month", at, options)).slice(0, 7);
}

/** "2026-Q1" */
export function quarter(at: At, options: ZoneOptions = NO_OPTIONS): string {
  const { year, month } = localDate("quarter", at, options);
  return `${digits(year, 4)}-Q${Math.ceil(month / 3)}`;
}

/** "2026/1y": four digits alone could be anything, and a record is kept for as long as the window in its key needs. */
export function year(at: At, options: ZoneOptions = NO_OPTIONS): string {
  return `${digits(localDate("year", at, options).year, 4)}/1y`;
}

/** The first day of the period and the first day after it: "2026-01-31/2026-02-28" for an anchor on the 31st. */
export function billingPeriod(at: At, options: BillingOptions): string {
  // Without options the day is what is missing; a text is the zone in the wrong place.
  if (options !== undefined) checkOptions("billingPeriod", options, true);
  const anchor: unknown = options?.anchorDay;
  if (typeof anchor !== "number" || !Number.isInteger(anchor) || anchor < 1 || anchor > 31) {
    throw configError(
      "billingPeriod: anchorDay must be a whole number from 1 to 31, the day of the month a period begins on.",
    );
  }
  const { year, month, day } = zonedDate("billingPeriod", at, options);
  const begun = day >= anchorIn(year, month, anchor).day;
  const start = anchorIn(year, begun ? month : month - 1, anchor);
  const end = anchorIn(start.year, start.month + 1, anchor);
  return `${dateText(start)}/${dateText(end)}`;
}

/** The anchor day in a month that may be 0 or 13, which are of the neighbouring years. */
function anchorIn(year: number, month: number, anchor: number): LocalDate {
  const last = new Date(utcDay(year, month + 1, 0));
  return { year: last.getUTCFullYear(), month: last.getUTCMonth() + 1, day: Math.min(anchor, last.getUTCDate()) };
}

/**
 * The window of the given size, named by its first instant in UTC: "2026-01-15T09:35:00Z/5m".
 *
 * Without a time zone windows are counted from the Unix epoch. With one they follow that zone's wall clock from local
 * midnight, so the size must divide a day. Where a clock is set back, windows no longer than the repeated stretch get two
 * names, and longer ones span it; where it is set forward, a window that would begin in the gap begins after it. So every
 * window is one stretch of time, named by its first instant.
 */
export function windowOf(size: Duration, at: At, options: ZoneOptions = NO_OPTIONS): string {
  const sizeMs = durationMs(size, "windowOf");
  if (sizeMs < 1) throw configError("windowOf: the size must be at least 1ms.");
  checkOptions("windowOf", options);
  const time = instantOf("windowOf", at);
  const zone = options.timeZone;
  const start = zone === undefined ? Math.floor(time / sizeMs) * sizeMs : zonedStart(sizeMs, time, zone);
  const iso = new Date(start).toISOString();
  return `${iso.endsWith(".000Z") ? `${iso.slice(0, -5)}Z` : iso}/${sizeText(sizeMs)}`;
}

/** formatDuration rounds sizes such as 1501ms for people; a name must not. */
function sizeText(sizeMs: number): string {
  return sizeMs % 1_000 === 0 ? formatDuration(sizeMs) : `${sizeMs}ms`;
}

function zonedStart(sizeMs: number, time: number, timeZone: string): number {
  if (sizeMs > DAY_MS || DAY_MS % sizeMs !== 0) {
    throw configError(
      `windowOf: with a timeZone windows begin at local midnight, so the size must divide a day evenly, such as "5m", "1h", "6h" or "1d", and ${sizeText(sizeMs)} does not. For longer ones use week() or month(), or leave timeZone out to count from the Unix epoch.`,
    );
  }
  const wallStart = (at: number, offset: number) => Math.floor((at + offset) / sizeMs) * sizeMs;
  const offset = offsetMs(time, timeZone);
  const wall = wallStart(time, offset);
  const start = wall - offset;
  const shift = lastShift(start - sizeMs, start, time, timeZone);
  if (shift === null) return start;
  const setBack = offsetMs(shift - 1, timeZone) - offset;
  const wallBefore = wallStart(shift - 1, offset + setBack);
  // Set back by less than a window: what comes again belongs to the window that was under way.
  const spans = setBack > 0 ? sizeMs > setBack && wall <= wallBefore : wall === wallBefore;
  return spans ? zonedStart(sizeMs, shift - 1, timeZone) : Math.max(start, shift);
}

/** When the clock was last changed, after `from` and up to `to`; null: it was not. */
function lastShift(from: number, between: number, to: number, timeZone: string): number | null {
  const offset = offsetMs(to, timeZone);
  let after = to;
  let before = between;
  if (offsetMs(between, timeZone) === offset) {
    if (offsetMs(from, timeZone) === offset) return null;
    [before, after] = [from, between];
  }
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetMs(middle, timeZone) === offset) after = middle;
    else before = middle;
  }
  return after;
}

/** A misspelt option would give the window of another zone without a word. Checked in every call, so nothing is allocated. */
function checkOptions(where: string, options: unknown, anchored = false): void {
  if (options === NO_OPTIONS) return;
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw notOptions(where, options, anchored);
  for (const name in options) {
    if (name === "timeZone" || (anchored && name === "anchorDay")) continue;
    throw noSuchOption(where, name, anchored ? ["anchorDay", "timeZone"] : ["timeZone"]);
  }
}

function notOptions(where: string, given: unknown, anchored: boolean): NevertwiceError {
  const zone = typeof given === "string" ? given : "Europe/Berlin";
  const written = `{ ${anchored ? "anchorDay: 1, " : ""}timeZone: ${JSON.stringify(zone)} }`;
  const call = `${where}(${where === "windowOf" ? "size, " : ""}at, ${written})`;
  const what =
    typeof given === "string"
      ? JSON.stringify(given)
      : given === null
        ? "null"
        : Array.isArray(given)
          ? "an array"
          : `a ${typeof given}`;
  return configError(`${where}: its options are an object, and this is ${what}. Write ${call}.`);
}

function localDate(where: string, at: At, options: ZoneOptions): LocalDate {
  checkOptions(where, options);
  return zonedDate(where, at, options);
}

function zonedDate(where: string, at: At, options: ZoneOptions): LocalDate {
  const time = instantOf(where, at);
  const zone = options.timeZone;
  const date = new Date(zone === undefined ? time : time + offsetMs(time, zone));
  return { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() };
}

/** How far the zone's wall clock is ahead of UTC at an instant. */
export function offsetMs(time: number, timeZone: string): number {
  const field: Record<string, number> = {};
  for (const { type, value } of formatterOf(timeZone).formatToParts(time)) field[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = field;
  const local = utcDay(year, month, day) + ((hour * 60 + minute) * 60 + second) * 1_000;
  return local - Math.floor(time / 1_000) * 1_000;
}

// Making a formatter takes about 50 µs and using it about 2. A program uses a few zones; one that goes over users' zones
// would keep several hundred, so the oldest make way.
const FORMATTERS_KEPT = 64;
const formatters = new Map<string, Intl.DateTimeFormat>();

function formatterOf(timeZone: unknown): Intl.DateTimeFormat {
  const known = formatters.get(timeZone as string);
  if (known !== undefined) return known;
  const made = makeFormatter(timeZone);
  if (formatters.size >= FORMATTERS_KEPT) formatters.delete(formatters.keys().next().value as string);
  formatters.set(timeZone as string, made);
  return made;
}

function makeFormatter(timeZone: unknown): Intl.DateTimeFormat {
  const unknown = `timeZone: ${JSON.stringify(timeZone)} is not a time zone this Node.js knows. Use an IANA name such as "Europe/Berlin" or "UTC".`;
  if (typeof timeZone !== "string" || timeZone === "") throw configError(unknown);
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone,
      calendar: "gregory",
      numberingSystem: "latn",
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch (error) {
    throw configError(unknown, error);
  }
}

function instantOf(where: string, at: unknown): number {
  return atMs(at, (what) => invalidAt(where, what));
}

function invalidAt(where: string, what: string): NevertwiceError {
  return new NevertwiceError(
    "INVALID_KEY",
    `${where}: ${what}. A window takes an explicit instant and never the wall clock: pass the time the intent is for, as a Date, epoch milliseconds or an ISO date-time with an offset, so that a retry names the same window.`,
  );
}

function dateText({ year, month, day }: LocalDate): string {
  return `${digits(year, 4)}-${digits(month, 2)}-${digits(day, 2)}`;
}

function digits(value: number, width: number): string {
  return String(value).padStart(width, "0");
}
