/**
 * What the loop checks when it opens the ledger's file: one that is gone, cut short, damaged or newer than this program is
 * refused, never replaced. The thread opens what was checked, so its program has none of this.
 */
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, fsyncSync, readFileSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { DamagedRecord } from "../../core/damaged-record.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { refuseLoneMount } from "../file/identity.ts";
import { makePrivateFolder, modeBeside, openPrivate } from "../shared/private-files.ts";
import { cannotOpen, damagedFile, idFile, type OpenChecks } from "./file.ts";
import { lostWal } from "./lost-wal.ts";
import { hasSchema, migrate, readSchema, refuseNewer, SCHEMA_VERSION } from "./schema.ts";
import { walDamage } from "./wal.ts";

// A small file is checked whole at each open (about 10 ms per 8 MiB); a large one row by row as it is read, and by doctor.
const CHECK_WHOLE_BELOW_BYTES = 8 * 1024 * 1024;

type Opened = Parameters<OpenChecks["after"]>[0];

export const openChecks: OpenChecks = { before, log, after };

function before(path: string): string | null {
  const expected = expectedId(path);
  refuseLoneMount(path);
  return expected;
}

/** Beside the ledger lies a file with its id (`idFile`): if it is there and the ledger is not, the ledger was lost. */
function expectedId(path: string): string | null {
  const folder = dirname(path);
  try {
    makePrivateFolder(folder);
  } catch (error) {
    throw cannotOpen(path, error);
  }
  if (!existsSync(idFile(path))) return null;
  const expected = readFileSync(idFile(path), "utf8").trim();
  const size = existsSync(path) ? statSync(path).size : -1;
  if (size > 0) return expected;
  const what = size === 0 ? "is empty" : "is gone";
  throw new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the ledger ${path} ${what}, but ${basename(idFile(path))} beside it says that there was one. Starting over would run again what was already done. Restore the file; if you mean to begin anew, remove ${idFile(path)} too.`,
  );
}

function log(path: string): void {
  const damage = walDamage(path);
  if (damage !== null) throw damagedFile(path, damage);
  const lost = lostWal(path);
  if (lost !== null) throw damagedFile(path, lost, withoutLog(path));
}

/** A file that does not hold together is refused. A row that cannot be read is that row's trouble: it is reported. */
function after({ db, ledger, path }: Opened, expected: string | null): readonly DamagedRecord[] {
  refuseNewer(readSchema(db), path);
  if (expected !== null && !hasSchema(db)) throw notTheLedger(path);
  let damaged: readonly DamagedRecord[] = [];
  if (statSync(path).size <= CHECK_WHOLE_BELOW_BYTES && hasSchema(db)) {
    const { damage, some } = ledger.check();
    if (damage !== null) throw damagedFile(path, damage);
    damaged = some;
  }
  let state = readSchema(db);
  if (state?.version !== SCHEMA_VERSION) state = ledger.transaction(() => migrate(db, path));
  if (expected !== null && expected !== state.ledgerId) throw notTheLedger(path);
  if (expected === null) writeDurably(idFile(path), `${state.ledgerId}\n`, modeBeside(path));
  return damaged;
}

function writeDurably(path: string, text: string, mode: number): void {
  // Written beside and renamed, so that a crash leaves no half id to be taken for another ledger's.
  // A random name: threads, and containers that share a volume, share process ids too.
  const temporary = `${path}.${randomUUID()}.new`;
  try {
    const file = openPrivate(temporary, "w", mode);
    try {
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Without the index SQLite opens the file as it was at the last checkpoint. */
function withoutLog(path: string): string {
  return `If there is none and you mean to go on without the lost records, stop every program that uses it and remove ${path}-shm: what only they recorded is then guarded no more, and runs again when it is called.`;
}

function notTheLedger(path: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `${path} is not the ledger that ${basename(idFile(path))} beside it belongs to: the file was replaced. Restore the right one; if you mean to use this one, remove ${idFile(path)}.`,
  );
}
