import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../test/support/each-store.ts";
import { requireInstalled } from "./installed-package.ts";

function installIn(folder: string, name: string, code: string): void {
  mkdirSync(join(folder, "node_modules", name), { recursive: true });
  writeFileSync(join(folder, "node_modules", name, "index.js"), code);
}

function runProgramIn(folder: string): void {
  const [, program] = process.argv;
  process.argv[1] = join(folder, "program.js");
  onTestFinished(() => {
    process.argv[1] = program as string;
  });
}

it("a package is found beside the program where this module's folder does not have it", () => {
  const folder = temporaryFolder();
  installIn(folder, "only-beside-the-program", "module.exports = { answer: 42 };");
  runProgramIn(folder);
  expect(requireInstalled("only-beside-the-program")).toEqual({ answer: 42 });
});

it("a package that is nowhere is Node's own error", () => {
  expect(() => requireInstalled("nowhere-installed")).toThrow(expect.objectContaining({ code: "MODULE_NOT_FOUND" }));
});

it("an error inside of a package that is there is not taken for a missing package", () => {
  const folder = temporaryFolder();
  installIn(folder, "broken-inside", 'throw new Error("broken inside");');
  runProgramIn(folder);
  expect(() => requireInstalled("broken-inside")).toThrow("broken inside");
});
