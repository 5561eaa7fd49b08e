import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { driverAt } from "./driver.ts";

/** As Node's own SQLite warns while it is loaded, with two warnings of somebody else's beside it. */
const WARNING_MODULE = `
  process.emitWarning("SQLite is an experimental feature and might change at any time", "ExperimentalWarning");
  process.emitWarning("SQLite is an experimental feature", { type: "ExperimentalWarning" });
  process.emitWarning("Ascii is experimental", "ExperimentalWarning");
  process.emitWarning("sqlite: the user's own word", "UserWarning");
  exports.DatabaseSync = class {};`;

it("SQLite's ExperimentalWarning does not reach stderr, and every other warning does", () => {
  const file = join(temporaryFolder(), "sqlite.cjs");
  writeFileSync(file, WARNING_MODULE);
  const said: unknown[] = [];
  const spy = vi.spyOn(process, "emitWarning").mockImplementation(((text: unknown) => said.push(text)) as never);
  onTestFinished(() => spy.mockRestore());
  const before = process.emitWarning;
  expect(driverAt({ name: "node:sqlite", file }).name).toBe("node:sqlite");
  expect(said).toEqual(["Ascii is experimental", "sqlite: the user's own word"]);
  // As it was: also for a program that has put its own in place.
  expect(process.emitWarning).toBe(before);
});

it("a module that cannot be loaded leaves it as it was, too", () => {
  const before = process.emitWarning;
  expect(() => driverAt({ name: "node:sqlite", file: join(temporaryFolder(), "none.cjs") })).toThrow(
    /Cannot find module/,
  );
  expect(process.emitWarning).toBe(before);
});
