import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PACKAGE_VERSION } from "./package-version.ts";

it("the version in the code is the version of the package", () => {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(PACKAGE_VERSION).toBe(manifest.version);
});
