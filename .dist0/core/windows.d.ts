/**
 * Names of the stretch of time an instant falls into, for keys such as "one follow-up per lead and day". They take the
 * instant of the intent, never the wall clock: a retry after midnight must still name the day that was meant.
 */
import { type Duration } from "./duration.ts";
/** A Date, epoch milliseconds, or an ISO date-time with Z or an offset. */
export type At = Date | number | string;
export interface ZoneOptions {
    /** An IANA name such as "Europe/Berlin". UTC unless given. */
    readonly timeZone?: string | undefined;
}
export interface BillingOptions extends ZoneOptions {
    /** The day of the month a period begins on, 1 to 31; the last day of a month that is too short. */
    readonly anchorDay: number;
}
/** "2026-01-15" */
export declare function day(at: At, options?: ZoneOptions): string;
/** The ISO week, "2026-W03": Monday first, and it belongs to the year of its Thursday. */
export declare function week(at: At, options?: ZoneOptions): string;
/** "2026-01" */
export declare function month(at: At, options?: ZoneOptions): string;
/** The first day of the period and the first day after it: "2026-01-31/2026-02-28" for an anchor on the 31st. */
export declare function billingPeriod(at: At, options: BillingOptions): string;
/**
 * The window of the given size, named by its first instant in UTC: "2026-01-15T09:35:00Z/5m".
 *
 * Without a time zone windows are counted from the Unix epoch. With one they follow that zone's wall clock from local
 * midnight, so the size must divide a day. Where a clock is set back, windows no longer than the repeated stretch get two
 * names, and longer ones span it; where it is set forward, a window that would begin in the gap begins after it.
 */
export declare function windowOf(size: Duration, at: At, options?: ZoneOptions): string;
