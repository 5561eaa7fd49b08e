/** The proxy on stdio: starts the server as a child and stands between it and whoever started the proxy. */
import type { Readable, Writable } from "node:stream";
import { setTimeout } from "../../../engine/real-timers.ts";
import type { McpGuard } from "../guard.ts";
import { onLines } from "../lines.ts";
import { stillReads, writeLine } from "./client.ts";
import { type ServerCommand, startServer } from "./process.ts";
import { McpRelay } from "./relay.ts";

export interface StdioProxyOptions extends ServerCommand {
  readonly guard: McpGuard;
  readonly input: Readable;
  readonly output: Writable;
  /** Signals to pass on to the server: SIGTERM, SIGINT, SIGHUP. */
  onSignal(listener: (signal: NodeJS.Signals) => void): void;
}

/** Ends when the server has ended and every call is settled; the server's exit code. */
export async function stdioProxy(options: StdioProxyOptions): Promise<number> {
  const { guard, input, output } = options;
  const server = await startServer(options);
  const { child } = server;
  const { stdin, stdout } = child as typeof child & { stdin: Writable; stdout: Readable };
  const relay = new McpRelay({
    guard,
    // A client that reads slowly slows the server down, as without the proxy.
    toClient: (line, written) => {
      if (!writeLine(output, line, written)) pauseUntilDrained(stdout, output);
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
  let isLeft = false;
  let got: Promise<void> | null = null;
  const left = async () => {
    isLeft = true;
    got = relay.clientEnds(() => stillReads(output));
    await relay.sent();
    stdin.end();
    // What is under way is answered, as without the proxy; then the server has nobody to serve.
    while (!relay.isQuiet) await new Promise<void>((pause) => setTimeout(pause, 100).unref());
    server.end(IDLE_MS, GRACE_MS);
  };
  onLines(input, { line: (line) => relay.fromClient(line), end: () => void left(), error: () => void left() });
  options.onSignal((signal) => {
    server.signal(signal);
    server.end(isLeft ? KILLED_SOON_MS : GRACE_MS, 0);
  });
  const code = await ended;
  relay.serverGone(new Error("the MCP server ended before it answered"));
  await relay.idle();
  await got;
  return code;
}

/** After the end of its input a server ends by itself. */
const IDLE_MS = 10_000;
/** How long it has after a signal. */
const GRACE_MS = 5_000;
/** The same where its client is closing: the official one kills the proxy 2 s after the signal, and the server must not be left. */
const KILLED_SOON_MS = 1_200;

function pauseUntilDrained(from: Readable, to: Writable): void {
  from.pause();
  to.once("drain", () => from.resume());
}
