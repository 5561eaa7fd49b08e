import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { At } from "../at.ts";
import { type BillingOptions, billingPeriod, day, month, quarter, week, windowOf, year } from "./windows.ts";

const at = "2026-01-15T09:37:42.123Z";
const berlin = { timeZone: "Europe/Berlin" };

describe("K4 windows", () => {
  it("K4 name the day, the ISO week and the month, in UTC unless a zone is given", () => {
    expect([day(at), week(at), month(at)]).toEqual(["2026-01-15", "2026-W03", "2026-01"]);
    expect(day("2026-01-31T23:30:00Z", berlin)).toBe("2026-02-01");
    expect(month("2026-01-31T23:30:00Z", berlin)).toBe("2026-02");
    expect(day("2026-01-01T02:00:00Z", { timeZone: "America/New_York" })).toBe("2025-12-31");
  });

  it("K4 take a Date, epoch milliseconds or an ISO text with an offset", () => {
    const ms = Date.parse(at);
    expect([day(new Date(at)), day(ms), day("2026-01-15T23:30:00-02:00"), day("2026-01-16 01:30+0200")]).toEqual([
      "2026-01-15",
      "2026-01-15",
      "2026-01-16",
      "2026-01-15",
    ]);
  });

  it.each([
    ["2021-01-03", "2020-W53"],
    ["2021-01-04", "2021-W01"],
    ["2024-12-30", "2025-W01"],
    ["2016-01-03", "2015-W53"],
    ["2018-01-01", "2018-W01"],
    ["2026-12-31", "2026-W53"],
    ["2027-01-03", "2026-W53"],
  ])("K4 the ISO week of %s is %s", (date, expected) => {
    expect(week(`${date}T12:00:00Z`)).toBe(expected);
  });

  it("K4 windowOf names the window by its first instant and its size", () => {
    expect(windowOf("5m", at)).toBe("2026-01-15T09:35:00Z/5m");
    expect(windowOf(300_000, at)).toBe("2026-01-15T09:35:00Z/5m");
    expect(windowOf("7m", 0)).toBe("1970-01-01T00:00:00Z/7m");
    expect(windowOf("250ms", at)).toBe("2026-01-15T09:37:42Z/250ms");
    expect(windowOf("1ms", at)).toBe("2026-01-15T09:37:42.123Z/1ms");
    expect(windowOf("5m", -1)).toBe("1969-12-31T23:55:00Z/5m");
  });

  it("K4 sizes that look alike when rounded have different names", () => {
    expect(windowOf(1_501, 0)).not.toBe(windowOf(1_502, 0));
  });

  it("K4 windowOf follows the wall clock of a zone", () => {
    expect(windowOf("1d", at, { timeZone: "Asia/Kolkata" })).toBe("2026-01-14T18:30:00Z/1d");
    expect(windowOf("1h", at, { timeZone: "Asia/Kolkata" })).toBe("2026-01-15T09:30:00Z/1h");
    expect(windowOf("6h", at, berlin)).toBe("2026-01-15T05:00:00Z/6h");
  });

  it("K4 a repeated local hour is two windows", () => {
    // 25 October 2026, 03:00 becomes 02:00 again in Berlin.
    expect(windowOf("1h", "2026-10-25T02:30:00+02:00", berlin)).toBe("2026-10-25T00:00:00Z/1h");
    expect(windowOf("1h", "2026-10-25T02:30:00+01:00", berlin)).toBe("2026-10-25T01:00:00Z/1h");
    expect(windowOf("15m", "2026-10-25T02:50:00+01:00", berlin)).toBe("2026-10-25T01:45:00Z/15m");
  });

  it("K4 a long window spans the hour that is repeated or left out", () => {
    const fall = [
      "2026-10-25T00:10:00+02:00",
      "2026-10-25T02:30:00+02:00",
      "2026-10-25T02:30:00+01:00",
      "2026-10-25T23:50:00+01:00",
    ];
    expect(new Set(fall.map((t) => windowOf("1d", t, berlin)))).toEqual(new Set(["2026-10-24T22:00:00Z/1d"]));
    const spring = ["2026-03-29T00:10:00+01:00", "2026-03-29T03:10:00+02:00", "2026-03-29T23:50:00+02:00"];
    expect(new Set(spring.map((t) => windowOf("1d", t, berlin)))).toEqual(new Set(["2026-03-28T23:00:00Z/1d"]));
    expect(windowOf("2h", "2026-03-29T03:10:00+02:00", berlin)).toBe("2026-03-29T01:00:00Z/2h");
  });

  it("K4 midnight itself may be repeated (Havana) or left out (Beirut)", () => {
    const havana = { timeZone: "America/Havana" }; // 1 November 2026, 01:00 becomes 00:00 again
    const both = ["2026-11-01T00:30:00-04:00", "2026-11-01T00:30:00-05:00", "2026-11-01T15:00:00-05:00"];
    expect(new Set(both.map((t) => windowOf("1d", t, havana)))).toEqual(new Set(["2026-11-01T04:00:00Z/1d"]));
    expect(both.slice(0, 2).map((t) => windowOf("1h", t, havana))).toEqual([
      "2026-11-01T04:00:00Z/1h",
      "2026-11-01T05:00:00Z/1h",
    ]);
    const beirut = { timeZone: "Asia/Beirut" }; // 29 March 2026, 00:00 becomes 01:00
    expect(windowOf("1d", "2026-03-29T15:00:00+03:00", beirut)).toBe("2026-03-28T22:00:00Z/1d");
  });

  it("property: K4 in every zone a day window is one name per local day, and it has begun", () => {
    const zone = fc.constantFrom(
      "UTC",
      "Europe/Berlin",
      "America/Havana",
      "Asia/Beirut",
      "Australia/Lord_Howe",
      "Asia/Kathmandu",
      "America/Sao_Paulo",
    );
    const time = fc.integer({ min: Date.UTC(2015, 0, 1), max: Date.UTC(2030, 0, 1) });
    const step = fc.integer({ min: 0, max: 90_000_000 });
    fc.assert(
      fc.property(zone, time, step, (timeZone, a, ms) => {
        const b = a + ms;
        const sameDay = day(a, { timeZone }) === day(b, { timeZone });
        expect(windowOf("1d", a, { timeZone }) === windowOf("1d", b, { timeZone })).toBe(sameDay);
        const start = Date.parse(windowOf("1h", a, { timeZone }).split("/")[0] as string);
        expect(start <= a && a - start <= 5_400_000).toBe(true);
      }),
    );
  });

  it("K4 the billing period begins on its anchor day, or on the last of a shorter month", () => {
    const period = (t: At, anchorDay: number, timeZone = "UTC") => billingPeriod(t, { anchorDay, timeZone });
    expect(period("2026-02-01T00:00:00Z", 31)).toBe("2026-01-31/2026-02-28");
    expect(period("2026-02-28T00:00:00Z", 31)).toBe("2026-02-28/2026-03-31");
    expect(period("2026-01-14T00:00:00Z", 15)).toBe("2025-12-15/2026-01-15");
    expect(period("2026-12-31T00:00:00Z", 31)).toBe("2026-12-31/2027-01-31");
    expect(period("2024-03-01T00:00:00Z", 30)).toBe("2024-02-29/2024-03-30");
    expect(period("2026-01-14T23:30:00Z", 15, "Europe/Berlin")).toBe("2026-01-15/2026-02-15");
    expect(billingPeriod(at, { anchorDay: 1 })).toBe("2026-01-01/2026-02-01");
  });

  it("keeps working over more zones than it remembers", () => {
    const zones = Intl.supportedValuesOf("timeZone").slice(0, 200);
    for (const timeZone of [...zones, ...zones]) expect(day(at, { timeZone })).toMatch(/^2026-01-1[456]$/);
  });
});

describe("what a window refuses", () => {
  const never = /takes an explicit instant and never the wall clock/;
  const refusals: readonly [name: string, value: unknown, message: RegExp][] = [
    ["no instant", undefined, /^day: no instant was given\./],
    ["null", null, /^day: this is not a valid instant/],
    ["an invalid Date", new Date("no"), /^day: this is not a valid instant/],
    ["NaN", Number.NaN, /^day: this is not a valid instant/],
    ["an instant out of range", 1e17, /^day: this is not a valid instant/],
    [
      "a text without an offset",
      "2026-01-15T09:00:00",
      /^day: the text has no offset, so it is another instant in each time zone/,
    ],
    ["a date only", "2026-01-15", /^day: the text has no offset/],
    ["other text", "yesterday", /^day: the text is not an ISO date-time/],
    ["a day that is none", "2026-02-30T00:00:00Z", /^day: the text names no real date and time/],
    ["an hour that is none", "2026-02-20T25:00:00Z", /^day: the text names no real date and time/],
    ["seconds", 1_768_469_700, /^day: the number looks like seconds, .*multiply it by 1000/],
    ["an object", {}, /^day: this is not a valid instant/],
  ];

  it.each(refusals)("refuses %s", (_, value, message) => {
    const run = () => day(value as At);
    expect(run).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
    expect(run).toThrow(message);
    expect(run).toThrow(never);
  });

  it("every window refuses a missing instant, by its own name", () => {
    const missing = undefined as unknown as At;
    expect(() => week(missing)).toThrow(/^week: no instant/);
    expect(() => month(missing)).toThrow(/^month: no instant/);
    expect(() => windowOf("5m", missing)).toThrow(/^windowOf: no instant/);
    expect(() => billingPeriod(missing, { anchorDay: 1 })).toThrow(/^billingPeriod: no instant/);
  });

  it.each([
    "2026-11",
    "2026-11-16",
    "2026-11-16Z",
    "2026-11-16+02:00",
    "2026-11-16T09",
    "2026-11-16 09:30",
    "2026-11-16T09:30:00.5",
  ])("%s: the text that the message suggests is accepted", (text) => {
    let message = "";
    try {
      day(text);
    } catch (error) {
      message = (error as Error).message;
    }
    const [, suggested] = /\(write (\S+?)[,)]/.exec(message) ?? [];
    expect(suggested).toMatch(/^2026-11-\d\dT/);
    expect(day(suggested as string)).toMatch(/^2026-11-/);
  });

  it("a date alone: the message suggests midnight in UTC", () => {
    expect(() => day("2026-11-16")).toThrow(/\(write 2026-11-16T00:00:00Z, or end it with an offset/);
    expect(() => day("2026-11-16Z")).toThrow(/a date without a time of day \(write 2026-11-16T00:00:00Z\)/);
  });

  const WINDOWS: readonly [name: string, call: (options: never) => string][] = [
    ["day", (options) => day(at, options)],
    ["week", (options) => week(at, options)],
    ["month", (options) => month(at, options)],
    ["quarter", (options) => quarter(at, options)],
    ["year", (options) => year(at, options)],
    ["windowOf", (options) => windowOf("1h", at, options)],
    ["billingPeriod", (options) => billingPeriod(at, options)],
  ];

  it.each(WINDOWS)("%s refuses an option that there is not, and names those that there are", (name, call) => {
    const anchor = name === "billingPeriod" ? { anchorDay: 1 } : {};
    for (const option of ["timezone", "tz", "anchorDayy"]) {
      const run = () => call({ ...anchor, [option]: "Europe/Berlin" } as never);
      expect(run).toThrow(expect.objectContaining({ code: "CONFIG" }));
      expect(run).toThrow(
        `${name}: there is no option "${option}". The options are: ${name === "billingPeriod" ? "anchorDay, timeZone" : "timeZone"}.`,
      );
    }
  });

  it.each(WINDOWS)("%s refuses a zone that is not in an object, and says how to write it", (name, call) => {
    const run = () => call("Europe/Berlin" as never);
    expect(run).toThrow(expect.objectContaining({ code: "CONFIG" }));
    const written = name === "billingPeriod" ? "anchorDay: 1, timeZone" : "timeZone";
    const size = name === "windowOf" ? "size, " : "";
    expect(run).toThrow(
      `${name}: its options are an object, and this is "Europe/Berlin". Write ${name}(${size}at, { ${written}: "Europe/Berlin" }).`,
    );
    for (const other of [null, 0, ["Europe/Berlin"]])
      expect(() => call(other as never)).toThrow(/its options are an object/);
  });

  it("an option that is undefined counts as left out, an unknown one does not", () => {
    expect(day(at, { timeZone: undefined })).toBe("2026-01-15");
    expect(() => day(at, { tz: undefined } as never)).toThrow(/there is no option "tz"/);
  });

  it("only billingPeriod takes an anchor day, and it needs one", () => {
    expect(() => month(at, { anchorDay: 1 } as never)).toThrow(/^month: there is no option "anchorDay"/);
    expect(() => billingPeriod(at, undefined as unknown as BillingOptions)).toThrow(/anchorDay must be a whole number/);
  });

  it.each(["Mars/Olympus", "", 5])("refuses the time zone %j by name", (timeZone) => {
    const run = () => day(at, { timeZone: timeZone as string });
    expect(run).toThrow(expect.objectContaining({ code: "CONFIG" }));
    expect(run).toThrow(`timeZone: ${JSON.stringify(timeZone)} is not a time zone`);
  });

  it("refuses a zoned size that does not divide a day, and sizes that are none", () => {
    for (const size of ["7m", "5h", "2d", "1w"]) {
      expect(() => windowOf(size, at, berlin)).toThrow(/the size must divide a day evenly/);
    }
    expect(() => windowOf("soon", at)).toThrow(/^windowOf: "soon" is not a duration/);
    expect(() => windowOf(0, at)).toThrow(/at least 1ms/);
  });

  it.each([0, 32, 1.5, "1", undefined])("refuses the anchor day %j", (anchorDay) => {
    expect(() => billingPeriod(at, { anchorDay: anchorDay as number })).toThrow(
      /^billingPeriod: anchorDay must be a whole number from 1 to 31/,
    );
  });
});

describe("windowOf where the clock of a zone is changed", () => {
  const MINUTE = 60_000;
  const HOUR = 60 * MINUTE;
  // By two hours, by half an hour, at midnight, twice a year for Ramadan, by 23 hours, off the minute grid of the windows.
  const SHIFTS: readonly [string, string][] = [
    ["Antarctica/Troll", "2026-03-29T01:00:00Z"],
    ["Antarctica/Troll", "2026-10-25T01:00:00Z"],
    ["Australia/Lord_Howe", "2026-04-04T15:00:00Z"],
    ["Australia/Lord_Howe", "2026-10-03T15:30:00Z"],
    ["America/Havana", "2026-11-01T05:00:00Z"],
    ["Africa/Casablanca", "2026-02-15T02:00:00Z"],
    ["Europe/Berlin", "2026-03-29T01:00:00Z"],
    ["Europe/Berlin", "2026-10-25T01:00:00Z"],
    ["Europe/Berlin", "1945-05-24T00:00:00Z"],
    ["Europe/Berlin", "1945-11-18T01:00:00Z"],
    ["America/Goose_Bay", "1988-04-03T04:01:00Z"],
    ["America/Goose_Bay", "1988-10-30T02:01:00Z"],
    ["Asia/Chita", "2014-10-25T16:00:00Z"],
    ["Pacific/Apia", "2011-12-30T10:00:00Z"],
    ["Pacific/Kwajalein", "1969-09-30T13:00:00Z"],
  ];
  const SIZES = ["5m", "15m", "30m", "45m", "1h", "90m", "2h", "3h", "4h", "6h", "12h", "1d"];

  it.each(SHIFTS)(
    "%s, %s: windows follow one another, each one stretch of time named by its first instant",
    (timeZone, iso) => {
      const shift = Date.parse(iso);
      const step = (shift % (5 * MINUTE) === 0 ? 5 : 1) * MINUTE;
      for (const size of SIZES) {
        let last = "";
        for (let at = shift - 27 * HOUR; at < shift + 27 * HOUR; at += step) {
          const name = windowOf(size, new Date(at), { timeZone });
          if (name === last) continue;
          const start = Date.parse(name.split("/")[0] as string);
          // It began after the look before this one, and where the window before it ended.
          expect([size, name, start <= at && (last === "" || start > at - step)]).toEqual([size, name, true]);
          if (last !== "") expect(windowOf(size, new Date(start - 1), { timeZone })).toBe(last);
          last = name;
        }
      }
    },
  );

  it("set back by two hours: windows of two hours come twice, longer ones span it", () => {
    const names = (size: string) => {
      const found = new Set<string>();
      for (let hour = 21; hour < 31; hour += 0.5)
        found.add(windowOf(size, new Date(Date.UTC(2026, 9, 24) + hour * HOUR), { timeZone: "Antarctica/Troll" }));
      return [...found].map((name) => name.slice(8, 16));
    };
    expect(names("2h")).toEqual(["24T20:00", "24T22:00", "25T00:00", "25T01:00", "25T02:00", "25T04:00", "25T06:00"]);
    expect(names("3h")).toEqual(["24T19:00", "24T22:00", "25T03:00", "25T06:00"]);
  });
});
