import { describe, expect, it } from "vitest";
import { type Duration, durationMs, formatDuration } from "./duration.ts";

describe("durationMs", () => {
  it.each<[Duration, number]>([
    [0, 0],
    [1_500, 1_500],
    [0.6, 1],
    ["250ms", 250],
    ["30s", 30_000],
    ["5m", 300_000],
    ["24h", 86_400_000],
    ["7d", 604_800_000],
    ["2w", 1_209_600_000],
    ["1.5s", 1_500],
    [" 10 s ", 10_000],
    ["0s", 0],
  ])("reads %j as %d ms", (value, ms) => {
    expect(durationMs(value, "wait")).toBe(ms);
  });

  it.each<[string, unknown]>([
    ["a bare number in text", "30"],
    ["an unknown unit", "3y"],
    ["a negative text", "-5s"],
    ["a negative number", -1],
    ["nothing", ""],
    ["two units", "1h30m"],
    ["upper case", "5M"],
    ["no number", Number.NaN],
    ["infinity", Number.POSITIVE_INFINITY],
    ["more than a century", "5218w"],
    ["null", null],
    ["a Date", new Date(0)],
  ])("refuses %s", (_, value) => {
    const read = () => durationMs(value as Duration, "action mail: lease");
    expect(read).toThrow(
      /^action mail: lease: .* is not a duration\. Write a number of milliseconds, or a number with a unit/,
    );
    expect(read).toThrow(expect.objectContaining({ code: "CONFIG" }));
  });
});

describe("formatDuration", () => {
  it.each([
    [0, "0ms"],
    [250, "250ms"],
    [1_000, "1s"],
    [90_000, "90s"],
    [120_000, "2m"],
    [3_600_000, "1h"],
    [86_400_000, "1d"],
    [30 * 86_400_000, "30d"],
    [1_209_600_000, "2w"],
    [1_234, "1.2s"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it("is read back as what it was, wherever it is exact", () => {
    for (const ms of [1, 999, 1_000, 61_000, 3_660_000, 90_000_000, 604_800_000]) {
      expect(durationMs(formatDuration(ms), "x")).toBe(ms);
    }
  });
});
