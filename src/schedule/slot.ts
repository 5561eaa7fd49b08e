/** A job's slots: the stretch of time that one run stands for. */

import type { At } from "../core/at.ts";
import { durationMs } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { WINDOW_MS } from "../core/keep.ts";
import { day, month, quarter, week, windowOf, year } from "../core/key/windows.ts";

export type Per = "hour" | "day" | "week" | "month" | "quarter" | "year" | (string & {});

/** "day" → 2026-01-15, "week" → 2026-W03, "month" → 2026-01, "quarter" → 2026-Q1, "year" → 2026/1y, "hour" or any duration → when the window begins. */
export function slotOf(per: Per, at: At, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone };
  switch (per) {
    case "day":
      return day(at, zone);
    case "week":
      return week(at, zone);
    case "month":
      return month(at, zone);
    case "quarter":
      return quarter(at, zone);
    case "year":
      return year(at, zone);
    case "hour":
      return windowOf("1h", at, zone);
    default:
      return windowOf(sizeOf(per), at, zone);
  }
}

/** The longest that one of these slots lasts. */
export function slotLengthMs(per: Per): number {
  return Object.hasOwn(WINDOW_MS, per) ? WINDOW_MS[per as keyof typeof WINDOW_MS] : durationMs(sizeOf(per), "per");
}

function sizeOf(per: unknown): string {
  if (typeof per === "string" && /^\d/.test(per)) return per;
  throw configError(
    `per is ${JSON.stringify(per)}; it takes day, week, month, hour, quarter, year, or a duration such as 15m: one run for each.`,
  );
}
