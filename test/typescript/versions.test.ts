/** inference.ts and the package's declarations, with every version of TypeScript that the package is made for. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..", "..");
// Inside the package, so that "nevertwice" is this package by its own exports, and not in git.
const workshop = join(root, ".nevertwice", "typescript", String(process.pid));

const VERSIONS = {
  "5.4": join(here, "node_modules", "typescript-5.4"),
  "5.9": join(here, "node_modules", "typescript-5.9"),
  "6.0": join(here, "node_modules", "typescript-6.0"),
  "7.0": join(root, "node_modules", "typescript"),
};

beforeAll(() => {
  expect(existsSync(join(root, "dist", "index.d.ts")), "built first: npm run build").toBe(true);
  mkdirSync(workshop, { recursive: true });
  const source = readFileSync(join(here, "inference.ts"), "utf8");
  writeFileSync(join(workshop, "inference.mts"), source);
  mkdirSync(join(workshop, "node_modules"));
  symlinkSync(join(here, "node_modules", "arktype"), join(workshop, "node_modules", "arktype"));
  const compilerOptions = {
    module: "nodenext",
    target: "es2022",
    lib: ["es2023"],
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    skipLibCheck: true,
  };
  writeFileSync(join(workshop, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.mts"] }));
});
afterAll(() => rmSync(workshop, { recursive: true, force: true }));

it.each(Object.entries(VERSIONS))(
  "TypeScript %s infers what inference.ts says",
  { timeout: 120_000 },
  (version, folder) => {
    const { version: installed } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
      version: string;
    };
    expect(installed.startsWith(`${version}.`), installed).toBe(true);
    const { stdout } = spawnSync(process.execPath, [join(folder, "bin", "tsc"), "-p", workshop], { encoding: "utf8" });
    expect(stdout).toBe("");
  },
);
