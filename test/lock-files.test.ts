/** What was tested is what is installed: every package of the repository has a lock file that holds on every platform. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const FOLDERS = [
  ".",
  "tools",
  "test/orms",
  "test/agents",
  "test/agents/vercel-workflow",
  "test/agents/mcp-servers",
  "test/bundles",
  "test/typescript",
  "test/runtimes",
  "bench/peers",
];
const KINDS = ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"] as const;

interface Locked extends Partial<Record<(typeof KINDS)[number], Record<string, string>>> {
  readonly integrity?: string;
  readonly resolved?: string;
  readonly libc?: readonly string[];
}

function read(folder: string, file: string) {
  return JSON.parse(readFileSync(join(root, folder, file), "utf8"));
}

describe.each(FOLDERS)("the lock file of %s", (folder) => {
  const manifest = read(folder, "package.json") as Locked;
  const { packages } = read(folder, "package-lock.json") as { packages: Record<string, Locked> };
  const { "": own = {}, ...installed } = packages;

  it("is of this package.json", () => {
    for (const kind of KINDS) expect(own[kind], kind).toEqual(manifest[kind]);
  });

  it("has a hash for everything and names no registry", () => {
    for (const [path, { integrity, resolved }] of Object.entries(installed)) {
      expect(integrity, path).toMatch(/^sha512-/);
      expect(resolved, path).toBeUndefined();
    }
  });

  it("has no field that another version of npm would remove at npm install", () => {
    expect(Object.values(installed).filter(({ libc }) => libc !== undefined)).toEqual([]);
  });

  it("lists the binaries of all platforms, not only of the one it was made on", () => {
    const names = new Set(Object.keys(installed).map((path) => path.split("node_modules/").at(-1)));
    const missing = Object.values(installed)
      .flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies))
      .filter((name) => !names.has(name));
    expect(missing).toEqual([]);
  });
});
