// Builds dist/ from src/: tsc checks and makes the declarations, Rolldown the JavaScript. From an empty folder, so that no file
// of an older build is shipped.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { writeBundle } from "./bundle.mjs";
import { writeDeclarations } from "./declarations.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const fresh = `${root}dist.${process.pid}`;
const stale = `${root}dist.${process.pid}.old`;
const types = `${root}dist.${process.pid}.types`;

const { exports, bin } = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
const subpaths = Object.values(exports).filter((target) => typeof target === "object");
const nameOf = (file) => /^\.\/dist\/(.+?)(?:\.d\.ts|\.js)$/.exec(file)[1];
const [main, ...others] = subpaths.map((target) => nameOf(target.default));
const command = nameOf(bin.nevertwice);

try {
  compile();
  await writeBundle({ src: `${root}src`, to: fresh, main, command, others });
  writeDeclarations(
    `${types}/`,
    fresh,
    subpaths.map((target) => nameOf(target.types)),
  );
  chmodSync(`${fresh}/${command}.js`, 0o755);
  // Swapped by rename, so that a test run reading dist/ meanwhile never sees half a build.
  if (existsSync(`${root}dist`)) renameSync(`${root}dist`, stale);
  renameSync(fresh, `${root}dist`);
} finally {
  for (const folder of [fresh, stale, types]) rmSync(folder, { recursive: true, force: true });
}

function compile() {
  const args = [tsc, "-p", "tsconfig.json", "--emitDeclarationOnly", "--outDir", types];
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  // tsc has printed what is wrong.
  if (status !== 0) throw new Error(`tsc ended with ${status}`);
}
