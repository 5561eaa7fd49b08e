/**
 * Where the exit code of a command is kept when nobody is left to report it. The gate's shell writes it when the command
 * ends, so that a command that finished is known to have finished though its runner was killed, or the ledger was away.
 *
 * The runner makes the file before the command begins, with the attempt's key and fence in it, under the name `….open`. The
 * shell overwrites the first bytes in place, syncs the file and renames it. So a full disk or a folder that cannot be
 * written is noticed before the command runs, and a file without `.open` is always complete. A shell that was never told to begin
 * leaves the word `not` in place of a code: then the command has surely not run.
 */
import {
  chmodSync,
  closeSync,
  fchmodSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from "node:fs";
import { basename, join } from "node:path";
import type { LedgerRecord } from "../../core/record.ts";
import type { Store } from "../../core/store.ts";

/** Where such files are: beside the ledger, or in the user's state folder. */
export interface ExitFolder {
  readonly path: string;
  /** Of its files: the mode of the ledger, which may be shared by a group on purpose. */
  readonly mode: number;
}

export interface ExitFile {
  /** Where the exit code is once the command has ended. */
  readonly path: string;
  /** Where the command writes its own result, unless it was given another place. */
  readonly resultPath: string;
}

/** What the gate's shell leaves in place of an exit code when its runner died before it said the word. */
export const NOT_BEGUN = "not";

export interface KeptExit {
  readonly exitCode: number;
  readonly durationMs: number;
  /** By the clock that files are stamped with. */
  readonly endedAt: number;
}

type Attempt = Pick<LedgerRecord, "key" | "fence">;

const OPEN = ".open";
const RESULT = ".result";
/** As wide as an exit code can be: it is overwritten in place. */
const NOT_ENDED = "???";
const MOST_BYTES = 1_000;

/** Throws where it cannot be made. `token`: two ledgers may have the same key and fence, and share a state folder. */
export function makeExitFile({ path: folder, mode }: ExitFolder, { key, fence }: Attempt, token: string): ExitFile {
  const folderMode = mode | ((mode & 0o444) >> 2);
  // The umask has taken bits that a shared ledger needs.
  if (mkdirSync(folder, { recursive: true, mode: folderMode }) !== undefined) chmodSync(folder, folderMode);
  const path = join(folder, `${key}.${fence}.${token}`);
  const file = openSync(`${path}${OPEN}`, "wx", mode);
  try {
    fchmodSync(file, mode);
    writeSync(file, `${NOT_ENDED} ${key} ${fence} ${Date.now()}\n`);
    fsyncSync(file);
  } catch (error) {
    rmSync(`${path}${OPEN}`, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  return { path, resultPath: `${path}${RESULT}` };
}

/**
 * Null: the command has not ended, it ended with the shell that waited for it, or the file is about another attempt. The
 * ledger may be mounted at another place here: the file is looked for beside it first.
 */
export function readExitFile(
  path: string,
  attempt: Attempt,
  folder: ExitFolder | null = null,
): KeptExit | typeof NOT_BEGUN | null {
  for (const place of placesOf(path, folder)) {
    try {
      const found = lstatSync(place);
      if (!found.isFile() || found.size > MOST_BYTES) continue;
      const text = readFileSync(place, "utf8");
      const [, code, key, fence, begun] = /^ *(\d{1,3}|not) (\S+) (\d+) (\d+)\n$/.exec(text) ?? [];
      if (key !== attempt.key || Number(fence) !== attempt.fence) continue;
      if (code === NOT_BEGUN) return NOT_BEGUN;
      const endedAt = found.mtimeMs;
      return { exitCode: Number(code), durationMs: Math.max(0, Math.round(endedAt - Number(begun))), endedAt };
    } catch {
      // Not there, or not readable for this user: no evidence.
    }
  }
  return null;
}

/** Never throws: what is left behind is found by a later sweep. */
export function removeExitFile(path: string, folder: ExitFolder | null = null): void {
  for (const place of placesOf(path, folder)) {
    for (const end of ["", OPEN, RESULT]) {
      try {
        rmSync(`${place}${end}`, { force: true });
      } catch {}
    }
  }
}

/** Where the command's own result may be, if it was given no other place. */
export function resultPlaces(path: string, folder: ExitFolder | null): string[] {
  return placesOf(path, folder).map((place) => `${place}${RESULT}`);
}

function placesOf(path: string, folder: ExitFolder | null): string[] {
  const beside = folder === null ? path : join(folder.path, basename(path));
  return beside === path ? [path] : [beside, path];
}

const SWEPT_AT_ONCE = 200;
// Younger files may belong to an attempt that is just being written to the ledger.
const SWEPT_AFTER_MS = 60 * 60_000;
// Without a record nothing says to which ledger the file belongs: only its age does.
const FORGOTTEN_AFTER_MS = 30 * 24 * 60 * 60_000;

/** Removes files of attempts that are settled or followed by another one. */
export async function sweepExitFiles(store: Store, { path: folder }: ExitFolder): Promise<void> {
  const old = oldNames(folder);
  if (old.length === 0) return;
  const records = await store.read([...new Set(old.map(({ key }) => key))]);
  const byKey = new Map(records.flatMap((stored) => (stored === null ? [] : [[stored.record.key, stored.record]])));
  for (const { name, key, fence, ageMs } of old) {
    const record = byKey.get(key);
    const needed =
      record === undefined
        ? ageMs < FORGOTTEN_AFTER_MS
        : record.fence === fence &&
          (record.state === "claimed" || record.state === "sent" || record.state === "unknown");
    if (!needed) removeExitFile(join(folder, name));
  }
}

function oldNames(folder: string): { name: string; key: string; fence: number; ageMs: number }[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  const now = Date.now();
  const ours = names.flatMap((entry) => {
    const [, name, key, fence] = /^((nt1_[0-9a-z]+)\.(\d+)\.[0-9a-f]+)(?:\.open|\.result)?$/.exec(entry) ?? [];
    return name === undefined || key === undefined ? [] : [{ entry, name, key, fence: Number(fence) }];
  });
  return ours.slice(0, SWEPT_AT_ONCE).flatMap(({ entry, ...one }) => {
    const ageMs = now - (lstatSync(join(folder, entry), { throwIfNoEntry: false })?.mtimeMs ?? now);
    return ageMs < SWEPT_AFTER_MS ? [] : [{ ...one, ageMs }];
  });
}
