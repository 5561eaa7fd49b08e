/**
 * A command that is started but held at a gate until the ledger knows its process group. The gate is a shell that waits
 * for a word on a pipe and then becomes the command. If this process dies before it says the word, the pipe closes and
 * the gate ends: the command never began. So there is no moment in which the command runs and nobody could know of it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { configError } from "../core/errors.ts";
import { clearTimeout, setTimeout } from "../engine/real-timers.ts";
import { describeGroup, type ProcessGroup, signalGroup } from "./process-group.ts";

export interface CommandEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly durationMs: number;
  /** The end of what it printed, on both streams in the order it came. */
  readonly lastLines: readonly string[];
}

export interface GatedOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: (chunk: Buffer) => void;
  readonly stderr: (chunk: Buffer) => void;
  readonly monotonic: () => number;
}

// `exec` turns the gate into the command: same process, same group. 127 and 126 are the shell's own for not found.
const GATE =
  'IFS= read -r word <&3 || exit 125; exec 3<&-; command -v -- "$1" >/dev/null 2>&1 || [ -e "$1" ] || { printf "%s: command not found\\n" "$1" >&2; exit 127; }; exec "$@"';
const GATE_FD = 3;
const KEPT_LINES = 20;
const KEPT_BYTES = 8_192;
// What the command itself printed is in the pipe when it ends; this long is waited for it to come out.
const DRAIN_MS = 500;

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
    const child = spawn("/bin/sh", ["-c", GATE, "nevertwice", ...options.command], {
      cwd: options.cwd,
      env: options.env as NodeJS.ProcessEnv,
      // A group of its own: signals reach the command and what it starts, and nobody else.
      detached: true,
      stdio: ["inherit", "pipe", "pipe", "pipe"],
    });
    await new Promise<void>((started, failed) => {
      child.once("spawn", started);
      child.once("error", failed);
    });
    return new GatedChild(child, options);
  }

  private constructor(child: ChildProcess, options: GatedOptions) {
    this.#child = child;
    this.#monotonic = options.monotonic;
    const group = describeGroup(child.pid as number);
    this.group = group ?? { group: child.pid as number, started: "", realm: "" };
    // The gate may be gone before the word is said: then its end says so, not a broken pipe.
    (child.stdio[GATE_FD] as Writable).on("error", () => {});
    this.#listen(child.stdout as Readable, options.stdout);
    this.#listen(child.stderr as Readable, options.stderr);
    this.#ended = endOf(child);
  }

  /** Lets the command begin, and waits for its end. */
  async run(): Promise<CommandEnd> {
    this.#openedAt = this.#monotonic();
    (this.#child.stdio[GATE_FD] as Writable).end("go\n");
    const { code, signal } = await this.#ended;
    return {
      exitCode: code,
      signal,
      durationMs: Math.round(this.#monotonic() - this.#openedAt),
      lastLines: this.#lines(),
    };
  }

  /** The word will not be said. */
  async abandon(): Promise<void> {
    (this.#child.stdio[GATE_FD] as Writable).destroy();
    await this.#ended;
  }

  signal(name: NodeJS.Signals): void {
    signalGroup(this.group.group, name);
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
function endOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      const drained = () => {
        clearTimeout(timer);
        child.stdout?.destroy();
        child.stderr?.destroy();
        resolve({ code, signal });
      };
      const timer = setTimeout(drained, DRAIN_MS);
      child.once("close", drained);
    });
  });
}
