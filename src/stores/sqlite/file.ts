/** Opening the ledger's file: durable settings set and checked on every open, for the loop and the thread alike. */
import { type DamagedRecord, markConnectionInUse } from "../../core/damaged-record.ts";
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../../core/errors.ts";
import {
  firstBytes,
  identityOf,
  otherScheme,
  realPathOf,
  refuseFolder,
  refuseHardLinks,
  schemeOf,
} from "../file/identity.ts";
import { type Claim, claimFile } from "../shared/one-library.ts";
import { makePrivateFile } from "../shared/private-files.ts";
import {
  isBusy,
  isCorrupt,
  isNotADatabase,
  isWithinTransaction,
  type SqliteDriver,
  type SqliteHandle,
} from "./driver.ts";
import { SqliteLedger } from "./ledger.ts";

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

/** What is looked at when a file is opened (stores/sqlite/checks.ts). Each of them throws what is wrong. */
export interface OpenChecks {
  /** Before the file is touched. Returns the id that it must have; null: any. */
  before(path: string): string | null;
  /** Before SQLite opens a file that was there: it would cut a log at the damage and go on. */
  log(path: string): void;
  /** Brings the schema up to date. Returns rows that cannot be read, up to a few. */
  after(
    opened: { db: SqliteHandle; ledger: SqliteLedger; path: string },
    expectedId: string | null,
  ): readonly DamagedRecord[];
}

export interface OpenOptions {
  /** Without symbolic links. */
  readonly path: string;
  readonly driver: SqliteDriver;
  /** How long a lock of another process is waited for while opening. */
  readonly busyMs: number;
  /** None: the thread opens what the loop has checked already. */
  readonly checks?: OpenChecks;
  /** Pages in the write-ahead log at which this connection checkpoints; 0: never, somebody else does. */
  readonly autoCheckpoint: number;
}

// Of a file that is made here; one that is there keeps its own. A claim changes one small row and one entry of the key
// index, and writes the pages they are on whole: with half of SQLite's usual size that is half as much.
const NEW_FILE_PAGE_BYTES = 2_048;

export function openFile(options: OpenOptions): OpenedFile {
  const { path, driver, busyMs, checks } = options;
  const found = identityOf(path);
  if (found?.isFolder) refuseFolder(path, "sqlite");
  const expectedId = checks?.before(path) ?? null;
  refuseHardLinks(path, found?.links ?? 0);
  let db: SqliteHandle;
  let claim: Claim | null = null;
  try {
    makePrivateFile(path);
    claim = claimFile(path, driver);
    if (found !== null) checks?.log(path);
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
    const damaged = checks?.after({ db, ledger, path }, expectedId) ?? [];
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

/** Beside the ledger lies a small file with its id. */
export function idFile(path: string): string {
  return `${path}.id`;
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

export function damagedFile(path: string, what: string, withoutBackup = beginAnew(path)): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the ledger ${path} is damaged (${what.split("\n")[0]}). It was left as it is, and nothing was run. Restore it from a backup. ${withoutBackup}`,
  );
}

function beginAnew(path: string): string {
  return `If there is none and you mean to begin anew, stop every program that uses it and move ${path}, ${path}-wal, ${path}-shm and ${idFile(path)} away: what they recorded is then guarded no more, and runs again when it is called.`;
}

export function cannotOpen(path: string, error: unknown): NevertwiceError {
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
