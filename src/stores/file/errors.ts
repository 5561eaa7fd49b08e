/** What can be wrong with a JSONL ledger, and what to do about it. */
import { configError, NevertwiceError } from "../../core/errors.ts";

function unavailable(message: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("STORE_UNAVAILABLE", message, { cause });
}

export function gone(path: string, what: "is gone" | "is empty"): NevertwiceError {
  return unavailable(
    `the ledger ${path} ${what}, but ${path}.id beside it says that there was one. Starting over would run again what was already done. Restore the file; if you mean to begin anew, remove ${path}.id too.`,
  );
}

export function replaced(path: string): NevertwiceError {
  return unavailable(
    `${path} is not the ledger that ${path}.id beside it belongs to: the file was replaced. Restore the right one; if you mean to use this one, remove ${path}.id.`,
  );
}

export function ledElsewhere(given: string, path: string): NevertwiceError {
  return unavailable(
    `${given} no longer leads to the ledger ${path}, which this program has open: a link was changed, or the file was moved. Nothing was run, because a program that starts now would use another file. Restore the path, or stop every program that uses this ledger and start the program again.`,
  );
}

export function noRoomToCompact(path: string, needed: number, free: number): NevertwiceError {
  return unavailable(
    `the ledger ${path} was not compacted: that needs ${needed} bytes beside it for a while, and ${free} are free. The ledger works without it. Make room on its disk.`,
  );
}

// ENOSPC: the disk is full. EDQUOT: the user's quota is. EFBIG: the process may not write a file of that size.
const NO_ROOM = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

export function isNoRoom(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  return NO_ROOM.has(String(code)) || (cause !== undefined && isNoRoom(cause));
}

export function cutShort(path: string, found: number, expected: number): NevertwiceError {
  return unavailable(
    `the ledger ${path} is shorter than it was (it ends at ${found}, and ${expected} was acknowledged). Lines are lost, so nothing was run: what they guard would run again. Restore it from a backup; if this is the backup you mean to go on with, remove ${path}.id.`,
  );
}

export function damaged(path: string, what: string): NevertwiceError {
  return unavailable(
    `the ledger ${path} is damaged: ${what}. It was left as it is, and nothing was run. Restore it from a backup. If there is none and you mean to begin anew, stop every program that uses it and move ${path} and ${path}.id away: what they recorded is then guarded no more, and runs again when it is called.`,
  );
}

export function notALedger(path: string): NevertwiceError {
  return configError(
    `${path} is not a ledger of nevertwice: its first line says nothing of the kind. Name another file, or bring what it holds in with: nevertwice import ${path} --store file:ledger.jsonl`,
  );
}

export function newerFormat(path: string, found: number, known: number): NevertwiceError {
  return configError(
    `the ledger ${path} was written by a newer release (format ${found}; this one knows ${known}). Update nevertwice; the file was left as it is.`,
  );
}

export function unusable(path: string, why: string, cause: unknown): NevertwiceError {
  const code = (cause as { code?: unknown } | null)?.code;
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
    return configError(
      `the ledger ${path} cannot be opened for writing: ${why}. Give its folder write access, or name another place: nevertwice({ store: "file:/path/to/ledger.jsonl" }).`,
      cause,
    );
  }
  const remedy = isNoRoom(cause) ? " Make room on its disk and call again." : "";
  return unavailable(
    `the ledger ${path} could not be read or written: ${why}. Nothing was run by this call.${remedy}`,
    cause,
  );
}
