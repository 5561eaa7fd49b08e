/** A job's slots: the stretch of time that one run stands for. */
import { configError } from "../core/errors.ts";
import { type At, day, month, week, windowOf } from "../core/windows.ts";

export type Per = "day" | "week" | "month" | "hour" | (string & {});

/** "day" → 2026-01-15, "week" → 2026-W03, "month" → 2026-01, "hour" or any duration → when the window begins. */
export function slotOf(per: Per, at: At, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone };
  switch (per) {
    case "day":
      return day(at, zone);
    case "week":
      return week(at, zone);
    case "month":
      return month(at, zone);
    case "hour":
      return windowOf("1h", at, zone);
    default:
      if (typeof per !== "string" || !/^\d/.test(per)) {
        throw configError(
          `per is ${JSON.stringify(per)}; it takes day, week, month, hour, or a duration such as 15m: one run for each.`,
        );
      }
      return windowOf(per, at, zone);
  }
}
