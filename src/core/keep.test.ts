import { describe, expect, test } from "vitest";
import { keepFrom, keepOfWindows, outlastingWindow, windowsIn } from "./keep.ts";
import { keyText } from "./key/key.ts";
import { billingPeriod, day, month, quarter, week, windowOf, year } from "./key/windows.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const AT = Date.UTC(2026, 1, 17, 9, 37, 12, 345);
const ZONES = [
  "UTC",
  "Pacific/Kiritimati",
  "Pacific/Niue",
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Antarctica/Troll",
  "Asia/Kathmandu",
  "America/Havana",
  "Africa/Casablanca",
];

const keyWith = (...parts: unknown[]) => keyText({ tenant: "acme", action: "report", version: 1, scope: null, parts });

describe("windows are recognised by their names", () => {
  const named: [string, string, number][] = [
    ["a day", day(AT), DAY],
    ["a week", week(AT), 7 * DAY],
    ["a month", month(AT), 31 * DAY],
    ["a quarter", quarter(AT), 92 * DAY],
    ["a year", year(AT), 366 * DAY],
    ["a billing period", billingPeriod(AT, { anchorDay: 31 }), 28 * DAY],
    ["five minutes", windowOf("5m", AT), 5 * 60_000],
    ["an odd number of milliseconds", windowOf("1501ms", AT), 1_501],
    ["36 hours", windowOf("36h", AT), 36 * HOUR],
    ["two weeks", windowOf("2w", AT), 14 * DAY],
  ];

  test.each(named)("%s: %s", (_, name, lengthMs) => {
    for (const text of [name, keyWith("lead 7", name), keyWith({ when: [name] }), keyWith(`acme:${name}:monthly`)]) {
      expect(windowsIn(text)).toMatchObject([{ name, lengthMs }]);
    }
    expect(windowsIn(keyWith(name))[0]?.whole).toBe(true);
    expect(windowsIn(keyWith(`x_${name}`))[0]?.whole).toBe(false);
  });

  test.each(named.filter(([, , lengthMs]) => lengthMs > 15 * DAY))(
    "%s that is glued to letters or digits: %s",
    (_, name, lengthMs) => {
      for (const text of [`${name}a`, `${name}7`, `x${name}`, `7${name}x`, `${name}_2`])
        expect(windowsIn(keyWith(text)), text).toMatchObject([{ name, lengthMs, whole: false }]);
    },
  );

  test("of the readings of a size the longer counts", () => {
    const glued = `${windowOf("50000m", AT)}sent`;
    expect(windowsIn(keyWith(glued))).toMatchObject([{ lengthMs: 50_000 * 60_000 }]);
    expect(windowsIn(keyWith(`${windowOf("400d", AT)}7`))).toMatchObject([{ lengthMs: 400 * DAY }]);
  });

  test("also in the scope, and several in one key", () => {
    const text = keyText({
      tenant: "",
      action: "a",
      version: 1,
      scope: `run ${month(AT)}`,
      parts: [day(AT), year(AT)],
    });
    expect(windowsIn(text).map(({ name }) => name)).toEqual([month(AT), day(AT), year(AT)]);
  });

  test("an instant of a schedule has no length of its own", () => {
    expect(windowsIn(keyWith("2026-02-17T09:35Z/slot"))).toMatchObject([
      { lengthMs: 0, endsAt: Date.UTC(2026, 1, 17, 9, 35) },
    ]);
  });

  test.each([
    "lead-7",
    "2026",
    "2026-13",
    "2026-W54",
    "2026-Q5",
    "20-26-01",
    "2026/1year",
    "nt1_0123",
    "0f8c1b9e-7d7a-4a6b-9c3d-2b1a0f9e8d7c",
  ])("%s is none", (text) => {
    expect(windowsIn(keyWith(text))).toEqual([]);
  });

  test("a window is over at its end, whatever its zone", () => {
    const kinds = [
      day,
      week,
      month,
      quarter,
      year,
      (at: number, zone: object) => billingPeriod(at, { anchorDay: 5, ...zone }),
    ];
    for (const timeZone of ZONES) {
      for (const kind of kinds) {
        for (let at = AT; at < AT + 400 * DAY; at += 3 * HOUR) {
          const [window] = windowsIn(kind(at, { timeZone }));
          if (window === undefined || window.endsAt <= at) throw new Error(`${kind.name} ${timeZone} ${at}`);
        }
      }
    }
  });

  test("a text with nothing but dates is read in bounded time", () => {
    const text = "2026-01-15 ".repeat(400_000);
    expect(windowsIn(text).length).toBeLessThan(20_000);
  });
});

describe("how long a record is kept", () => {
  const windows = (...names: string[]) => windowsIn(keyWith(...names));
  const later = (keepMs: number | null, guardUntil: number | null) => keepFrom({ keepMs, guardUntil }, AT);

  test("as the action says, where its key has no window or a short one", () => {
    expect(keepOfWindows(30 * DAY, false, windows("lead 7"))).toEqual({
      keepMs: 30 * DAY,
      guardUntil: null,
      tooShortFor: null,
    });
    expect(keepOfWindows(30 * DAY, false, windows(day(AT))).keepMs).toBe(30 * DAY);
  });

  test("at least two windows, and until one window after the end of a later one", () => {
    const kept = keepOfWindows(30 * DAY, false, windows(day(AT), month(AT)));
    expect(kept.keepMs).toBe(62 * DAY);
    const ahead = keepOfWindows(30 * DAY, false, windows(month(AT + 300 * DAY)));
    expect(later(ahead.keepMs, ahead.guardUntil)).toBeGreaterThan(300 * DAY);
    expect(later(kept.keepMs, kept.guardUntil)).toBe(62 * DAY);
  });

  test("a keep given by hand is honoured, and the window that outlasts it is named", () => {
    expect(keepOfWindows(7 * DAY, true, windows(month(AT)))).toMatchObject({
      keepMs: 7 * DAY,
      guardUntil: null,
      tooShortFor: { name: month(AT) },
    });
    expect(outlastingWindow(7 * DAY, windows(month(AT)))).toMatchObject({ name: month(AT), lengthMs: 31 * DAY });
    expect(outlastingWindow(2 * DAY, windows(day(AT)))).toBeNull();
    expect(outlastingWindow(null, windows(year(AT)))).toBeNull();
  });

  test("forever is forever", () => {
    expect(keepOfWindows(null, false, windows(year(AT)))).toEqual({
      keepMs: null,
      guardUntil: null,
      tooShortFor: null,
    });
    expect(later(null, AT + DAY)).toBeNull();
  });

  test("never longer than the longest duration, whatever date a key names", () => {
    const { keepMs, guardUntil } = keepOfWindows(30 * DAY, false, windows("0001-01-01/9999-12-31", "9999-12-31"));
    expect(keepMs).toBe(100 * 365.25 * DAY);
    expect(later(keepMs, guardUntil)).toBe(100 * 365.25 * DAY);
  });

  test("the slot of a job is kept from its instant on, when it was run ahead of it", () => {
    const { keepMs, guardUntil } = keepOfWindows(2 * DAY, true, windows("2026-02-27T09:35Z/slot"));
    expect(keepMs).toBe(2 * DAY);
    expect(AT + (later(keepMs, guardUntil) ?? 0)).toBe(Date.UTC(2026, 1, 27, 9, 35) + 2 * DAY);
  });
});
