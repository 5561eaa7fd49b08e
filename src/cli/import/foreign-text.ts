/**
 * Text from files that other programs wrote, strictly in UTF-8: a character that was replaced would make another input,
 * and another key. A byte order mark at the start is dropped, as editors on Windows write one.
 */
import { readFileSync } from "node:fs";
import { messageOf } from "../../core/errors.ts";
import { UsageError } from "../term/exit.ts";

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** What is wrong, where it is not UTF-8; in words that follow "it is". */
export class NotUtf8Error extends Error {}

export function decodeText(bytes: Uint8Array): string {
  const other = otherEncoding(bytes);
  if (other !== null) throw new NotUtf8Error(`${other}. Save it as UTF-8`);
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new NotUtf8Error("not UTF-8. Save it as UTF-8");
  }
}

const LOOKED_AT_BYTES = 1024;
const NUL = 0;

/**
 * What the bytes are instead of UTF-8, in words that follow "it is"; null: nothing says so. By the byte order mark, as
 * PowerShell writes one with ">", or by NUL bytes near the start: no text in UTF-8 has them.
 */
export function otherEncoding(bytes: Uint8Array): string | null {
  const [a, b, c, d] = bytes;
  if ((a === 0xff && b === 0xfe && c === 0 && d === 0) || (a === 0 && b === 0 && c === 0xfe && d === 0xff))
    return "in UTF-32";
  if ((a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff)) return "in UTF-16";
  const start = bytes.subarray(0, LOOKED_AT_BYTES);
  if (!start.includes(NUL)) return null;
  // Of each four bytes UTF-32 has two NULs in a row or three; UTF-16 has every other byte NUL, where the text is ASCII.
  const nuls = start.filter((byte) => byte === NUL).length;
  const pairs = start.filter((byte, i) => byte === NUL && start[i + 1] === NUL).length;
  if (pairs >= start.length / 5) return "in UTF-32";
  return nuls >= start.length / 4 ? "in UTF-16" : "no text: it has NUL bytes";
}

/** Whether the lines of a text end with CR alone, as on old Macs: for a text that should be a line and cannot be parsed. */
export function hasLoneReturns(text: string): boolean {
  return text.trim().includes("\r") && !text.includes("\n");
}

/** `what` names the file in messages, as the command line does. */
export function readText(path: string, what: string): string {
  try {
    return decodeText(readFileSync(path));
  } catch (error) {
    if (error instanceof NotUtf8Error) throw new UsageError(`${what} is ${error.message}.`);
    throw new UsageError(`${what} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
