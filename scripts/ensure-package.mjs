// node scripts/ensure-package.mjs <folder> …: installs what a folder with a package of its own needs, once.
// ORMs, agent frameworks and the peers we measure against weigh more than everything else together, so they are no
// dependencies of ours: each lies beside the tests or benchmarks that use it.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

for (const name of process.argv.slice(2)) ensure(name);

function ensure(name) {
  const folder = join(root, name);
  const wanted = readFileSync(join(folder, "package.json"), "utf8");
  // Written after a complete install only, so that an interrupted one is done again.
  const marker = join(folder, "node_modules", ".installed-for");
  if (existsSync(marker) && readFileSync(marker, "utf8") === wanted) return;
  console.log(`Installing the packages of ${name} …`);
  const options = ["--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"];
  const npm = spawnSync("npm", ["install", ...options, "--loglevel=error"], {
    cwd: folder,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (npm.status !== 0) {
    console.error(
      `${npm.stderr ?? npm.error}\nThe packages of ${name} could not be installed. Try:\n  npm install --prefix ${name} --ignore-scripts`,
    );
    process.exit(1);
  }
  writeFileSync(marker, wanted);
}
