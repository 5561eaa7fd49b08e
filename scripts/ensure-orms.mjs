// test/orms joins the transactions of Prisma, Drizzle, Kysely, Knex and TypeORM. They weigh more than everything else
// together, so they are no dependencies of ours: this installs them beside their tests, once, before vitest starts.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../test/orms", import.meta.url));
const wanted = readFileSync(join(folder, "package.json"), "utf8");
// Written after a complete install only, so that an interrupted one is done again.
const marker = join(folder, "node_modules", ".installed-for");
const installed = existsSync(marker) ? readFileSync(marker, "utf8") : undefined;

if (installed !== wanted) {
  console.log("Installing the ORMs of test/orms …");
  const options = ["--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"];
  const npm = spawnSync("npm", ["install", ...options, "--loglevel=error"], {
    cwd: folder,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (npm.status !== 0) {
    console.error(
      `${npm.stderr ?? npm.error}\nThe ORMs of test/orms could not be installed. Try:\n  npm install --prefix test/orms --ignore-scripts`,
    );
    process.exit(1);
  }
  writeFileSync(marker, wanted);
}
