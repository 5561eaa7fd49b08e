/**
 * Numbers slots so that the one after has the next number: what is taken in turn by it never comes twice in a row.
 */
import { durationMs } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { instantOfSlot, type Timetable } from "./timetable.ts";

const DAY_MS = 86_400_000;
// The first Monday of the Unix epoch.
const FIRST_MONDAY = 4;

/**
 * Null: a text of another kind, which has no slot before it. `times` is the schedule, if the slot is one of its instants;
 * "any": it is not known, and such a slot has no number.
 */
export function slotNumber(slot: string, times?: Timetable | "any"): number | null {
  const instant = instantOfSlot(slot);
  if (instant !== null) return times === "any" ? null : instantNumber(slot, instant, times);
  return calendarNumber(slot) ?? windowNumber(slot);
}

function instantNumber(slot: string, instant: number, times: Timetable | undefined): number {
  if (times !== undefined) return times.number(instant);
  throw configError(
    `seed.rotate: ${slot} is a scheduled instant, and its name does not say which one was before it. Use the seed of the job (ctx.seed.rotate(list)), or pass the schedule: seed(job, slot, timetable({ cron })).rotate(list).`,
  );
}

/** Days, ISO weeks, months, quarters and years, as slotOf names them. */
function calendarNumber(slot: string): number | null {
  const [, year = "", kind = "", rest = ""] = /^(\d{4})(-Q|-W|\/1y|-)?(\d\d-\d\d|\d{1,2})?$/.exec(slot) ?? [];
  const number = Number(rest);
  if (kind === "/1y" && rest === "") return Number(year);
  if (kind === "-Q" && number >= 1 && number <= 4 && rest.length === 1) return Number(year) * 4 + number - 1;
  if (kind === "-W" && number >= 1 && number <= 53 && rest.length === 2) return weekNumber(Number(year), number);
  if (kind !== "-") return null;
  if (rest.length === 2 && number >= 1 && number <= 12) return Number(year) * 12 + number - 1;
  const date = rest.length === 5 ? Date.parse(`${slot}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(date) ? null : date / DAY_MS;
}

function weekNumber(year: number, week: number): number {
  // The fourth of January is in the first week of its year.
  const inFirstWeek = Date.parse(`${String(year).padStart(4, "0")}-01-04T00:00:00Z`) / DAY_MS;
  return Math.floor((inFirstWeek - FIRST_MONDAY) / 7) + week - 1;
}

/** "2026-01-15T09:35:00Z/5m": counted from the Unix epoch. A zone moves the beginnings, by less than a window each way. */
function windowNumber(slot: string): number | null {
  const [, start = "", size = ""] = /^(\d{4}-\d\d-\d\dT[\d:.]+Z)\/(\d+(?:ms|[smhdw]))$/.exec(slot) ?? [];
  const at = Date.parse(start);
  if (Number.isNaN(at)) return null;
  return Math.round(at / durationMs(size, "slot"));
}
