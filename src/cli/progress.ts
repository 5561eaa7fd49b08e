/** One line on stderr that is written over: for a person at a terminal, and gone when the answer comes. */
import type { Io } from "./command.ts";

const ERASE_LINE = "\r\u001b[2K";

export function showProgress({ stderr }: Io, text: string): void {
  if (stderr.isTTY) stderr.write(`${ERASE_LINE}${text}`);
}

export function endProgress({ stderr }: Io): void {
  if (stderr.isTTY) stderr.write(ERASE_LINE);
}
