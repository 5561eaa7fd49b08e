import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FRAMEWORKS, isIn, unfit } from "./version.ts";

describe("versions of frameworks", () => {
  it.each([
    ["5.0.277", false],
    ["6.0.0", true],
    ["7.12.3", true],
    ["8.0.0", false],
    // A prerelease of one that works is let through: it is the next step of somebody who knows.
    ["6.0.0-beta.3", true],
    ["8.0.0-canary.1", false],
    ["workspace:*", true],
  ])("%s in >=6.0.0 <8.0.0: %s", (version, expected) => {
    expect(isIn(version, ">=6.0.0 <8.0.0")).toBe(expected);
  });

  it("numbers are compared as numbers", () => {
    expect(isIn("0.20.0", ">=0.8.0 <1.0.0")).toBe(true);
    expect(isIn("0.3.99", ">=0.3.142 <0.4.0")).toBe(false);
  });

  it("is told where no version that can be found fits; an unknown one is no error", () => {
    expect(unfit(["5.0.1", "6.0.1"], ">=6.0.0 <8.0.0")).toBeNull();
    expect(unfit(["5.0.1", "4.0.0"], ">=6.0.0 <8.0.0")).toBe("5.0.1");
    expect(unfit([], ">=6.0.0 <8.0.0")).toBeNull();
  });

  it("the ranges are those of the optional peers", () => {
    const read = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as {
      peerDependencies: Record<string, string>;
      peerDependenciesMeta: Record<string, { optional?: boolean }>;
    };
    for (const [name, range] of Object.entries(FRAMEWORKS)) {
      expect(read.peerDependencies[name]).toBe(range);
      expect(read.peerDependenciesMeta[name]).toEqual({ optional: true });
    }
  });
});
