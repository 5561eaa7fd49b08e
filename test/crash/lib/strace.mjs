/** strace as a fault injector: kills and errors at the N-th system call, and a log of what was called in which order. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./processes.mjs";

// The calls that change files. Which of them SQLite makes depends on how it was built: they are counted, not assumed.
const CHANGING = ["pwrite64", "pwritev", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "fallocate"];

// Without --seccomp-bpf, though it would be faster: under strace 6.1 it loses signals injected into the main thread.
const STRACE = ["strace", "-f", "-qq", "-e", "signal=none"];

/** Killed on entering its n-th such call (each thread counts for itself). */
export function straceKilling(call, nth) {
  return [...STRACE, "-o", "/dev/null", "-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${nth}`];
}

/** The n-th call fails with this error; `onwards`: and all after it. */
export function straceFailing(calls, error, nth, onwards = true) {
  const list = calls.join(",");
  const when = `${nth}${onwards ? "+" : ""}`;
  return [...STRACE, "-o", "/dev/null", "-e", `trace=${list}`, "-e", `inject=${list}:error=${error}:when=${when}`];
}

export function straceLogging(calls, file) {
  return [...STRACE, "-y", "-s", "200", "-o", file, "-e", `trace=${calls.join(",")}`];
}

/**
 * Which of the changing calls a program makes, found by running it once.
 * @param {(wrap: string[]) => Promise<unknown>} run
 */
export async function changingCalls(run) {
  const log = join(temporaryFolder(), "calls");
  await run(straceLogging(CHANGING, log));
  const made = readFileSync(log, "utf8");
  return CHANGING.filter((call) => made.includes(` ${call}(`));
}

const ATTACH_TIMEOUT_MS = 20_000;

/** Traces a running process from now on. Resolves once strace holds it, with a promise of strace's end. */
export async function attachStrace(pid, wrap) {
  const [command, ...args] = wrap.filter((option) => option !== "-qq");
  const child = spawn(command, [...args, "-p", String(pid)], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((done) => child.on("close", done));
  await new Promise((attached, failed) => {
    let heard = "";
    const timer = setTimeout(() => failed(new Error(`strace did not attach: ${heard}`)), ATTACH_TIMEOUT_MS);
    child.on("error", failed);
    child.stderr.on("data", (chunk) => {
      heard += chunk;
      if (!/attached/.test(heard)) return;
      clearTimeout(timer);
      attached();
    });
    ended.then(() => failed(new Error(`strace ended before it attached: ${heard}`)));
  });
  return { ended };
}
