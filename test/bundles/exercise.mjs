// A bundled program at work: one caller, many, two processes on one ledger, killed and run again. Returns what is wrong.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MANY = 256;
const POLL_MS = 5;

/** `calls`: how many in all, about. `runtime`: the program that runs the bundle. */
export async function exercise({ file, calls, runtime = process.execPath }) {
  const wrong = [];
  const alone = Math.ceil(calls / 10);
  const many = Math.ceil(calls / 2);
  const shared = Math.ceil(calls / 5);
  await inFolder(async (folder) => {
    const run = (first, last, callers) => started(runtime, file, sqlite(folder), folder, first, last, callers).ended;
    check(wrong, "one caller", await run(1, alone, 1), { done: alone, replayed: 0 });
    check(wrong, `${MANY} callers`, await run(alone + 1, alone + many, MANY), { done: many, replayed: 0 });
    check(wrong, "the same again", await run(1, alone, 1), { done: alone, replayed: alone });
    const from = alone + many + 1;
    const two = await Promise.all([run(from, from + shared - 1, MANY), run(from, from + shared - 1, 4)]);
    for (const one of two) check(wrong, "two processes", one, { done: shared });
    checkEffects(wrong, folder, alone + many + shared);
  });
  await inFolder((folder) => killAndResume({ wrong, folder, runtime, file, calls: Math.ceil(calls / 5) }));
  return wrong;
}

/** A few calls and their repeats by a second process. `store`: "sqlite:", "file:", or a whole name. */
export async function smoke({ file, store, calls, runtime = process.execPath, repeats = true }) {
  const wrong = [];
  await inFolder(async (folder) => {
    const at = store === "file:" || store === "sqlite:" ? `${store}${join(folder, "ledger")}` : store;
    const run = () => started(runtime, file, at, folder, 1, calls, 16).ended;
    check(wrong, store, await run(), { done: calls, replayed: 0 });
    if (repeats) check(wrong, `${store} again`, await run(), { done: calls, replayed: calls });
    if (repeats) checkEffects(wrong, folder, calls);
  });
  return wrong;
}

/** What the killed process had under way may be held as unknown. Nothing happens twice, and everything else is done. */
async function killAndResume({ wrong, folder, runtime, file, calls }) {
  const victim = started(runtime, file, sqlite(folder), folder, 1, calls, MANY);
  while (effectsOf(folder).length < calls / 4 && victim.process.exitCode === null) await pause();
  victim.process.kill("SIGKILL");
  await victim.ended.catch(() => {});
  // What the victim held is held until its lease ends: not waited for.
  const resumed = await started(runtime, file, sqlite(folder), folder, 1, calls, MANY, "100ms").ended;
  const held = Object.values(resumed.others);
  if (held.some((status) => status !== "unknown" && status !== "in_flight"))
    wrong.push(`after a kill: calls ended as ${[...new Set(held)].join(", ")}`);
  if (held.length > MANY) wrong.push(`after a kill: ${held.length} of ${calls} calls are held, of ${MANY} under way`);
  if (resumed.done + held.length !== calls) wrong.push(`after a kill: ${resumed.done} done, ${held.length} held`);
  if (resumed.warnings.length > 0) wrong.push(`after a kill: ${resumed.warnings.join("; ")}`);
  const effects = effectsOf(folder);
  const missing = calls - new Set(effects).size;
  if (new Set(effects).size !== effects.length) wrong.push("after a kill: an effect happened twice");
  if (missing > held.length) wrong.push(`after a kill: ${missing} effects are missing, ${held.length} are held`);
}

function check(wrong, when, ended, expected) {
  for (const [name, value] of Object.entries(expected)) {
    if (ended[name] !== value)
      wrong.push(`${when}: ${name} is ${ended[name]}, not ${value} (${JSON.stringify(ended)})`);
  }
  if (ended.wrong > 0) wrong.push(`${when}: ${ended.wrong} calls got another call's result`);
  if (ended.warnings.length > 0) wrong.push(`${when}: ${ended.warnings.join("; ")}`);
  const { status, final, name } = ended.refusal;
  if (status !== "failed" || !final || name !== "TypeError")
    wrong.push(`${when}: the refusal was ${JSON.stringify(ended.refusal)}`);
}

function checkEffects(wrong, folder, expected) {
  const effects = effectsOf(folder);
  if (effects.length !== expected || new Set(effects).size !== expected)
    wrong.push(`${effects.length} effects of ${new Set(effects).size} intents, not ${expected}`);
}

function started(runtime, file, store, folder, first, last, callers, wait = "60s") {
  const args = [file, store, join(folder, "effects"), String(first), String(last), String(callers), wait];
  const child = spawn(runtime, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) {
    child[stream].setEncoding("utf8").on("data", (text) => {
      said[stream] += text;
    });
  }
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(JSON.parse(said.stdout));
      else reject(new Error(`${file} ended with ${code}: ${said.stderr.slice(-2_000)}`));
    });
  });
  return { process: child, ended };
}

const sqlite = (folder) => `sqlite:${join(folder, "ledger.db")}`;
const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

function effectsOf(folder) {
  const file = join(folder, "effects");
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
}

async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-bundled-"));
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
