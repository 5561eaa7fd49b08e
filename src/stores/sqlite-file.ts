/**
 * Opening the ledger's file: durable settings set and checked on every open, the schema brought up to date, and a file
 * that is gone, cut short, damaged or newer than this program refused, never replaced.
 */
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, fsyncSync, readFileSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { basename, dirname } from "node:path";
import { type DamagedRecord, markConnectionInUse } from "../core/damaged-record.ts";
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../core/errors.ts";
import {
  firstBytes,
  identityOf,
  otherScheme,
  realPathOf,
  refuseFolder,
  refuseHardLinks,
  refuseLoneMount,
  schemeOf,
} from "./file-identity.ts";
import { type Claim, claimFile } from "./one-library.ts";
import { makePrivateFile, makePrivateFolder, modeBeside, openPrivate } from "./private-files.ts";
import {
  isBusy,
  isCorrupt,
  isNotADatabase,
  isWithinTransaction,
  type SqliteDriver,
  type SqliteHandle,
} from "./sqlite-driver.ts";
import { SqliteLedger } from "./sqlite-ledger.ts";
import { lostWal } from "./sqlite-lost-wal.ts";
import { hasSchema, migrate, readSchema, refuseNewer, SCHEMA_VERSION } from "./sqlite-schema.ts";
import { walDamage } from "./sqlite-wal.ts";

export interface OpenedFile {
  readonly db: SqliteHandle;
  readonly ledger: SqliteLedger;
  /** The file's identity on disk, to notice when it is removed or replaced under us. */
  readonly inode: string;
  /** Rows that were found damaged while opening, up to a few. The ledger works without them. */
  readonly damaged: readonly DamagedRecord[];
  /** Closes the connection. */
  close(): void;
}

export interface OpenOptions {
  /** Without symbolic links. */
  readonly path: string;
  readonly driver: SqliteDriver;
  /** How long a lock of another process is waited for while opening. */
  readonly busyMs: number;
  /** The worker thread opens what the main thread has checked already. */
  readonly check: boolean;
  /** Pages in the write-ahead log at which this connection checkpoints; 0: never, somebody else does. */
  readonly autoCheckpoint: number;
}

// A small file is checked whole at each open (about 10 ms per 8 MiB); a large one row by row as it is read, and by doctor.
const CHECK_WHOLE_BELOW_BYTES = 8 * 1024 * 1024;

// Of a file that is made here; one that is there keeps its own. A claim changes one small row and one entry of the key
// index, and writes the pages they are on whole: with half of SQLite's usual size that is half as much.
const NEW_FILE_PAGE_BYTES = 2_048;

export function openFile(options: OpenOptions): OpenedFile {
  const { path, driver, busyMs } = options;
  const found = identityOf(path);
  if (found?.isFolder) refuseFolder(path, "sqlite");
  const expectedId = options.check ? beforeOpening(path) : null;
  if (options.check) refuseLoneMount(path);
  refuseHardLinks(path, found?.links ?? 0);
  let db: SqliteHandle;
  let claim: Claim | null = null;
  try {
    makePrivateFile(path);
    claim = claimFile(path, driver);
    // Before SQLite opens it: it would cut the log at the damage and go on.
    const damage = options.check && found !== null ? walDamage(path) : null;
    if (damage !== null) throw damagedFile(path, damage);
    const lost = options.check && found !== null ? lostWal(path) : null;
    if (lost !== null) throw damagedFile(path, lost, withoutLog(path));
    db = driver.open(path);
    claim.hold(db);
  } catch (error) {
    claim?.release();
    throw isNevertwiceError(error) ? error : cannotOpen(path, error);
  }
  const close = () => {
    closeQuietly(db);
    claim.release();
  };
  try {
    db.exec(`PRAGMA busy_timeout = ${busyMs}; PRAGMA page_size = ${NEW_FILE_PAGE_BYTES}`);
    setDurable(db, path);
    db.exec(`PRAGMA wal_autocheckpoint = ${options.autoCheckpoint}`);
    const ledger = new SqliteLedger(db, path);
    const damaged = options.check ? afterOpening(db, ledger, path, expectedId) : [];
    db.exec("PRAGMA busy_timeout = 0");
    return { db, ledger, inode: identityOf(path)?.inode ?? "", damaged, close };
  } catch (error) {
    close();
    // Read only here: closing a file that SQLite has open drops its locks.
    if (isNotADatabase(error) && schemeOf(firstBytes(path)) === "file") throw otherScheme(path, "file");
    throw isNevertwiceError(error) ? error : cannotOpen(path, error);
  }
}

/** Without WAL and FULL the ledger would promise what it cannot keep, so both are read back, not believed. */
function setDurable(db: SqliteHandle, path: string): void {
  const mode = firstValue(db, "PRAGMA journal_mode = WAL");
  if (mode !== "wal") {
    throw configError(
      `the ledger ${path} cannot use write-ahead logging (its journal mode stays ${String(mode)}). Put it on a local disk: network file systems and in-memory databases do not carry it.`,
    );
  }
  db.exec("PRAGMA synchronous = FULL");
  const synchronous = firstValue(db, "PRAGMA synchronous");
  if (Number(synchronous) < 2) {
    throw configError(
      `the ledger ${path} runs with synchronous=${String(synchronous)}; a power loss could take acknowledged records back. FULL could not be set.`,
    );
  }
}

export function firstValue(db: SqliteHandle, pragma: string): unknown {
  const [row] = db.prepare(pragma).all() as Record<string, unknown>[];
  return row === undefined ? undefined : Object.values(row)[0];
}

// ---- the file itself ----

/** Beside the ledger lies a small file with its id: if it is there and the ledger is not, the ledger was lost. */
function idFile(path: string): string {
  return `${path}.id`;
}

function beforeOpening(path: string): string | null {
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

/** A file that does not hold together is refused. A row that cannot be read is that row's trouble: it is reported. */
function afterOpening(
  db: SqliteHandle,
  ledger: SqliteLedger,
  path: string,
  expectedId: string | null,
): readonly DamagedRecord[] {
  refuseNewer(readSchema(db), path);
  if (expectedId !== null && !hasSchema(db)) throw notTheLedger(path);
  let damaged: readonly DamagedRecord[] = [];
  if (statSync(path).size <= CHECK_WHOLE_BELOW_BYTES && hasSchema(db)) {
    const { damage, some } = ledger.check();
    if (damage !== null) throw damagedFile(path, damage);
    damaged = some;
  }
  let state = readSchema(db);
  if (state?.version !== SCHEMA_VERSION) state = ledger.transaction(() => migrate(db, path));
  if (expectedId !== null && expectedId !== state.ledgerId) throw notTheLedger(path);
  if (expectedId === null) writeDurably(idFile(path), `${state.ledgerId}\n`, modeBeside(path));
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

/** Where SQLite keeps the file that `given` leads to, and its log: the id file lies there too, not beside a link. */
export function ledgerPath(given: string): string {
  try {
    return realPathOf(given);
  } catch (error) {
    throw cannotOpen(given, error);
  }
}

export function checkpointQuietly(db: SqliteHandle): void {
  try {
    firstValue(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // Another process is reading or writing: the log stays, and so does everything in it.
  }
}

function closeQuietly(db: SqliteHandle): void {
  try {
    db.close?.();
  } catch {
    // Already closed, or a statement still open at exit: the file is consistent either way.
  }
}

// ---- what can be wrong with it ----

export function storeError(error: unknown, path: string): NevertwiceError {
  if (isNevertwiceError(error)) return error;
  if (isCorrupt(error)) return damagedFile(path, messageOf(error));
  if (isWithinTransaction(error)) {
    return markConnectionInUse(
      new NevertwiceError(
        "STORE_UNAVAILABLE",
        `a transaction stayed open for too long on the connection that carries the ledger ${path}. Nothing was run. Commit it, pass it to the call as tx, or give the ledger a connection of its own.`,
        { cause: error },
      ),
    );
  }
  if (isBusy(error)) {
    return new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the ledger ${path} was locked by another process for too long. Nothing was run. Look for a program that holds a transaction open on it, then call again.`,
      { cause: error },
    );
  }
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the ledger ${path} could not be read or written: ${messageOf(error)}. Nothing was run by this call.`,
    { cause: error },
  );
}

function damagedFile(path: string, what: string, withoutBackup = beginAnew(path)): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the ledger ${path} is damaged (${what.split("\n")[0]}). It was left as it is, and nothing was run. Restore it from a backup. ${withoutBackup}`,
  );
}

function beginAnew(path: string): string {
  return `If there is none and you mean to begin anew, stop every program that uses it and move ${path}, ${path}-wal, ${path}-shm and ${idFile(path)} away: what they recorded is then guarded no more, and runs again when it is called.`;
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

function cannotOpen(path: string, error: unknown): NevertwiceError {
  if (isCorrupt(error) || isBusy(error)) return storeError(error, path);
  const { code } = (error ?? {}) as { code?: unknown };
  if (
    code === "EROFS" ||
    code === "EACCES" ||
    code === "EPERM" ||
    /readonly|unable to open|permission/i.test(messageOf(error))
  ) {
    return configError(
      `the ledger ${path} cannot be opened for writing (${messageOf(error)}). Give its folder write access, or name another place: nevertwice({ store: "sqlite:/path/to/ledger.db" }) or NEVERTWICE_STORE.`,
      error,
    );
  }
  return storeError(error, path);
}
