/** The client's end of stdio: lines to it, and whether it still reads them. */
import type { Writable } from "node:stream";
import { setTimeout } from "../../../engine/real-timers.ts";
import type { Written } from "./client-life.ts";

/** False: it is to be waited for until the client has read on. */
export function writeLine(output: Writable, line: string, written?: Written): boolean {
  return output.write(`${line}\n`, (error) => written?.(error));
}

// A client that dies closes its two ends one after the other.
const BOTH_ENDS_MS = 50;
const WRITE_MS = 1_000;

/** White space before a message that does not come: no client reads it as anything. */
const NOTHING = " ";

/** Whether a client that has ended its input still reads: one that was killed does not, and the write fails. */
export async function stillReads(output: Writable): Promise<boolean> {
  await new Promise<void>((waited) => void setTimeout(waited, BOTH_ENDS_MS));
  if (output.destroyed || !output.writable) return false;
  return new Promise((answer) => {
    output.write(NOTHING, (error) => answer(!error));
    setTimeout(() => answer(false), WRITE_MS).unref();
  });
}
