/**
 * Text from files that other programs wrote, strictly in UTF-8: a character that was replaced would make another input,
 * and another key. A byte order mark at the start is dropped, as editors on Windows write one.
 */
import { readFileSync } from "node:fs";
import { messageOf } from "../core/errors.ts";
import { UsageError } from "./exit.ts";

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** What is wrong, where it is not UTF-8; in words that follow "it is". */
export class NotUtf8Error extends Error {}

export function decodeText(bytes: Uint8Array): string {
  if (isUtf16(bytes)) throw new NotUtf8Error("in UTF-16. Save it as UTF-8");
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new NotUtf8Error("not UTF-8. Save it as UTF-8");
  }
}

/** By its byte order mark: what PowerShell writes with ">" and editors call Unicode. */
export function isUtf16(bytes: Uint8Array): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
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
