/** The token of the service in a file that only its owner reads. */
import { closeSync, constants, fstatSync, openSync, readFileSync, writeSync } from "node:fs";
import { messageOf } from "../core/errors.ts";
import { UsageError } from "./term/exit.ts";
import { oneLine } from "./term/text.ts";

const OWNER_ONLY = 0o600;
const OTHERS = 0o077;

/** Read where the file is there, made with `make` where it is not. */
export function tokenIn(path: string, make: () => string): string {
  try {
    return made(path, make());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return read(path);
    throw new UsageError(`--token-file ${oneLine(path)} cannot be made: ${oneLine(messageOf(error))}`);
  }
}

function made(path: string, token: string): string {
  const file = openSync(path, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, OWNER_ONLY);
  try {
    writeSync(file, `${token}\n`);
    return token;
  } finally {
    closeSync(file);
  }
}

function read(path: string): string {
  const file = openSync(path, constants.O_RDONLY);
  try {
    if ((fstatSync(file).mode & OTHERS) !== 0)
      throw new UsageError(
        `--token-file ${oneLine(path)} can be read by others. Correct it: chmod 600 ${oneLine(path)}`,
      );
    return readFileSync(file, "utf8").trim();
  } finally {
    closeSync(file);
  }
}
