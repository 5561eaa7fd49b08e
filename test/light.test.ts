/** The package is small and loads little: what an import and the command read, and what an install brings. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "rolldown/utils";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

interface Loaded {
  /** Files of the package, by their path in dist. */
  readonly files: readonly string[];
  readonly onDemand: readonly string[];
}

/** What Node reads when this file is imported, as the built files say it. */
function loadedBy(entry: string): Loaded {
  const files = new Set<string>();
  const onDemand: string[] = [];
  const waiting = [join(dist, entry)];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (files.has(file)) continue;
    files.add(file);
    const text = readFileSync(file, "utf8");
    const { module } = parseSync(file, text, { sourceType: "module" });
    const from = [...module.staticImports.map(({ moduleRequest }) => moduleRequest.value)];
    from.push(
      ...module.staticExports.flatMap(({ entries }) => entries.flatMap((one) => one.moduleRequest?.value ?? [])),
    );
    for (const one of from) if (one.startsWith(".")) waiting.push(join(dirname(file), one));
    for (const { moduleRequest } of module.dynamicImports)
      onDemand.push(text.slice(moduleRequest.start + 1, moduleRequest.end - 1));
  }
  return { files: [...files].map((file) => relative(dist, file).split(sep).join("/")), onDemand };
}

describe("loading", () => {
  it('import "nevertwice" reads two files', () => {
    expect(loadedBy("index.js").files).toEqual(["index.js", "chunks/main.js"]);
  });

  it("nothing behind it is imported on demand: a bundle of a program stays one file", () => {
    expect(loadedBy("index.js").onDemand).toEqual([]);
  });

  it("the stores' own entries read nothing else", () => {
    for (const store of ["file", "memory", "postgres", "redis", "s3", "sqlite"])
      expect(loadedBy(`stores/${store}.js`).files).toEqual([`stores/${store}.js`, "chunks/main.js"]);
  });

  it("the command reads three files at its start; proxy, service, import and migrations come on demand", () => {
    const { files, onDemand } = loadedBy("cli/main.js");
    expect(files.toSorted()).toEqual(["chunks/command.js", "chunks/main.js", "cli/main.js"]);
    const expected = ["mcp-proxy", "mcp-probe-report", "mcp-serve", "http-service", "import-run", "postgres-migrator"];
    for (const part of expected) expect(onDemand.join(" ")).toContain(part);
  });
});

describe("the package", () => {
  const [packed] = Object.values(
    JSON.parse(
      execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root, encoding: "utf8" }),
    ) as Record<string, { readonly unpackedSize: number; readonly files: readonly { readonly path: string }[] }>,
  );
  const files = packed?.files.map(({ path }) => path) ?? [];

  it("is below 1.5 MB unpacked", () => {
    expect(packed?.unpackedSize).toBeLessThan(1_500_000);
  });

  it("holds built files and declarations, and no source map without its sources", () => {
    const inDist = files.filter((path) => path.startsWith("dist/"));
    expect(inDist.length).toBeGreaterThan(30);
    expect(inDist.filter((path) => !/\.(js|d\.ts)$/.test(path))).toEqual([]);
    const mapped = inDist.filter((path) => readFileSync(join(root, path), "utf8").includes("sourceMappingURL="));
    expect(mapped).toEqual([]);
    expect(files).toContain("clients/python/nevertwice.py");
  });

  it("has no declaration that is not there: every file that one refers to is packed", () => {
    const declared = files.filter((path) => path.endsWith(".d.ts"));
    const missing = declared.flatMap((path) =>
      [...readFileSync(join(root, path), "utf8").matchAll(/(?:from |import\()"(\.[^"]+)\.js"/g)]
        .map((match) => join(dirname(path), `${match[1]}.d.ts`).split(sep).join("/"))
        .filter((target) => !files.includes(target)),
    );
    expect(missing).toEqual([]);
  });

  it("a stack names the functions of the package", () => {
    const program = 'import("nevertwice").then(({ nevertwice }) => nevertwice({ store: "nowhere:" }))';
    const run = () => execFileSync(process.execPath, ["-e", program], { cwd: root, encoding: "utf8", stdio: "pipe" });
    expect(run).toThrow(/at chooseStore /);
  });
});
