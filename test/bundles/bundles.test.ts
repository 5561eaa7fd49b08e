/** A program with nevertwice in it goes through a bundler, is moved, and still does everything once. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { BUNDLERS } from "./bundlers.mjs";
import { exercise, smoke } from "./exercise.mjs";
import { linkPackages, makeProject, moveElsewhere } from "./project.mjs";

// The others, and thousands of calls for each, are in npm run torture.
const QUICK = ["esbuild, esm, splitting", "esbuild, cjs, minified", "rollup, esm", "webpack, cjs", "bun, cjs"] as const;
const CALLS = 300;

const project = makeProject();
afterAll(project.remove);

async function bundled(name: keyof typeof BUNDLERS) {
  const made = join(project.folder, name.replaceAll(/\W+/g, "-"));
  mkdirSync(made);
  const { file, warnings } = await BUNDLERS[name](project.entry, made);
  const moved = moveElsewhere(made);
  linkPackages(moved.folder, ["@photostructure/sqlite", "pg"]);
  return { file: join(moved.folder, file.slice(made.length + 1)), warnings, remove: moved.remove };
}

describe.each(QUICK)("bundled by %s", (name) => {
  it("without a warning, and without the optional peers; every call runs once, on the thread", async () => {
    const { file, warnings, remove } = await bundled(name);
    try {
      expect(warnings).toEqual([]);
      expect(await smoke({ file, store: "sqlite:", calls: CALLS })).toEqual([]);
    } finally {
      remove();
    }
  }, 180_000);
});

it("a bundle does everything once with one caller, with 256, in two processes and after a kill", async () => {
  const { file, remove } = await bundled("esbuild, esm, minified");
  try {
    expect(await exercise({ file, calls: CALLS })).toEqual([]);
  } finally {
    remove();
  }
}, 180_000);

it("a bundle works on the other stores: file, memory, and PostgreSQL with pg outside of the bundle", async () => {
  const { file, remove } = await bundled("esbuild, cjs");
  const { url } = await freshDatabase();
  try {
    for (const store of ["file:", "memory:", url]) {
      expect(await smoke({ file, store, calls: 50, repeats: store !== "memory:" })).toEqual([]);
    }
  } finally {
    remove();
  }
});
