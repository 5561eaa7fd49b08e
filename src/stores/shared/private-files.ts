/**
 * The files of a ledger are for the user who runs the program: inputs and results lie in them. A file that is made is
 * 0600 and a folder 0700, whatever the umask. A file that is there keeps its mode, and what is made beside it gets the
 * same one: a ledger may be shared by a group on purpose. Doctor says which files others can read.
 */
import { closeSync, fchmodSync, mkdirSync, openSync, statSync } from "node:fs";

const OWNER_ONLY = 0o600;
const FOLDER_OWNER_ONLY = 0o700;
const OF_OTHERS = 0o077;

/** With its parents; one that is there is left as it is. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_OWNER_ONLY });
}

/** The mode for a file beside the ledger: the ledger's own, where there is one. */
export function modeBeside(ledger: string): number {
  const found = statSync(ledger, { throwIfNoEntry: false });
  return found === undefined ? OWNER_ONLY : found.mode & 0o666;
}

/** Makes the file if it is not there, empty. SQLite would make it readable for all; its log takes the mode from it. */
export function makePrivateFile(path: string, mode = OWNER_ONLY): void {
  try {
    const file = openSync(path, "ax", mode);
    // The umask has taken bits that a shared ledger needs.
    if (mode !== OWNER_ONLY) fchmodSync(file, mode);
    closeSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Opened for writing from the start; a file of that name that a crash left behind gets the mode too. */
export function openPrivate(path: string, flags: "w" | "w+", mode = OWNER_ONLY): number {
  const file = openSync(path, flags, mode);
  if (process.platform !== "win32") fchmodSync(file, mode);
  return file;
}

/** Those of the paths that exist and that others than the owner may read or write. */
export function readableByOthers(paths: readonly string[]): string[] {
  if (process.platform === "win32") return [];
  return paths.filter((path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & OF_OTHERS) !== 0);
}
