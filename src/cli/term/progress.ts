/** One line on stderr that is written over: for a person at a terminal, and gone when the answer comes. */
import type { Io } from "../command.ts";
import { cutTo } from "./text.ts";

const ERASE_LINE = "\r\u001b[2K";

export function showProgress({ stderr }: Io, text: string): void {
  if (!stderr.isTTY) return;
  // Wider than the terminal it would take two lines, of which only one is written over.
  const { columns = 0 } = stderr;
  stderr.write(`${ERASE_LINE}${columns > 1 ? cutTo(text, columns - 1) : text}`);
}

export function endProgress({ stderr }: Io): void {
  if (stderr.isTTY) stderr.write(ERASE_LINE);
}
