// The process that owns every server of one run. It is the servers' parent and sits in a session of its own, so that
// Ctrl-C does not reach it; when the process that started it goes away, in whatever way (SIGKILL too), the channel
// between the two closes, and it ends the servers and removes their folder. Then it ends itself.
// It makes the folder too: made by the other side, it would stay when that is killed before the keeper runs.
import { spawn } from "node:child_process";
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { baseFolder } from "./base-folder.mjs";
import { releaseSharedMemory } from "./shared-memory.mjs";

// PostgreSQL itself gives its children five seconds before it kills them; killed sooner, it would leave them behind.
const POLITE_MS = 8_000;
const FORCED_MS = 2_000;

const folder = mkdtempSync(join(baseFolder(), "nevertwice-services-"));
/** @type {Map<number, { child: import("node:child_process").ChildProcess, stopSignal: NodeJS.Signals }>} */
const running = new Map();
let ending = false;

process.on("message", (message) => {
  if (message.start && !ending) start(message.start);
  if (message.signal) running.get(message.signal.id)?.child.kill(message.signal.name);
});
process.on("disconnect", end);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, end);
// The servers' user has to get through to its own folder, which is closed to others.
chmodSync(folder, 0o711);
tell({ folder });
if (!process.connected) await end();

function start({ id, command, args, log, uid, gid, env, cwd, stopSignal }) {
  const output = openSync(log, "a");
  const child = spawn(command, args, { stdio: ["ignore", output, output], uid, gid, env, cwd });
  closeSync(output);
  running.set(id, { child, stopSignal });
  child.once("spawn", () => tell({ id, pid: child.pid }));
  child.once("error", (error) => gone(id, { failed: error.message }));
  child.once("exit", (code, signal) => gone(id, { code, signal }));
}

function gone(id, exit) {
  running.delete(id);
  tell({ id, exit });
}

function tell(message) {
  // The other side may be gone already; that is then what "disconnect" is about.
  if (process.connected) process.send(message, () => {});
}

async function end() {
  if (ending) return;
  ending = true;
  // A server that a test had stopped (SIGSTOP) takes no other signal before it goes on.
  for (const { child, stopSignal } of running.values()) {
    child.kill("SIGCONT");
    child.kill(stopSignal);
  }
  await allGone(POLITE_MS);
  for (const { child } of running.values()) child.kill("SIGKILL");
  await allGone(FORCED_MS);
  releaseSharedMemory(folder);
  // PostgreSQL's own children may write for a moment after their postmaster was killed.
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  process.exit(0);
}

async function allGone(withinMs) {
  const until = performance.now() + withinMs;
  while (running.size > 0 && performance.now() < until) await new Promise((resume) => setTimeout(resume, 10));
}
