import { describe, expect, it } from "vitest";
import { timetable } from "./timetable.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const gapOf = (cron: string, tz?: string) =>
  timetable({ cron, ...(tz !== undefined && { tz }) }, "test").longestGapMs();

describe("the longest time between two instants", () => {
  it.each([
    ["*/5 * * * *", 5 * MINUTE],
    ["0,10 * * * *", 50 * MINUTE],
    ["0 * * * *", HOUR],
    ["0 6 * * *", DAY],
    ["0 6,18 * * *", 12 * HOUR],
    ["30 9-17 * * 1-5", 3 * DAY - 8 * HOUR],
    ["0 0 * * 1", 7 * DAY],
    ["0 0 1 * *", 31 * DAY],
    ["0 0 L * *", 31 * DAY],
    ["0 0 1 */3 *", 92 * DAY],
    ["0 0 1 1 *", 366 * DAY],
    ["0 0 29 2 *", 2_921 * DAY],
    ["* * * 1 *", 336 * DAY - 24 * HOUR + MINUTE],
    ["@yearly", 366 * DAY],
    ["@hourly", HOUR],
    ["*/10 * * * * *", 2 * MINUTE],
    ["0 0 0 1 1 * 2027", 0],
  ])("%s", (cron, gap) => {
    expect(gapOf(cron)).toBe(gap);
  });

  it("is what a walk through two years finds, for expressions of all kinds", () => {
    const expressions = ["*/7 * * * *", "3 */5 * * *", "15 3 2,17 * *", "0 12 * 4-6 2", "5 4 * * 0", "0 0 10 2,11 *"];
    for (const expression of expressions) {
      const times = timetable({ cron: expression }, "test");
      let longest = 0;
      let last = times.next(Date.UTC(2024, 0, 1)) as number;
      for (let steps = 0; steps < 3_000 && last < Date.UTC(2028, 0, 1); steps += 1) {
        const next = times.next(last) as number;
        longest = Math.max(longest, next - last);
        last = next;
      }
      expect([expression, times.longestGapMs()]).toEqual([expression, longest]);
    }
  });

  it("does not depend on the zone, and of an interval it is the interval", () => {
    expect(gapOf("0 2 1 * *", "Europe/Berlin")).toBe(31 * DAY);
    expect(timetable({ every: "36h" }, "test").longestGapMs()).toBe(36 * HOUR);
  });
});
