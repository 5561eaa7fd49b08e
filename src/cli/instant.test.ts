import { describe, expect, it } from "vitest";
import { readInstant } from "./instant.ts";

const at = (value: unknown) => {
  const found = readInstant(value);
  return found === null ? null : new Date(found.at).toISOString();
};

describe("a time as text", () => {
  it.each([
    ["2026-10-02", "2026-10-02T00:00:00.000Z"],
    ["2026-10-02T09:00:00Z", "2026-10-02T09:00:00.000Z"],
    ["2026-10-02 09:00:00.123456+02", "2026-10-02T07:00:00.123Z"],
    ["2026-10-02T09:00:00,5-05:30", "2026-10-02T14:30:00.500Z"],
    ["2026-10-02 09:00", "2026-10-02T09:00:00.000Z"],
    ["2024-02-29", "2024-02-29T00:00:00.000Z"],
    ["1781827200", "2026-06-19T00:00:00.000Z"],
    [1_781_827_200_500, "2026-06-19T00:00:00.500Z"],
    [1_781_827_200.5, "2026-06-19T00:00:00.500Z"],
  ])("%j is read as %s", (value, expected) => {
    expect(at(value)).toBe(expected);
  });

  it.each([
    "02/10/2026",
    "13/10/2026",
    "2026/10/02",
    "02.10.2026",
    "02-10-2026",
    "26-10-02",
    "10-02",
    "2 Oct 2026",
    "Oct 2",
    "2026-02-30",
    "2026-13-01",
    "2026-10-02T25:00:00Z",
    "2026-10-02T09:00:00 PST",
    "20261002",
    "2026",
    "20261002090000",
    7,
    1_781_827_200_000_000,
    "soon",
    "",
    null,
  ])("%j is refused: it may mean several instants, or none", (value) => {
    expect(at(value)).toBeNull();
  });

  it("a time without a zone is UTC, and says that it has none", () => {
    expect(readInstant("2026-10-02 09:00:00")?.hasZone).toBe(false);
    expect(readInstant("2026-10-02 09:00:00+02")?.hasZone).toBe(true);
    expect(readInstant("2026-10-02 09:00:00z")?.hasZone).toBe(true);
  });
});
