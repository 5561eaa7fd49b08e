/**
 * What the documents promise. Every block of JavaScript must parse, every block of TypeScript must compile in strict mode, and
 * each block marked "run" (```ts run) is started as a program of its own: what it prints must be what its "// → "
 * comments say, in order. A block that leaves names to the reader has them declared in a comment right before it, which readers do
 * not see: <!-- given: declare const pool: Pool; -->. It is compiled all the same.
 */
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readProxyConfig } from "../src/agents/mcp/config.ts";
import { COMMANDS } from "../src/cli/registry.ts";
import { isLong } from "./support/effort.mjs";

const DOCUMENTS = [
  "README.md",
  "docs/guide.md",
  "docs/when-it-dies.md",
  "docs/cron.md",
  "docs/runs.md",
  "docs/sequences.md",
  "docs/moving-in.md",
  "docs/file-store.md",
  "docs/s3.md",
  "docs/outbox.md",
  "docs/sql.md",
  "docs/agents.md",
  "docs/postgres.md",
  "docs/redis.md",
  "docs/choosing.md",
];
const root = fileURLToPath(new URL("..", import.meta.url));
const LINKED = [
  ...["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"],
  ...readdirSync(join(root, "docs")).flatMap((name) => (name.endsWith(".md") ? [`docs/${name}`] : [])),
];
const TIMEOUT_MS = 60_000;
// A host of this name, or a ledger named outside, would make a block print something else.
const NOT_INHERITED =
  /^(NEVERTWICE|NODE_OPTIONS|NODE_PATH|VERCEL|NETLIFY|DYNO|K_SERVICE|CLOUD_RUN|FUNCTION|AWS_LAMBDA)/;

// Inside the package, so that "nevertwice" means this package by its own exports, and not in git.
const workshop = join(root, ".nevertwice", "docs", String(process.pid));
const exec = promisify(execFile);

interface Block {
  readonly name: string;
  readonly file: string;
  readonly language: string;
  readonly code: string;
  readonly runs: boolean;
  readonly prints: readonly string[];
}

function blocksOf(path: string): Block[] {
  const text = readFileSync(join(root, path), "utf8");
  return [...text.matchAll(/(?:^<!-- given:\s(.*?)-->\n\n?)?^```(js|ts)\b([^\n]*)\n(.*?)^```$/gms)].map((match) => {
    const [, given = "", language = "js", info = "", code = ""] = match;
    const line = text.slice(0, (match.index ?? 0) + match[0].indexOf("```")).split("\n").length;
    return {
      name: `${path}:${line}`,
      file: join(workshop, `${path.replace(/\W/g, "-")}-${line}.m${language}`),
      language,
      // At the end: the lines that the compiler names are then those of the block.
      code: given === "" ? code : `${code}\n${given}`,
      runs: info.trim().split(/\s+/).includes("run"),
      prints: [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, value = ""]) => value.trimEnd()),
    };
  });
}

/** The same SQLite as a package, as the README says: Node 20 has no other, and the compiler knows it by its types. */
function withSqlite(code: string): string {
  return code.replaceAll('"node:sqlite"', '"@photostructure/sqlite"');
}

/** A project of its own: a folder with a package.json, where the default ledger then lies. */
async function runBlock(block: Block): Promise<string[]> {
  const project = mkdtempSync(join(tmpdir(), "nevertwice-docs-"));
  writeFileSync(join(project, "package.json"), "{}\n");
  const inherited = Object.entries(process.env).filter(([name]) => !NOT_INHERITED.test(name));
  const env = { ...Object.fromEntries(inherited), NO_COLOR: "1" };
  try {
    const program =
      block.language === "ts" ? join(workshop, "js", basename(block.file, ".mts")).concat(".mjs") : block.file;
    const { stdout } = await exec(process.execPath, [program], { cwd: project, env, timeout: TIMEOUT_MS });
    return stdout.split("\n").slice(0, -1);
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

/** Packages that only the long command installs: blocks that import one are its alone. */
const { dependencies } = JSON.parse(readFileSync(join(root, "test/agents/package.json"), "utf8")) as {
  dependencies: Record<string, string>;
};
const FRAMEWORKS = Object.keys(dependencies).filter((name) => !existsSync(join(root, "node_modules", name)));

function needsFramework({ code }: Block): boolean {
  const imported = [...code.matchAll(/from "([^"]+)"/g)].map(([, name = ""]) => name);
  return imported.some((name) => FRAMEWORKS.some((one) => name === one || name.startsWith(`${one}/`)));
}

const blocks = DOCUMENTS.flatMap(blocksOf).filter((block) => isLong || !needsFramework(block));
const typescript = join(root, "node_modules", "typescript", "bin", "tsc");

const COMPILER_OPTIONS = {
  module: "nodenext",
  target: "es2023",
  lib: ["es2023"],
  types: ["node"],
  rootDir: ".",
  outDir: "js",
  // A block is a program of its own: two of them may have the same name for an action.
  moduleDetection: "force",
  strict: true,
  skipLibCheck: true,
};

/** What the compiler says of all blocks at once; it also makes the JavaScript of those that run. */
let compiled = "";

beforeAll(async () => {
  expect(existsSync(join(root, "dist", "index.d.ts")), "built first: npm run build").toBe(true);
  mkdirSync(workshop, { recursive: true });
  // The agent frameworks, as far as the documents use them: what is not found there is looked for at the root.
  if (isLong) symlinkSync(join(root, "test", "agents", "node_modules"), join(workshop, "node_modules"));
  for (const { file, code } of blocks) writeFileSync(file, withSqlite(code));
  const config = { compilerOptions: COMPILER_OPTIONS, include: ["*.mts"] };
  writeFileSync(join(workshop, "tsconfig.json"), JSON.stringify(config));
  const checked = await exec(process.execPath, [typescript, "-p", workshop], { cwd: workshop }).catch(
    (failed: { stdout: string }) => failed,
  );
  compiled = checked.stdout;
}, TIMEOUT_MS);

afterAll(() => rmSync(workshop, { recursive: true, force: true }));

describe("the code in the documents", () => {
  test("most of it runs", () => {
    for (const path of DOCUMENTS) {
      expect(blocks.filter(({ name }) => name.startsWith(path)).length, path).toBeGreaterThan(0);
    }
    expect(blocks.filter(({ runs }) => runs).length).toBeGreaterThan(blocks.length / 2);
  });

  for (const block of blocks.filter(({ language, runs }) => language === "js" && !runs)) {
    test(`${block.name} parses`, async () => {
      await exec(process.execPath, ["--check", block.file]);
    });
  }

  test("the TypeScript compiles in strict mode", () => {
    expect(compiled).toBe("");
  });

  test("the table of README.md is the one that docs/first-run.md has of `npm start`", () => {
    const table = (path: string) =>
      /^ +without nevertwice.*?^all .*?$/ms.exec(readFileSync(join(root, path), "utf8"))?.[0];
    expect(table("README.md")).toBe(table("docs/first-run.md"));
    expect(table("README.md")).toContain("overlapping crons");
  });

  for (const block of blocks.filter(({ runs }) => runs)) {
    test(`${block.name} prints what it says`, { timeout: TIMEOUT_MS + 5_000 }, async () => {
      expect(await runBlock(block)).toEqual(block.prints);
    });
  }
});

describe("the links in the documents", () => {
  for (const path of LINKED) {
    test(`${path} links to headings and files that are there`, () => {
      const text = readFileSync(join(root, path), "utf8");
      const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)/g)];
      for (const [, file = "", anchor = ""] of links) {
        const target = file === "" ? path : join(dirname(path), file);
        expect(existsSync(join(root, target)), target).toBe(true);
        if (anchor !== "") expect(anchorsOf(target), `${target}${anchor}`).toContain(anchor);
      }
    });
  }
});

/** As GitHub makes them: lower case, spaces to hyphens, other signs dropped. */
function anchorsOf(path: string): string[] {
  const headings = [...readFileSync(join(root, path), "utf8").matchAll(/^#+ (.+)$/gm)];
  return headings.map(
    ([, heading = ""]) =>
      `#${heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replace(/ /g, "-")}`,
  );
}

test("docs/cli.md lists every command that `nevertwice help` knows", () => {
  const text = readFileSync(join(root, "docs/cli.md"), "utf8");
  const listed = [...text.matchAll(/^\| \[`(\w+)`\]/gm)].map(([, name]) => name);
  expect(listed.toSorted()).toEqual(COMMANDS.map(({ name }) => name).toSorted());
});

test("the proxy takes the configs of docs/mcp.md", () => {
  const text = readFileSync(join(root, "docs/mcp.md"), "utf8");
  const configs = [...text.matchAll(/^```json\n(.*?)^```$/gms)]
    .map(([, json = ""]) => JSON.parse(json) as object)
    .filter((config) => !("mcpServers" in config));
  expect(configs.length).toBeGreaterThan(1);
  for (const config of configs) expect(readProxyConfig(config, "docs/mcp.md")).toBe(config);
});

test("docs/guide.md lists every warning, and no other", () => {
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && !path.endsWith(".test.ts"),
  );
  const given = sources.flatMap((path) => {
    const text = readFileSync(join(root, "src", path), "utf8");
    // By the engine's own warnings, by process.emitWarning, and by what a policy says of itself.
    const codes = /\.warn\(\s*"([A-Z_]+)"|code: "NEVERTWICE_([A-Z_]+)"|warnings\.push\(\{\s*code: "([A-Z_]+)"/g;
    return [...text.matchAll(codes)].map(([, ...found]) => found.find((code) => code !== undefined));
  });
  const guide = readFileSync(join(root, "docs/guide.md"), "utf8");
  const table = /### Warnings about keys\n(.*?)\n### /s.exec(guide)?.[1] ?? "";
  const listed = [...table.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code);
  expect(listed.toSorted()).toEqual([...new Set(given)].toSorted());
});

test("every document that README.md links to is there; those that are not in the package, it says so of", () => {
  const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { files: string[] };
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const links = [...readme.matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, path = ""]) => path);
  expect(links.length).toBeGreaterThan(10);
  expect(links.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(links.filter((path) => files.includes(path))).toEqual([]);
  expect(readme).toContain("The documents are in the repository, not in the package.");
});
