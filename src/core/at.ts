/** An instant as callers give it: read strictly, because a text without an offset is another instant on another host. */
import type { NevertwiceError } from "./errors.ts";

/** A Date, epoch milliseconds, or an ISO date-time with Z or an offset. */
export type At = Date | number | string;

const ISO_INSTANT = /^(\d{4})-(\d\d)-(\d\d)[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)$/;
// The same with parts left out from its end, and with or without an offset.
const ISO_IN_PART = /^(\d{4}-\d\d)(-\d\d)?(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d(?:[.,]\d+)?))?)?)?([Zz]|[+-]\d\d:?\d\d)?$/;
// Within the years that are written with four digits in every zone.
const EARLIEST = utcDay(1, 1, 2);
const LATEST = utcDay(9999, 12, 30);

/** Epoch milliseconds. `refuse` makes the error from what is wrong with the value. */
export function atMs(at: unknown, refuse: (what: string) => NevertwiceError): number {
  const time = at instanceof Date ? at.getTime() : typeof at === "string" ? parseIso(at, refuse) : at;
  if (typeof time !== "number" || !(time >= EARLIEST && time <= LATEST)) {
    throw refuse(at === undefined ? "no instant was given" : "this is not a valid instant");
  }
  if (typeof at === "number" && at >= 1e8 && at < 1e11) {
    // As milliseconds this is before March 1973. Taken so, every window would last a thousand times too long.
    throw refuse("the number looks like seconds, and milliseconds are wanted (multiply it by 1000)");
  }
  return Math.floor(time);
}

function parseIso(text: string, refuse: (what: string) => NevertwiceError): number {
  const match = ISO_INSTANT.exec(text);
  if (match === null) {
    throw refuse(whatIsMissing(text));
  }
  const [, year, month, date] = match.map(Number) as [number, number, number, number];
  // Date.parse takes 30 February for 2 March.
  const real = month >= 1 && month <= 12 && date >= 1 && date <= new Date(utcDay(year, month + 1, 0)).getUTCDate();
  const time = real ? Date.parse(text.replace(" ", "T").replace(",", ".")) : Number.NaN;
  if (Number.isNaN(time)) throw refuse("the text names no real date and time");
  return time;
}

/** With a text that is accepted: "end it with Z" alone would not do for a date. */
function whatIsMissing(text: string): string {
  const match = ISO_IN_PART.exec(text);
  if (match === null) return "the text is not an ISO date-time with Z or an offset, such as 2026-11-16T09:30:00Z";
  const [, month, date = "-01", hour = "00", minute = "00", second = "00", offset] = match;
  const whole = `${month}${date}T${hour}:${minute}:${second}${offset ?? "Z"}`;
  return offset === undefined
    ? `the text has no offset, so it is another instant in each time zone (write ${whole}, or end it with an offset such as +02:00)`
    : `the text has a date without a time of day (write ${whole})`;
}

/** Date.UTC reads the years 0 to 99 as 1900 to 1999; setUTCFullYear does not. */
export function utcDay(year: number, month: number, day: number): number {
  return new Date(0).setUTCFullYear(year, month - 1, day);
}
