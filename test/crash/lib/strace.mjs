/** strace as a fault injector: kills and errors at the N-th system call, and a log of what was called in which order. */
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
