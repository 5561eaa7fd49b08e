/** Who may import whom (DESIGN, section 6), and what is shipped. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const src = join(root, "src");
const sources = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
  .map((file) => file.split(sep).join("/"));
const text = (file: string) => readFileSync(join(src, file), "utf8");

/** "core" for src/core/x.ts, "" for src/x.ts. */
const folderOf = (file: string) => (file.includes("/") ? (file.split("/")[0] as string) : "");

function importsOf(file: string): string[] {
  const found = text(file).matchAll(/\b(?:from\s*|import\s*\(?\s*)"([^"\s]+)"/g);
  return [...found].map((match) => match[1] as string);
}

function targetOf(file: string, specifier: string): string {
  return relative(src, resolve(src, dirname(file), specifier))
    .split(sep)
    .join("/");
}

/** The one file that imports a package. */
const CSV_READER = "cli/import/csv.ts";

/** Only these put things together. */
const ASSEMBLERS = new Set(["", "cli"]);

function wrong(file: string, specifier: string): boolean {
  const from = folderOf(file);
  if (specifier.startsWith("node:")) return from === "core" && specifier !== "node:crypto";
  // Drivers and schema libraries are accepted by shape and loaded lazily: nothing outside is imported by name.
  if (!specifier.startsWith(".")) return file !== CSV_READER || specifier !== "csv-parse";
  const to = folderOf(targetOf(file, specifier));
  if (from === to || ASSEMBLERS.has(from)) return false;
  if (from === "core") return true;
  if (from === "engine") return to !== "core";
  return to !== "core" && to !== "engine";
}

describe("architecture", () => {
  it("core imports itself and node:crypto, engine core, all others core and engine; only cli and the root assemble", () => {
    const found = sources.flatMap((file) =>
      importsOf(file)
        .filter((specifier) => wrong(file, specifier))
        .map((specifier) => `${file} imports ${specifier}`),
    );
    expect(found).toEqual([]);
  });

  it("the rules above see what they must", () => {
    expect(wrong("core/a.ts", "../engine/b.ts")).toBe(true);
    expect(wrong("core/a.ts", "node:fs")).toBe(true);
    expect(wrong("engine/a.ts", "../stores/memory.ts")).toBe(true);
    expect(wrong("stores/a.ts", "../testing/index.ts")).toBe(true);
    expect(wrong("stores/a.ts", "zod")).toBe(true);
    expect(wrong("stores/a.ts", "../core/store.ts")).toBe(false);
    expect(wrong("cli/a.ts", "../open-store.ts")).toBe(false);
    expect(sources.length).toBeGreaterThan(40);
  });

  it("no default exports, and relative imports name their .ts file", () => {
    expect(sources.filter((file) => /^export default/m.test(text(file)))).toEqual([]);
    const loose = sources.flatMap((file) =>
      importsOf(file).filter((one) => one.startsWith(".") && !one.endsWith(".ts")),
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
