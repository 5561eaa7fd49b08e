// node scripts/ensure-package.mjs <folder> …: installs what a folder with a package of its own needs, once, as its lock
// file says.
// ORMs, agent frameworks and the peers we measure against weigh more than everything else together, so they are no
// dependencies of ours: each lies beside the tests or benchmarks that use it.
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));

const failures = (await Promise.all(process.argv.slice(2).map(ensure))).filter((failure) => failure !== null);
for (const failure of failures) console.error(failure);
process.exit(failures.length > 0 ? 1 : 0);

/** Null, or what went wrong. */
async function ensure(name) {
  const folder = join(root, name);
  const wanted = ["package.json", "package-lock.json"].map((file) => readFileSync(join(folder, file), "utf8")).join("");
  // Written after a complete install only, so that an interrupted one is done again.
  const marker = join(folder, "node_modules", ".installed-for");
  if (existsSync(marker) && readFileSync(marker, "utf8") === wanted) return null;
  console.log(`Installing the packages of ${name} …`);
  const options = ["--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  try {
    await promisify(execFile)("npm", ["ci", ...options], { cwd: folder, shell: process.platform === "win32" });
  } catch (error) {
    const said = error.stderr || error.message;
    return `${said}\nThe packages of ${name} could not be installed. Try:\n  npm ci --prefix ${name} --ignore-scripts`;
  }
  writeFileSync(marker, wanted);
  return null;
}
