// node scripts/lock.mjs <folder> …: brings the lock file of a folder in line with its package.json ("." is the root).
// In a folder of its own: beside an installed tree, npm leaves out the binaries of other platforms.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const FILES = ["package.json", "package-lock.json", ".npmrc"];
const OPTIONS = ["--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"];

for (const name of process.argv.slice(2)) {
  const folder = join(root, name);
  const apart = mkdtempSync(join(tmpdir(), "nevertwice-lock-"));
  try {
    for (const file of FILES) if (existsSync(join(folder, file))) copyFileSync(join(folder, file), join(apart, file));
    const shell = process.platform === "win32";
    execFileSync("npm", ["install", ...OPTIONS], { cwd: apart, stdio: "inherit", shell });
    const lock = JSON.parse(readFileSync(join(apart, "package-lock.json"), "utf8"));
    // npm 10 does not know this field and removes it: each of two versions would undo what the other wrote.
    for (const one of Object.values(lock.packages)) delete one.libc;
    writeFileSync(join(folder, "package-lock.json"), `${JSON.stringify(lock, null, 2)}\n`);
  } finally {
    rmSync(apart, { recursive: true, force: true });
  }
}
