// Builds dist/ from src/ with plain tsc, from an empty folder so that no file of an older build is shipped.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { threadSource } from "./thread-source.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const fresh = `${root}dist.${process.pid}`;
const stale = `${root}dist.${process.pid}.old`;
const thread = `${root}dist.${process.pid}.thread`;
compile("tsconfig.json", fresh);
compile("tsconfig.thread.json", thread);
const source = `export const THREAD_SOURCE = ${JSON.stringify(threadSource(thread))};\n`;
writeFileSync(`${fresh}/stores/sqlite-thread-source.js`, source);
// Of the placeholder, and of a program that is in the text now.
for (const file of ["sqlite-thread-source.js.map", "sqlite-worker.js", "sqlite-worker.js.map", "sqlite-worker.d.ts"]) {
  rmSync(`${fresh}/stores/${file}`);
}
rmSync(thread, { recursive: true, force: true });
const command = `${fresh}/cli/main.js`;
if (existsSync(command)) chmodSync(command, 0o755);
// Swapped by rename, so that a test run reading dist/ meanwhile never sees half a build.
if (existsSync(`${root}dist`)) renameSync(`${root}dist`, stale);
renameSync(fresh, `${root}dist`);
rmSync(stale, { recursive: true, force: true });

function compile(project, outDir) {
  const args = [tsc, "-p", project, "--outDir", outDir];
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (status === 0) return;
  for (const folder of [fresh, thread]) rmSync(folder, { recursive: true, force: true });
  process.exit(status ?? 1);
}
