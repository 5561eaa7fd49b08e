/** The first run on a Node without SQLite: the error says what to install, and nothing is left behind. */
import { spawnSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "./support/each-store.ts";

const WITHOUT_SQLITE = `
    import Module from "node:module";
    const resolve = Module._resolveFilename;
    Module._resolveFilename = (name, ...rest) => {
      if (/sqlite/.test(name)) throw new Error("Cannot find package " + name);
      return resolve(name, ...rest);
    };`;

it("doctor reports it, and is not healthy", () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "package.json"), "{}\n");
  const bin = new URL("../dist/cli/main.js", import.meta.url).href;
  const program = `${WITHOUT_SQLITE}
    process.argv = [process.argv[0], "nevertwice", "doctor"];
    await import(${JSON.stringify(bin)});`;
  writeFileSync(join(folder, "doctor.mjs"), program);
  const doctor = () => spawnSync(process.execPath, ["doctor.mjs"], { cwd: folder, encoding: "utf8" });
  const first = doctor();
  expect(first.stdout).toMatch(/✗ sqlite .*every\s+call fails with CONFIG[\s\S]*npm install @photostructure\/sqlite@1/);
  expect(first.stdout).not.toContain("Healthy");
  expect(first.status).toBe(1);
});

it.each([
  ["the default ledger", ""],
  ["a named one", '{ store: "sqlite:data/ledger.db" }'],
])("without a driver, %s leaves no folder behind", (_, options) => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "package.json"), "{}\n");
  const program = `${WITHOUT_SQLITE}
    const { nevertwice } = await import(${JSON.stringify(import.meta.resolve("nevertwice"))});
    const nt = nevertwice(${options});
    await nt.once("greet", ["ada"], () => "hello").catch((error) => console.log(error.message));`;
  const argv = ["--input-type=module", "-e", program];
  const { stdout } = spawnSync(process.execPath, argv, { cwd: folder, encoding: "utf8" });
  expect(stdout).toMatch(/needs SQLite.*npm install @photostructure\/sqlite@1/);
  expect(readdirSync(folder)).toEqual(["package.json"]);
});
