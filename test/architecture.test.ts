/** Who may import whom (DESIGN, section 6), and what is shipped. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { CSV_READER, findings, importsOf, sourceOf, sourcesIn } from "../scripts/architecture.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const src = join(root, "src");
const sources = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
  .map((file) => file.split(sep).join("/"));
const text = (file: string) => readFileSync(join(src, file), "utf8");

describe("architecture", () => {
  it("rooms import core and engine, nothing imports in a circle, and no file is named by a prefix", () => {
    expect(findings(sourcesIn(src))).toEqual([]);
    expect(sources.length).toBeGreaterThan(40);
  });

  it.each([
    ["a sibling", "stores/a.ts", 'import { b } from "../testing/b.ts";', "stores/a.ts must not import ../testing/b.ts"],
    [
      "engine in core",
      "core/a.ts",
      'import type { B } from "../engine/b.ts";',
      "core/a.ts must not import ../engine/b.ts",
    ],
    ["a file in core", "core/a.ts", 'import { readFileSync } from "node:fs";', "core/a.ts must not import node:fs"],
    ["a package", "stores/a.ts", 'import { z } from "zod";', "stores/a.ts must not import zod"],
  ])("finds a planted import: %s", (_, file, text, finding) => {
    expect(findings([sourceOf(file, text)])).toEqual([finding]);
  });

  it("finds a planted circle, of types too, and lets what is imported on demand lead back", () => {
    const a = sourceOf("core/a.ts", 'import type { B } from "./b.ts";');
    const back = (text: string) => findings([a, sourceOf("core/b.ts", text)]);
    expect(back('export { a } from "./a.ts";')).toEqual(["import each other: core/a.ts, core/b.ts"]);
    expect(back('const load = () => import("./a.ts");')).toEqual([]);
  });

  it("finds a planted prefix", () => {
    const files = (...names: string[]) => findings(names.map((name) => sourceOf(name, "")));
    expect(files("stores/redis/redis-row.ts")).toEqual([
      "stores/redis/redis-row.ts: a file in redis/ need not be named redis-…",
    ]);
    const six = ["a", "b", "c", "d", "e", "f"].map((name) => `agents/mcp-${name}.ts`);
    expect(files(...six)).toEqual(["agents/mcp-*: 6 files want a folder of their own"]);
    expect(files(...six.slice(1))).toEqual([]);
  });

  it("no default exports, and relative imports name their .ts file", () => {
    expect(sources.filter((file) => /^export default/m.test(text(file)))).toEqual([]);
    const loose = sources.flatMap((file) =>
      importsOf(text(file)).filter((one) => one.startsWith(".") && !one.endsWith(".ts")),
    );
    expect(loose).toEqual([]);
  });

  it("no file outgrows its reader: 450 lines of code, comments and blank lines aside", () => {
    // The conformance suite is a list of independent cases, longer with each promise of the port.
    const long = sources
      .filter((file) => file !== "testing/conformance.ts")
      .map((file) => ({
        file,
        lines: text(file)
          .split("\n")
          .filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line)).length,
      }))
      .filter(({ lines }) => lines > 450);
    expect(long).toEqual([]);
  });
});

describe("timers", () => {
  // Of the process itself, where a test may have faked them.
  const GLOBAL =
    /(?<![.\w#])(?:setTimeout|setInterval|setImmediate|clearTimeout|clearInterval|queueMicrotask)\(|process\.nextTick|AbortSignal\.timeout|timers\/promises/;
  const code = (file: string) => text(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
  const exempt = new Set(["engine/real-timers.ts", "engine/unmocked-timers.ts"]);

  it("come from engine/real-timers.ts, and performance from node:perf_hooks: fakes of a test must not hang a call", () => {
    const faked = sources.filter((file) => {
      if (exempt.has(file)) return false;
      const imported = /import \{[^}]*\} from "[^"]*real-timers\.ts"/.exec(text(file))?.[0] ?? "";
      const used = [...code(file).matchAll(new RegExp(GLOBAL, "g"))].map(([found]) => found.replace("(", ""));
      return used.some((name) => !new RegExp(`\\b${name}\\b`).test(imported));
    });
    expect(faked).toEqual([]);
    const global = sources.filter(
      (file) => /\bperformance\./.test(code(file)) && !text(file).includes('"node:perf_hooks"'),
    );
    expect(global).toEqual([]);
  });
});

describe("the package", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    exports: Record<string, string | { types: string; default: string }>;
    bin: Record<string, string>;
    dependencies?: object;
  };
  const subpaths = Object.entries(manifest.exports).filter(([, target]) => typeof target !== "string");

  it("every exported file and command is there after a build", () => {
    const files = Object.values(manifest.exports).flatMap((target) =>
      typeof target === "string" ? [target] : Object.values(target),
    );
    const missing = [...files, ...Object.values(manifest.bin)].filter((file) => !existsSync(join(root, file)));
    expect(missing).toEqual([]);
  });

  it.each(subpaths)("%s loads, with named exports only", async (subpath) => {
    const loaded = (await import(subpath.replace(/^\./, "nevertwice"))) as object;
    // Work queues and workers are made by nevertwice(): their entry has types alone.
    if (subpath === "./outbox") expect(Object.keys(loaded)).toEqual([]);
    else expect(Object.keys(loaded).length).toBeGreaterThan(0);
    expect(loaded).not.toHaveProperty("default");
  });

  it("needs one package at run time, which needs none itself and is loaded for a CSV file alone", () => {
    expect(Object.keys(manifest.dependencies ?? {})).toEqual(["csv-parse"]);
    const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
    expect(packages["node_modules/csv-parse"]).not.toHaveProperty("dependencies");
    expect(text(CSV_READER)).toMatch(/= await import\("csv-parse"\)/);
    expect(text(CSV_READER)).not.toMatch(/from "csv-parse"/);
  });
});
