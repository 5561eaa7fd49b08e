/**
 * The server as a child process, with all that it starts: npx and shells start the server as a child of their own, which a signal
 * to them alone would leave behind. So it has a process group, and what is left of it ends with the proxy.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { configError, messageOf } from "../../../core/errors.ts";
import { setTimeout } from "../../../engine/real-timers.ts";
import { windowsSpawning } from "./windows.ts";

export interface ServerCommand {
  readonly command: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
}

const WINDOWS = process.platform === "win32";

export class ServerProcess {
  readonly child: ChildProcess;
  readonly #watch: ChildProcess | null;
  readonly #atExit = () => this.signal("SIGKILL");
  #ended = false;

  constructor(child: ChildProcess) {
    this.child = child;
    this.#watch = WINDOWS ? null : watchOver(child.pid as number);
    process.once("exit", this.#atExit);
    // npx has ended, and the server that it started has not.
    child.once("exit", () => void setTimeout(() => this.end(0), LEFT_MS).unref());
    child.once("close", () => {
      this.signal("SIGKILL");
      this.#ended = true;
      this.#watch?.kill("SIGKILL");
      process.off("exit", this.#atExit);
    });
  }

  /** To the server and all that it started. */
  signal(signal: NodeJS.Signals): void {
    if (this.#ended) return;
    const { pid } = this.child;
    if (WINDOWS) {
      // A signal ends one process there, and leaves its children.
      spawn("taskkill", ["/pid", String(pid), "/t", "/f"], { stdio: "ignore", windowsHide: true }).on(
        "error",
        () => {},
      );
      return;
    }
    try {
      process.kill(-(pid as number), signal);
    } catch {
      // It is gone.
    }
  }

  /** Asked to end after a pause, and then made to. A server that has ended by then is left alone. */
  end(afterMs: number, graceMs = LEFT_MS): void {
    setTimeout(() => {
      this.signal("SIGTERM");
      setTimeout(() => this.signal("SIGKILL"), graceMs).unref();
    }, afterMs).unref();
  }
}

const LEFT_MS = 1_000;

export function spawnServer({ command, env, cwd }: ServerCommand) {
  const { file, args, ...how } = WINDOWS
    ? windowsSpawning(command, { env, cwd, isFile })
    : { file: command[0] as string, args: command.slice(1) };
  // Its stderr is its own: whoever reads ours reads it.
  const options = { env: { ...env }, cwd, detached: !WINDOWS, windowsHide: true, ...how };
  return spawn(file, [...args], { ...options, stdio: ["pipe", "pipe", "inherit"] });
}

export function startServer(server: ServerCommand): Promise<ServerProcess> {
  return new Promise((resolve, reject) => {
    const child = spawnServer(server);
    child.once("spawn", () => resolve(new ServerProcess(child)));
    child.once("error", (error) => {
      reject(
        configError(
          `the MCP server could not be started (${server.command[0]}): ${messageOf(error)}. Write behind -- what starts it in a shell: a program on the PATH, or a path to one.`,
          error,
        ),
      );
    });
  });
}

/**
 * Outlives the proxy, where that is killed without a chance to end its server: its input then ends. The server's does too, and
 * it has some seconds to end by itself.
 */
const WATCH = 'cat >/dev/null; sleep 5; kill -TERM -"$0"; sleep 2; kill -KILL -"$0"';

function watchOver(group: number): ChildProcess {
  const watch = spawn("/bin/sh", ["-c", WATCH, String(group)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  // Where there is no shell, the end of its input is all that a server gets.
  watch.on("error", () => {});
  watch.stdin?.on("error", () => {});
  (watch.stdin as unknown as { unref?: () => void })?.unref?.();
  watch.unref();
  return watch;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}
