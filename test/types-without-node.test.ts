/** The package's declarations in a project whose tsconfig.json does not name Node's types. */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { temporaryFolder } from "./support/each-store.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

// Their declarations name Buffer.
const NEED_NODE = new Set(["./file", "./postgres", "./redis", "./package.json"]);

it("compile without them, and without skipLibCheck: disposal brings its own library", () => {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: object };
  const entries = Object.keys(exports).filter((entry) => !NEED_NODE.has(entry) && !entry.startsWith("./agents/"));
  const folder = temporaryFolder();
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "nevertwice"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const imports = entries.map((entry, i) => `import * as m${i} from "nevertwice${entry.slice(1)}";\nvoid m${i};`);
  writeFileSync(join(folder, "program.ts"), imports.join("\n"));
  const compilerOptions = {
    module: "nodenext",
    target: "es2022",
    types: [],
    strict: true,
    noEmit: true,
    skipLibCheck: false,
    preserveSymlinks: true,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
  expect(stdout).toBe("");
});
