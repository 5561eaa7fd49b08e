/** What can be wrong with a JSONL ledger, and what to do about it. */
import { configError, NevertwiceError } from "../core/errors.ts";

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

export function cutShort(path: string, found: number, expected: number): NevertwiceError {
  return unavailable(
    `the ledger ${path} is shorter than it was (it ends at ${found}, and ${expected} was acknowledged). Lines are lost, so nothing was run: what they guard would run again. Restore it from a backup; if this is the backup you mean to go on with, remove ${path}.id.`,
  );
}

export function damaged(path: string, what: string): NevertwiceError {
  return unavailable(
    `the ledger ${path} is damaged: ${what}. It was left as it is, and nothing was run. Restore it from a backup; nevertwice doctor tells more.`,
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
  return unavailable(`the ledger ${path} could not be read or written: ${why}. Nothing was run by this call.`, cause);
}
