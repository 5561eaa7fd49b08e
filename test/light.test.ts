/** The package is small and loads little: what an import and the command read, and what an install brings. */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "rolldown/utils";
import { describe, expect, it } from "vitest";
import { threadSource } from "../scripts/bundle.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

interface Loaded {
  /** Files of the package, by their path in dist. */
  readonly files: readonly string[];
  /** Node's own modules. */
  readonly builtin: readonly string[];
  readonly onDemand: readonly string[];
}

const { imports, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  imports: Record<string, Record<"module" | "default", string>>;
  exports: Record<string, string | { readonly default: string }>;
};

/** What is read when this file is imported, as the built files say it. `condition`: "default" for Node, "module" for bundlers. */
function loadedBy(entry: string, condition: "module" | "default" = "default"): Loaded {
  const files = new Set<string>();
  const builtin = new Set<string>();
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
    for (const one of from) {
      if (one.startsWith(".")) waiting.push(join(dirname(file), one));
      else if (one.startsWith("node:")) builtin.add(one);
      else if (one.startsWith("#")) waiting.push(join(root, imports[one]?.[condition] as string));
    }
    for (const { moduleRequest } of module.dynamicImports)
      onDemand.push(text.slice(moduleRequest.start + 1, moduleRequest.end - 1));
  }
  const paths = [...files].map((file) => relative(dist, file).split(sep).join("/"));
  return { files: paths.toSorted(), builtin: [...builtin].toSorted(), onDemand };
}

const MAIN = ["chunks/main.js", "chunks/nevertwice.js", "named-stores.js"];

describe("loading", () => {
  it('import "nevertwice" reads four files, and the other stores only where one is named', () => {
    const { files, onDemand } = loadedBy("index.js");
    expect(files).toEqual([...MAIN, "index.js"].toSorted());
    expect(onDemand).toEqual(["file", "postgres", "redis", "s3"].map((store) => `./stores/${store}/index.js`));
  });

  it('import "nevertwice" loads none of Node\'s modules that few calls need', () => {
    const costly = ["child_process", "http", "https", "net", "stream", "tls", "worker_threads", "zlib"];
    expect(loadedBy("index.js").builtin.filter((name) => costly.includes(name.slice("node:".length)))).toEqual([]);
  });

  it("no file is part of a circle of imports", () => {
    const reaches = (from: string, condition: "module" | "default") =>
      loadedBy(from, condition).files.filter((file) => file !== from);
    for (const condition of ["module", "default"] as const) {
      const circles = loadedBy("index.js", condition).files.filter((file) =>
        reaches(file, condition).some((other) => reaches(other, condition).includes(file)),
      );
      expect(circles, condition).toEqual([]);
    }
  });

  it("a bundler is given nothing to import on demand: the bundle of a program stays one file", () => {
    const { files, onDemand } = loadedBy("index.js", "module");
    expect(onDemand).toEqual([]);
    expect(files).toContain("chunks/redis.js");
  });

  it("no entry reads more than nine files", () => {
    for (const entry of [
      "agents/index",
      "agents/frameworks/langchain",
      "runs/index",
      "stores/postgres/index",
      "stores/sqlite/index",
    ])
      expect(loadedBy(`${entry}.js`).files.length, entry).toBeLessThan(10);
  });

  it("no entry loads the command", () => {
    const entries = Object.values(exports).flatMap((target) => (typeof target === "string" ? [] : target.default));
    const loading = entries.filter((entry) => loadedBy(relative("dist", entry)).files.includes("chunks/command.js"));
    expect(loading).toEqual([]);
  });

  it("the command reads five files at its start; proxy, service, import and migrations come on demand", () => {
    const { files, onDemand } = loadedBy("cli/main.js");
    expect(files).toEqual([...MAIN, "chunks/command.js", "cli/main.js"].toSorted());
    const expected = [
      "mcp-proxy",
      "mcp-init",
      "mcp-probe-report",
      "mcp-serve",
      "http-service",
      "import-run",
      "postgres-migrator",
    ];
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

  it("runs nothing where it is installed", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: object };
    expect(Object.keys(scripts).filter((name) => /^(pre|post)?(install|prepare)$/.test(name))).toEqual([]);
  });

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

  it("declares what programs can use, and none of the classes inside", () => {
    const declarations = files.filter((path) => path.endsWith(".d.ts"));
    const classes = declarations.flatMap((path) =>
      [...readFileSync(join(root, path), "utf8").matchAll(/\bdeclare class (\w+)/g)].map(([, name]) => name),
    );
    expect(classes).toEqual(["NevertwiceError"]);
  });

  it("has the SQLite thread's program as a text of less than 30 KB: it is there a second time", async () => {
    expect((await threadSource(join(root, "src"))).length).toBeLessThan(30_000);
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

  it("an uncaught error shows a line of code above it, not a page", () => {
    const program = 'import { nevertwice } from "nevertwice"; nevertwice({ stor: "memory:" });';
    const { stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      cwd: root,
      encoding: "utf8",
    });
    expect(stderr).toContain('there is no option "stor"');
    expect(stderr.length).toBeLessThan(5_000);
  });
});
