/**
 * A command that is started but held at a gate until the ledger knows its process group. The gate is a shell that waits
 * for a word on a pipe and then runs the command. If this process dies before it says the word, the pipe closes and
 * the gate ends: the command never began, and the gate leaves word of that. So there is no moment in which the command runs and nobody could know of it.
 *
 * The gate's shell stays until the command has ended, and leaves its exit code in a file (see schedule/command/exit-file.ts): it is known also
 * when this process was killed meanwhile.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { configError } from "../../core/errors.ts";
import { clearTimeout, setTimeout } from "../../engine/real-timers.ts";
import { NOT_BEGUN } from "./exit-file.ts";
import { type CommandEnd, endOfCode } from "./failed.ts";
import { type Outlet, ownOutlet, startRelay } from "./output-relay.ts";
import { describeGroup, groupStanding, type ProcessGroup, signalGroup } from "./process-group.ts";

export interface GatedOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: (chunk: Buffer) => void;
  readonly stderr: (chunk: Buffer) => void;
  readonly monotonic: () => number;
  /** The file that gets the exit code; null: none. */
  readonly exitFile?: string | null;
  /** The command may go on printing when this process has died. */
  readonly outlives?: boolean;
}

/**
 * Signals to the group are meant for the command: the gate catches them and stays, and the subshell has the default again.
 * In a subshell `exec` never takes a builtin for the command. 127 and 126 are the shell's own for not found. The shell's
 * stderr is put aside, because it would print "Killed" between the command's lines. Nothing that it needs is looked for on
 * the command's own PATH (`command -p`), and it sets no variable that the command could have in its environment.
 */
const GATE = `
trap : HUP INT QUIT PIPE ALRM TERM USR1 USR2
leave() {
  if [ -n "$2" ]; then
    printf %3s "\${3:-$1}" 1<>"$2.open" && {
      command -p sync "$2.open"
      command -p mv -f "$2.open" "$2" && command -p sync "\${2%/*}"
    }
  fi 2>/dev/null
  exit "$1"
}
IFS= read -r NEVERTWICE_GATE_WORD <&3 || leave 125 "$1" ${NOT_BEGUN}
exec 3<&-
command -v -- "$2" >/dev/null 2>&1 || [ -e "$2" ] || {
  printf '%s: command not found\\n' "$2" >&2
  leave 127 "$1"
}
exec 4>&2 2>/dev/null
(shift; exec "$@" 2>&4 4>&-)
leave "$?" "$1"
`;
const GATE_FD = 3;
const KEPT_LINES = 20;
const KEPT_BYTES = 8_192;
// What the command itself printed is in the pipe when it ends; this long is waited for it to come out. With nothing left in its
// group it surely comes to an end, unless a daemon that left the group holds it open: a busy machine gets more time then.
const DRAIN_MS = 500;
const DRAIN_ALL_MS = 3_000;
// A group that is killed as a whole is gone within this time, and no part of it lived on.
const GROUP_DIES_MS = 1_000;
const GROUP_POLL_MS = 50;

export class GatedChild {
  readonly group: ProcessGroup;
  readonly #child: ChildProcess;
  readonly #monotonic: () => number;
  readonly #ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  #tail = "";
  #openedAt = 0;

  static async start(options: GatedOptions): Promise<GatedChild> {
    if (process.platform === "win32") {
      throw configError("nevertwice run needs process groups, which Windows has not. Run it in WSL, or use nt.job().");
    }
    const relay = options.outlives ? await startRelay() : null;
    const child = spawn("/bin/sh", ["-c", GATE, "nevertwice", options.exitFile ?? "", ...options.command], {
      cwd: options.cwd,
      env: options.env as NodeJS.ProcessEnv,
      // A group of its own: signals reach the command and what it starts, and nobody else.
      detached: true,
      stdio: ["inherit", relay?.into.stdout ?? "pipe", relay?.into.stderr ?? "pipe", "pipe"],
    });
    try {
      await new Promise<void>((started, failed) => {
        child.once("spawn", started);
        child.once("error", failed);
      });
    } finally {
      relay?.handedOver();
    }
    return new GatedChild(child, relay ?? ownOutlet(child), options);
  }

  private constructor(child: ChildProcess, outlet: Outlet, options: GatedOptions) {
    this.#child = child;
    this.#monotonic = options.monotonic;
    const group = describeGroup(child.pid as number);
    this.group = group ?? { group: child.pid as number, started: "", realm: "" };
    // The gate may be gone before the word is said: then its end says so, not a broken pipe.
    (child.stdio[GATE_FD] as Writable).on("error", () => {});
    this.#listen(outlet.stdout, options.stdout);
    this.#listen(outlet.stderr, options.stderr);
    this.#ended = endOf(child, outlet, this.group);
  }

  /** Lets the command begin, and waits for its end. */
  async run(): Promise<CommandEnd> {
    this.#openedAt = this.#monotonic();
    (this.#child.stdio[GATE_FD] as Writable).end("go\n");
    const { code, signal } = await this.#ended;
    const lost = signal !== null && (await this.#livedOn());
    const durationMs = Math.round(this.#monotonic() - this.#openedAt);
    const lastLines = this.#lines();
    if (code !== null) return { ...endOfCode(code, durationMs), lastLines };
    return { exitCode: null, signal, durationMs, lastLines, ...(lost && { lost }) };
  }

  /** The word will not be said. */
  async abandon(): Promise<void> {
    (this.#child.stdio[GATE_FD] as Writable).destroy();
    await this.#ended;
  }

  signal(name: NodeJS.Signals): void {
    signalGroup(this.group.group, name);
  }

  /** The gate was killed. What is left of its group is waited for: a second command must not run beside it. */
  async #livedOn(): Promise<boolean> {
    const since = this.#monotonic();
    while (groupStanding(this.group) === "alive") await new Promise((next) => setTimeout(next, GROUP_POLL_MS));
    return this.#monotonic() - since > GROUP_DIES_MS;
  }

  #listen(stream: Readable, pass: (chunk: Buffer) => void): void {
    stream.on("data", (chunk: Buffer) => {
      pass(chunk);
      this.#tail = (this.#tail + chunk.toString()).slice(-KEPT_BYTES);
    });
  }

  #lines(): string[] {
    const lines = this.#tail.split("\n");
    if (lines.at(-1) === "") lines.pop();
    return lines.slice(-KEPT_LINES);
  }
}

/** What it started in the background may hold its output open: the command itself has ended all the same. */
function endOf(
  child: ChildProcess,
  outlet: Outlet,
  group: ProcessGroup,
): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      const drained = () => {
        clearTimeout(timer);
        outlet.stdout.destroy();
        outlet.stderr.destroy();
        resolve({ code, signal });
      };
      const timer = setTimeout(drained, groupStanding(group) === "alive" ? DRAIN_MS : DRAIN_ALL_MS);
      void outlet.closed.then(drained);
    });
  });
}
