/** The proxy on stdio: starts the server as a child and stands between it and whoever started the proxy. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { configError, messageOf } from "../core/errors.ts";
import type { McpGuard } from "./mcp-guard.ts";
import { onLines } from "./mcp-lines.ts";
import { McpRelay } from "./mcp-relay.ts";

export interface StdioProxyOptions {
  readonly guard: McpGuard;
  readonly command: readonly string[];
  readonly input: Readable;
  readonly output: Writable;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Signals to pass on to the server: SIGTERM, SIGINT, SIGHUP. */
  onSignal(listener: (signal: NodeJS.Signals) => void): void;
}

/** Ends when the server has ended and every call is settled; the server's exit code. */
export async function stdioProxy(options: StdioProxyOptions): Promise<number> {
  const { guard, input, output } = options;
  const child = await started(options);
  const { stdin, stdout } = child as ChildProcess & { stdin: Writable; stdout: Readable };
  const relay = new McpRelay({
    guard,
    // A client that reads slowly slows the server down, as without the proxy.
    toClient: (line) => {
      if (!output.write(`${line}\n`)) pauseUntilDrained(stdout, output);
    },
    toServer: (line) => void (stdin.writable && stdin.write(`${line}\n`)),
  });
  const ended = new Promise<number>((resolve) => {
    child.once("close", (code, signal) => resolve(code ?? (signal === null ? 0 : 1)));
  });
  // A client that is gone is noticed by the end of our input; calls under way are settled all the same.
  output.on("error", () => stdout.resume());
  // A server that closes its input while we write is noticed by its end.
  stdin.on("error", () => {});
  onLines(stdout, { line: (line) => relay.fromServer(line), end: () => {}, error: () => {} });
  onLines(input, {
    line: (line) => relay.fromClient(line),
    end: () => void relay.sent().then(() => stdin.end()),
    error: () => stdin.end(),
  });
  options.onSignal((signal) => child.kill(signal));
  const code = await ended;
  relay.serverGone(new Error("the MCP server ended before it answered"));
  await relay.idle();
  return code;
}

function pauseUntilDrained(from: Readable, to: Writable): void {
  from.pause();
  to.once("drain", () => from.resume());
}

function started({ command, env, cwd }: StdioProxyOptions): Promise<ChildProcess> {
  const [program, ...args] = command;
  return new Promise((resolve, reject) => {
    // Its stderr is its own: whoever reads ours reads it.
    const child = spawn(program as string, args, { env, cwd, stdio: ["pipe", "pipe", "inherit"] });
    child.once("spawn", () => resolve(child));
    child.once("error", (error) => {
      reject(
        configError(
          `the MCP server could not be started (${program}): ${messageOf(error)}. Write behind -- what starts it in a shell: a program on the PATH, or a path to one.`,
          error,
        ),
      );
    });
  });
}
