/**
 * Between a command and its runner: processes that pass on what the command prints, and throw it away when the runner is
 * gone. Without them the command would be ended by its next line (SIGPIPE), though it could have finished.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

/** What a command prints, as it comes out. */
export interface Outlet {
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Nothing more comes. */
  readonly closed: Promise<void>;
}

export interface Relay extends Outlet {
  /** What the command gets as its streams. */
  readonly into: { readonly stdout: Writable; readonly stderr: Writable };
  /** The command has them: this process must not hold them open. */
  handedOver(): void;
}

// `cat` ends where it cannot write any more; a second one then reads on, for nobody. Both inherit that signals are ignored:
// the command may print until it has ended.
const RELAY = `
trap '' HUP INT QUIT PIPE ALRM TERM USR1 USR2
exec 4>&2 2>/dev/null
{ command -p cat <&3 >&4 || command -p cat <&3 >/dev/null; } &
exec 3<&- 4>&-
command -p cat || command -p cat >/dev/null
wait
`;
const STDERR_FD = 3;

export async function startRelay(): Promise<Relay> {
  const child = spawn("/bin/sh", ["-c", RELAY, "nevertwice-output"], {
    // Not in the command's group: that group lives for as long as the command and what it started does.
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  await new Promise<void>((started, failed) => {
    child.once("spawn", started);
    child.once("error", failed);
  });
  // What the command left running may hold it open; this process ends all the same.
  child.unref();
  const into = { stdout: child.stdin as Writable, stderr: child.stdio[STDERR_FD] as Writable };
  for (const stream of Object.values(into)) stream.on("error", () => {});
  return {
    ...ownOutlet(child),
    into,
    handedOver: () => {
      for (const stream of Object.values(into)) stream.destroy();
    },
  };
}

export function ownOutlet(child: ChildProcess): Outlet {
  const [stdout, stderr] = [child.stdout as Readable, child.stderr as Readable];
  const ended = (stream: Readable) => new Promise<void>((done) => stream.once("close", done));
  return { stdout, stderr, closed: Promise.all([ended(stdout), ended(stderr)]).then(() => {}) };
}
