/**
 * Times as text. Only forms that mean one instant are read: "02/10/2026" is in February for some readers and in October for
 * others, and JavaScript's own parser chooses silently.
 */
import type { Args } from "./args.ts";
import { UsageError } from "./term/exit.ts";
import { oneLine } from "./term/text.ts";

export interface Instant {
  readonly at: number;
  /** False: the text names no zone, and was read as UTC. */
  readonly hasZone: boolean;
}

/** For error messages. */
export const TIME_FORMS =
  "2026-10-02, 2026-10-02T09:00:00Z, 2026-10-02T09:00:00+02:00, or epoch seconds or milliseconds";

const ISO =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?)?$/;

/** ISO 8601 (also with a space, and with an offset of hours, as databases write it), or epoch seconds or milliseconds. */
export function readInstant(value: unknown): Instant | null {
  if (typeof value === "number") return ofEpoch(value);
  if (typeof value !== "string") return null;
  const text = value.trim();
  return /^\d+(\.\d+)?$/.test(text) ? ofEpoch(Number(text)) : ofIso(text);
}

// The years 1973 to 2286. Outside of them a number may be something else: 20260115 a date, sixteen digits microseconds.
const SECONDS = { from: 1e8, to: 1e10 };
const MILLISECONDS = { from: 1e11, to: 1e13 };

function ofEpoch(number: number): Instant | null {
  const isWithin = ({ from, to }: typeof SECONDS) => number >= from && number < to;
  if (isWithin(SECONDS)) return { at: Math.round(number * 1_000), hasZone: true };
  return isWithin(MILLISECONDS) ? { at: Math.round(number), hasZone: true } : null;
}

function ofIso(text: string): Instant | null {
  const match = ISO.exec(text);
  if (match === null) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0)) as Six;
  const wall = new Date(0);
  wall.setUTCFullYear(year, month - 1, day);
  wall.setUTCHours(hour, minute, second, Math.floor(Number(`0.${match[7] ?? 0}`) * 1_000));
  // 30 February would be taken for 2 March, and 24:30 for the next day.
  const isReal =
    wall.getUTCMonth() === month - 1 &&
    wall.getUTCDate() === day &&
    wall.getUTCHours() === hour &&
    wall.getUTCMinutes() === minute &&
    wall.getUTCSeconds() === second;
  const [hours, minutes] = [Number(match[10] ?? 0), Number(match[11] ?? 0)];
  if (!isReal || hours > 23 || minutes > 59) return null;
  const offsetMs = (match[9] === "-" ? -1 : 1) * (hours * 60 + minutes) * 60_000;
  return { at: wall.getTime() - offsetMs, hasZone: match[8] !== undefined || match[9] !== undefined };
}

type Six = [number, number, number, number, number, number];

/** Of a flag; only an instant with its zone will do. Undefined: it was not given. */
export function instantFlag(args: Args, flag: string): number | undefined {
  const text = args.text(flag);
  if (text === undefined) return undefined;
  const found = readInstant(text);
  if (found?.hasZone) return found.at;
  const what = found === null ? "is not a time that can be read for certain" : "has no time zone";
  throw new UsageError(`--${flag} ${oneLine(text)} ${what}. Write it as 2026-01-15T09:00:00Z.`);
}
