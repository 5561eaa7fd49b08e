// Projects with one or two copies of nevertwice and of the SQLite driver, and a process that uses them at once.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { installNevertwice } from "../bundles/project.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const CHILD = fileURLToPath(new URL("child.mjs", import.meta.url));
const DRIVER = "node_modules/@photostructure/sqlite";

const installed = new Map();
process.on("exit", () => {
  for (const folder of installed.values()) rmSync(folder, { recursive: true, force: true });
});

/** `drivers`: 1: both copies of nevertwice find the same driver; 2: each has its own, which is a library of its own. */
export async function runCopies({ scenario, drivers, store = "sqlite", calls }) {
  const ledger = temporaryFolder();
  try {
    const args = [CHILD, scenario, install(drivers), ledger, store, String(calls)];
    const { stdout } = await promisify(execFile)(process.execPath, [...withoutBuiltIn(), "--expose-gc", ...args]);
    return JSON.parse(stdout);
  } finally {
    rmSync(ledger, { recursive: true, force: true });
  }
}

function install(drivers) {
  const known = installed.get(drivers);
  if (known !== undefined) return known;
  const folder = temporaryFolder();
  installed.set(drivers, folder);
  for (const name of ["one", "two"]) installNevertwice(join(folder, name));
  for (const name of drivers === 1 ? ["."] : ["one", "two"]) installDriver(join(folder, name));
  return folder;
}

const temporaryFolder = () => realpathSync(mkdtempSync(join(tmpdir(), "nevertwice-copies-")));

/** Two drivers of one process are two copies of the package. Node's own SQLite is there once. */
function withoutBuiltIn() {
  return process.allowedNodeEnvironmentFlags.has("--experimental-sqlite") ? ["--no-experimental-sqlite"] : [];
}

function installDriver(folder) {
  const platform = `prebuilds/${process.platform}-${process.arch}`;
  for (const part of ["package.json", "dist", platform]) {
    cpSync(join(root, DRIVER, part), join(folder, DRIVER, part), { recursive: true });
  }
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  symlinkSync(join(root, "node_modules/node-gyp-build"), join(folder, "node_modules/node-gyp-build"));
}
