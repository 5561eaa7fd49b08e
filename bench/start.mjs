// npm run bench -- start: how soon a program and the command are ready, and what an install brings, against the previous
// release. Both are packed as npm would publish them and installed side by side; their turns alternate, each in a fresh process.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { middle, table } from "./measure.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
// 0.1.0, as CHANGELOG.md has it. `--against <commit>` measures another.
const PREVIOUS = "8b194bcc189ed1f8ada17e6c8ee00129482b3885";
const [ROUNDS, FEW_ROUNDS] = [41, 11];
const RECORDS = 20;
const LONGEST_COMMAND_MS = 150;
const LARGEST_BYTES = 1_500_000;

// Both print how long it took, and the CPU time of all threads of the process, which a busy machine changes less.
const [FROM, TO] = [
  "const [from, cpu] = [performance.now(), process.cpuUsage()];",
  "const { user, system } = process.cpuUsage(cpu);\nconsole.log(performance.now() - from, (user + system) / 1_000);",
];
const IMPORT = `${FROM}
await import("nevertwice");
${TO}`;
const FIRST_CALL = `${FROM}
const { nevertwice } = await import("nevertwice");
const nt = nevertwice({ sweep: false });
await nt.once("send", [process.pid], () => "sent");
${TO}
await nt.close();`;
// Loaded before the command: at its end it says what the whole process took.
const CPU = `const { writeSync } = require("node:fs");
process.on("exit", () => {
  const { user, system } = process.cpuUsage();
  writeSync(3, String((user + system) / 1_000));
});`;

const LEDGER = `import { nevertwice } from "nevertwice";
const nt = nevertwice({ sweep: false });
for (let i = 0; i < ${RECORDS}; i += 1) await nt.once("send", [i], () => "sent");
await nt.close();`;

// Counts what the loader is asked for, in a process of its own.
const HOOK = `let port;
export const initialize = (data) => { port = data.port; };
export const load = (url, context, next) => { port.postMessage(url); return next(url, context); };`;
const COUNT = `import { register } from "node:module";
import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";
const { port1, port2 } = new MessageChannel();
register("./hook.mjs", import.meta.url, { data: { port: port2 }, transferList: [port2] });
await import("nevertwice");
let files = 0;
for (let got = receiveMessageOnPort(port1); got; got = receiveMessageOnPort(port1)) if (got.message.startsWith("file:")) files += 1;
console.log(files);
process.exit();`;

/** Prints its tables; returns the names of missed targets. */
export async function report({ quick, against = PREVIOUS }) {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-start-"));
  try {
    const before = install(join(folder, "before"), packedCommit(against));
    const now = install(join(folder, "now"), pack(root, folder));
    const rows = [...times([before, now], quick ? FEW_ROUNDS : ROUNDS), ...sizes(before, now)];
    const title = `against ${against.slice(0, 7)}`;
    const shown = rows.map(({ name, values, target }) => [name, ...values, target?.text ?? ""]);
    console.log(`${table([[title, "before", "now", "ratio", "target"], ...shown])}\n`);
    return rows.filter(({ target }) => target?.met === false).map(({ name }) => name);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function times(sides, rounds) {
  const measured = [
    { name: 'import "nevertwice"', run: (side) => printed(side, "import.mjs"), target: third },
    { name: "import and a first call on SQLite", run: (side) => printed(side, "first-call.mjs") },
    { name: "nevertwice --version", run: (side) => command(side, ["--version"]), target: soon },
    { name: "nevertwice --help", run: (side) => command(side, ["--help"]), target: soon },
    { name: `nevertwice ls, ${RECORDS} records`, run: (side) => command(side, ["ls"]), target: soon },
    { name: "for comparison: node -e 0", run: (side) => elapsed(["-e", "0"], side.folder) },
  ];
  return measured.flatMap(({ name, run, target }) => {
    const results = sides.map(() => []);
    for (let i = 0; i < rounds; i += 1) for (const [side, its] of sides.entries()) results[side].push(run(its));
    return ["ms", "CPU ms"].map((unit, at) => {
      const [before, now] = results.map((side) => side.map((pair) => pair[at]));
      const ratio = middle(now.map((value, i) => value / before[i]));
      const values = [middle(before).toFixed(0), middle(now).toFixed(0), ratio.toFixed(2)];
      const row = { name: `${name}, ${unit}`, values };
      return target === undefined ? row : { ...row, target: target(middle(now), ratio) };
    });
  });
}

const third = (_, ratio) => ({ text: "≤ 0.33", met: ratio <= 1 / 3 });
const soon = (now) => ({ text: `< ${LONGEST_COMMAND_MS}`, met: now < LONGEST_COMMAND_MS });

function sizes(before, now) {
  const row = (name, a, b, target) => ({
    name,
    values: [a.toLocaleString("en"), b.toLocaleString("en"), (b / a).toFixed(2)],
    ...(target && { target }),
  });
  const fits = { text: "< 1.5 MB", met: now.unpackedSize < LARGEST_BYTES };
  return [
    row("modules that an import loads", printed(before, "count.mjs")[0], printed(now, "count.mjs")[0]),
    row("unpacked, bytes", before.unpackedSize, now.unpackedSize, fits),
    row("packed, bytes", before.size, now.size),
    row("files", before.entryCount, now.entryCount),
  ];
}

/** The numbers that a script printed. */
function printed(side, script) {
  const text = execFileSync(process.execPath, [script], { cwd: side.folder, encoding: "utf8", stdio: "pipe" });
  return text.trim().split(" ").map(Number);
}

const command = (side, args) => elapsed([side.command, ...args], side.folder);

function elapsed(args, cwd) {
  const from = performance.now();
  const stdio = ["ignore", "pipe", "pipe", "pipe"];
  const { status, stderr, output } = spawnSync(process.execPath, ["-r", "./cpu.cjs", ...args], {
    cwd,
    stdio,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}: ${stderr}`);
  return [performance.now() - from, Number(output[3])];
}

/** A project with the packed package in it, a small ledger, and the scripts. */
function install(folder, { file, ...sizes }) {
  const place = join(folder, "node_modules", "nevertwice");
  mkdirSync(place, { recursive: true });
  execFileSync("tar", ["-xzf", file, "-C", place, "--strip-components=1"]);
  // A driver for the Node that has none of its own.
  symlinkSync(join(root, "node_modules", "@photostructure"), join(folder, "node_modules", "@photostructure"));
  for (const needed of ["detect-libc", "node-gyp-build", "node-addon-api"])
    if (existsSync(join(root, "node_modules", needed)))
      symlinkSync(join(root, "node_modules", needed), join(folder, "node_modules", needed));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const scripts = {
    import: IMPORT,
    "first-call": FIRST_CALL,
    ledger: LEDGER,
    hook: HOOK,
    count: COUNT,
  };
  for (const [name, text] of Object.entries(scripts)) writeFileSync(join(folder, `${name}.mjs`), text);
  writeFileSync(join(folder, "cpu.cjs"), CPU);
  execFileSync(process.execPath, ["ledger.mjs"], { cwd: folder, stdio: "pipe" });
  return { folder, command: join(place, "dist", "cli", "main.js"), ...sizes };
}

/** Built once from git, and kept: a commit does not change. */
function packedCommit(commit) {
  const cache = join(root, "node_modules", ".cache", "nevertwice-bench", commit);
  const about = join(cache, "packed.json");
  if (existsSync(about)) return JSON.parse(readFileSync(about, "utf8"));
  console.log(`Building ${commit.slice(0, 7)} …`);
  const source = mkdtempSync(join(tmpdir(), "nevertwice-before-"));
  try {
    const archive = execFileSync("git", ["archive", commit], { cwd: root, maxBuffer: 2 ** 30 });
    execFileSync("tar", ["-x", "-C", source], { input: archive });
    symlinkSync(join(root, "node_modules"), join(source, "node_modules"));
    execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: source, stdio: "inherit" });
    mkdirSync(cache, { recursive: true });
    const packed = pack(source, cache);
    writeFileSync(about, JSON.stringify(packed));
    return packed;
  } catch (error) {
    throw new Error(`${commit} could not be built: ${error.message}. It needs a clone with the whole history.`);
  } finally {
    rmSync(source, { recursive: true, force: true });
  }
}

/** As npm would publish it, from what is built there. */
function pack(project, to) {
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", to];
  const printed = execFileSync("npm", args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  // A list in one version of npm, by name in the next.
  const [{ filename, size, unpackedSize, entryCount }] = Object.values(JSON.parse(printed));
  return { file: join(to, filename), size, unpackedSize, entryCount };
}
