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

const IMPORT = `const from = performance.now();
await import("nevertwice");
console.log(performance.now() - from);`;

// Of all threads of the process; what else the machine does changes it little.
const IMPORT_CPU = `const from = process.cpuUsage();
await import("nevertwice");
const { user, system } = process.cpuUsage(from);
console.log((user + system) / 1_000);`;

const FIRST_CALL = `const from = performance.now();
const { nevertwice } = await import("nevertwice");
const nt = nevertwice({ sweep: false });
await nt.once("send", [process.pid], () => "sent");
console.log(performance.now() - from);
await nt.close();`;

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
    { name: 'import "nevertwice", ms', run: (side) => printed(side, "import.mjs"), third: true },
    { name: "the same, CPU ms", run: (side) => printed(side, "import-cpu.mjs"), third: true },
    { name: "import and a first call on SQLite, ms", run: (side) => printed(side, "first-call.mjs") },
    { name: "nevertwice --version, ms", run: (side) => command(side, ["--version"]), command: true },
    { name: "nevertwice --help, ms", run: (side) => command(side, ["--help"]), command: true },
    { name: `nevertwice ls, ${RECORDS} records, ms`, run: (side) => command(side, ["ls"]), command: true },
    { name: "for comparison: node -e 0, ms", run: () => elapsed(["-e", "0"], root) },
  ];
  return measured.map(({ name, run, third, command: isCommand }) => {
    const results = sides.map(() => []);
    for (let i = 0; i < rounds; i += 1) for (const [side, its] of sides.entries()) results[side].push(run(its));
    const [before, now] = results.map(middle);
    const ratio = middle(results[1].map((ms, i) => ms / results[0][i]));
    const values = [before.toFixed(0), now.toFixed(0), ratio.toFixed(2)];
    if (third) return { name, values, target: { text: "≤ 0.33", met: ratio <= 1 / 3 } };
    if (isCommand)
      return { name, values, target: { text: `< ${LONGEST_COMMAND_MS} ms`, met: now < LONGEST_COMMAND_MS } };
    return { name, values };
  });
}

function sizes(before, now) {
  const row = (name, a, b, target) => ({
    name,
    values: [a.toLocaleString("en"), b.toLocaleString("en"), (b / a).toFixed(2)],
    ...(target && { target }),
  });
  const fits = { text: "< 1.5 MB", met: now.unpackedSize < LARGEST_BYTES };
  return [
    row("modules that an import loads", printed(before, "count.mjs"), printed(now, "count.mjs")),
    row("unpacked, bytes", before.unpackedSize, now.unpackedSize, fits),
    row("packed, bytes", before.size, now.size),
    row("files", before.entryCount, now.entryCount),
  ];
}

/** What a script printed last, as a number. */
function printed(side, script) {
  return Number(execFileSync(process.execPath, [script], { cwd: side.folder, encoding: "utf8", stdio: "pipe" }));
}

const command = (side, args) => elapsed([side.command, ...args], side.folder);

function elapsed(args, cwd) {
  const from = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}: ${stderr}`);
  return performance.now() - from;
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
    "import-cpu": IMPORT_CPU,
    "first-call": FIRST_CALL,
    ledger: LEDGER,
    hook: HOOK,
    count: COUNT,
  };
  for (const [name, text] of Object.entries(scripts)) writeFileSync(join(folder, `${name}.mjs`), text);
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
