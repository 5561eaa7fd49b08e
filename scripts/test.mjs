// npm test and npm run test:long. Arguments go to vitest: `npm test -- src/core` runs one folder.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const script = (name) => fileURLToPath(new URL(name, import.meta.url));
const bin = (path) => fileURLToPath(new URL(`../node_modules/${path}`, import.meta.url));

// Packages that only the long command needs: ORMs, agent frameworks, MCP servers, bundlers, versions of TypeScript.
const PACKAGES = ["orms", "agents", "agents/vercel-workflow", "agents/mcp-servers", "bundles", "typescript"];
// Tests in these folders start no process that has to be killed at a system call, nor one in Python.
const WITHOUT_TOOLS = /^src\//;

const args = process.argv.slice(2);
const isLong = args.includes("--long");
const given = args.filter((arg) => arg !== "--long");
const folders = given.filter((arg) => !arg.startsWith("-"));

node(script("build.mjs"));
if (isLong || folders.length === 0 || !folders.every((folder) => WITHOUT_TOOLS.test(folder))) {
  node(script("ensure-tools.mjs"));
}
if (isLong) {
  node(script("ensure-package.mjs"), ...PACKAGES.map((name) => `test/${name}`));
  for (const project of ["test/orms", "test/agents"]) node(bin("typescript/bin/tsc"), "-p", project);
  process.env.NEVERTWICE_TESTS = "long";
}
node(bin("vitest/vitest.mjs"), "run", ...given);

function node(...command) {
  const { status } = spawnSync(process.execPath, command, { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
