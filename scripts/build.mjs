// Builds dist/ from src/ with plain tsc, from an empty folder so that no file of an older build is shipped.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const fresh = `${root}dist.${process.pid}`;
const stale = `${root}dist.${process.pid}.old`;
const built = spawnSync(process.execPath, [tsc, "-p", "tsconfig.json", "--outDir", fresh], {
  cwd: root,
  stdio: "inherit",
});
if (built.status !== 0) {
  rmSync(fresh, { recursive: true, force: true });
  process.exit(built.status ?? 1);
}
const command = `${fresh}/cli/main.js`;
if (existsSync(command)) chmodSync(command, 0o755);
// Swapped by rename, so that a test run reading dist/ meanwhile never sees half a build.
if (existsSync(`${root}dist`)) renameSync(`${root}dist`, stale);
renameSync(fresh, `${root}dist`);
rmSync(stale, { recursive: true, force: true });
