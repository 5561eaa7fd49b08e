// The main paths on every runtime, for npm run torture: calls with kills, doubts, workers, runs, require() and the command, each
// under that runtime's own SQLite. Resolves to what is wrong, by runtime.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bun } from "../bundles/bundlers.mjs";
import { exercise } from "../bundles/exercise.mjs";
import { installNevertwice, linkPackages } from "../bundles/project.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const installed = (...path) => join(here, "node_modules", ...path);
const LONGEST_MS = 120_000;

/** Each by its program and what comes before a script's name. */
export const RUNTIMES = {
  "Node 20": { program: installed("node-20", "bin", "node"), args: [], driver: true },
  "Node 22": { program: installed("node-22", "bin", "node"), args: [] },
  "Node 24": { program: installed("node-24", "bin", "node"), args: [] },
  Bun: { program: bun(), args: [] },
  Deno: { program: installed("deno-2", "deno"), args: ["run", "--allow-all", "--quiet"] },
};

export async function exerciseRuntimes({ calls, onRuntime }) {
  const wrong = [];
  for (const [name, runtime] of Object.entries(RUNTIMES)) {
    const found = existsSync(runtime.program)
      ? await exerciseOne(runtime, calls)
      : [`it is not installed: there is no ${runtime.program}`];
    onRuntime(`${name} (${versionOf(runtime)})`, found);
    wrong.push(...found.map((one) => `${name}: ${one}`));
  }
  return wrong;
}

function versionOf({ program }) {
  return existsSync(program) ? execFileSync(program, ["--version"], { encoding: "utf8" }).split("\n")[0] : "missing";
}

async function exerciseOne(runtime, calls) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "nevertwice-runtime-")));
  try {
    installNevertwice(folder);
    // The one runtime that brings no SQLite along.
    if (runtime.driver) linkPackages(folder, ["@photostructure/sqlite"]);
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    const launcher = join(folder, "runtime");
    const words = [runtime.program, ...runtime.args].map((word) => `'${word}'`).join(" ");
    writeFileSync(launcher, `#!/bin/sh\nexec ${words} "$@"\n`);
    chmodSync(launcher, 0o755);
    cpSync(join(here, "..", "bundles", "program.mjs"), join(folder, "program.mjs"));
    const wrong = await exercise({ file: join(folder, "program.mjs"), calls, runtime: launcher });
    return [...wrong, ...everyday(launcher, folder)];
  } catch (error) {
    return [String(error.message ?? error)];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function everyday(launcher, folder) {
  const wrong = [];
  const day = join(folder, "day");
  mkdirSync(day);
  for (const file of ["everyday.mjs", "actions.mjs", "with-require.cjs"]) cpSync(join(here, file), join(day, file));
  writeFileSync(join(day, "package.json"), '{ "type": "module" }');
  const run = (args, expected = 0) => {
    const options = { cwd: day, encoding: "utf8", timeout: LONGEST_MS };
    const { status, stdout, stderr } = spawnSync(launcher, args, options);
    if (status !== expected) wrong.push(`${args.join(" ")} ended with ${status}: ${stderr.slice(-1_000)}`);
    return stdout;
  };
  const expect = (what, found, expected) => {
    const [a, b] = [found, expected].map((value) => JSON.stringify(value));
    if (a !== b) wrong.push(`${what}: ${a}, not ${b}`);
  };
  const command = (...args) => run([join(folder, "node_modules", "nevertwice", "dist", "cli", "main.js"), ...args]);
  const json = (text) => (text.trim() === "" ? {} : JSON.parse(text));

  const { key, ...said } = json(run(["everyday.mjs"]));
  // One mail, ten by the worker, one step, one note.
  const expected = { first: false, repeat: true, doubt: "unknown", runs: ["told", "told"], effects: 13, ledger: true };
  expect("a day", said, expected);
  expect("require()", json(run(["with-require.cjs"])), { results: [1, 1], runs: 1 });
  expect("--version", /^\d+\.\d+\.\d+\n$/.test(command("--version")), true);
  const doubts = () => (json(command("ls", "--doubt", "--json")).records ?? []).map((record) => record.key);
  expect("ls --doubt", doubts(), [key]);
  command("resolve", String(key), "--done", "--result", '"charged"', "--by", "test", "--reason", "the provider has it");
  expect("after resolve", doubts(), []);
  command("worker", "./actions.mjs", "--until-idle");
  const counts = json(command("stats", "--json"));
  expect("pending after the worker", counts.states?.pending ?? counts.stats?.states?.pending, 0);
  command("doctor");
  return wrong;
}
