#!/usr/bin/env node
/** The command `nevertwice`. */
import { homedir, userInfo } from "node:os";
import type { Io, Sink, Streams } from "./command.ts";
import { inputFile } from "./each/input-file.ts";
import { run } from "./run.ts";

function sink(stream: NodeJS.WriteStream): Sink {
  // A reader that has seen enough (nevertwice ls | head) closes the pipe: that is an end, not an error.
  stream.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  return {
    write: (text) => void stream.write(text),
    isTTY: stream.isTTY === true,
    columns: stream.columns,
  };
}

function userName(): string | null {
  try {
    return userInfo().username;
  } catch {
    // A container's user id without a name.
    return process.env.USER ?? process.env.LOGNAME ?? null;
  }
}

/** The proxy outlives its reader, since calls under way are settled first: a closed pipe is no reason to end at once. */
function takeOver(): Streams {
  process.stdout.removeAllListeners("error");
  return {
    input: process.stdin,
    output: process.stdout,
    onSignal(listener) {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, listener);
    },
  };
}

const io: Io = {
  stdout: sink(process.stdout),
  stderr: sink(process.stderr),
  env: process.env,
  cwd: process.cwd(),
  home: homedir(),
  platform: process.platform,
  user: userName,
  ...(process.stdin.isTTY !== true && { stdin: { chunks: process.stdin, file: inputFile(0) } }),
  onInterrupt(asked) {
    process.on("SIGINT", asked).on("SIGTERM", asked);
    return () => {
      process.off("SIGINT", asked).off("SIGTERM", asked);
    };
  },
  takeOver,
};

const code = await run(process.argv.slice(2), io);
// A module loaded for `resend --actions` may keep connections open: what was written is flushed, then it ends here.
process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
