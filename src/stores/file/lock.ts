/**
 * One writer at a time, by a lock of the kernel. A lock file made with O_EXCL outlives the process that made it, and
 * guessing whether its maker still lives is how two writers get in. Node has no flock(), but SQLite takes POSIX record
 * locks on its file, and those end with the process, however it ends. So the lock is an empty SQLite database beside the
 * ledger: `BEGIN IMMEDIATE` takes it, `ROLLBACK` gives it back, nothing is ever written to it. Within one process SQLite
 * keeps its connections apart itself, where bare POSIX locks would not.
 */
import { dirname } from "node:path";
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../../core/errors.ts";
import { type Claim, claimFile } from "../shared/one-library.ts";
import { makePrivateFile, modeBeside } from "../shared/private-files.ts";
import { isBusy, loadDriver, type SqliteHandle } from "../sqlite/driver.ts";
import { identityOf } from "./identity.ts";

export interface FileLockOptions {
  readonly path: string;
  /** The ledger: its mode is the lock's too. */
  readonly beside: string;
  /** How long another process's lock is waited for. */
  readonly busyMs: number;
  readonly random: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly monotonic: () => number;
  readonly makeFolder: (path: string) => void;
}

const SHORTEST_PAUSE_MS = 0.5;
const LONGEST_PAUSE_MS = 20;

export class FileLock {
  readonly #options: FileLockOptions;
  #database: SqliteHandle | null = null;
  #inode: string | null = null;
  #claim: Claim | null = null;

  constructor(options: FileLockOptions) {
    this.#options = options;
  }

  /** Resolves once the lock is ours. */
  async take(): Promise<void> {
    const { busyMs, random, pause, monotonic } = this.#options;
    const until = monotonic() + busyMs;
    for (let tries = 0; ; tries += 1) {
      if (this.#tryTake()) return;
      if (monotonic() >= until) throw this.#busy();
      const ceiling = Math.min(LONGEST_PAUSE_MS, SHORTEST_PAUSE_MS * 2 ** Math.min(tries, 10));
      await pause(ceiling * (0.5 + random() / 2));
    }
  }

  give(): void {
    this.#database?.exec("ROLLBACK");
  }

  close(): void {
    this.#database?.close?.();
    this.#database = null;
    this.#claim?.release();
    this.#claim = null;
  }

  #tryTake(): boolean {
    try {
      this.#database ??= this.#open();
      this.#database.exec("BEGIN IMMEDIATE");
    } catch (error) {
      if (isBusy(error)) return false;
      throw error;
    }
    // A lock file that was removed or replaced is still locked for us, and for nobody who opens it now.
    if (this.#inode !== null && identityOf(this.#options.path)?.inode === this.#inode) return true;
    this.close();
    return false;
  }

  #open(): SqliteHandle {
    const { path, beside, makeFolder } = this.#options;
    const driver = loadDriver("the lock of the file ledger");
    try {
      makeFolder(dirname(path));
      makePrivateFile(path, modeBeside(beside));
      const inode = identityOf(path)?.inode ?? null;
      this.#claim = claimFile(path, driver);
      const database = driver.open(path);
      this.#claim.hold(database);
      // With a journal on the disk, SQLite would write to it at each BEGIN, and a full disk could not be locked.
      database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY");
      this.#inode = inode;
      return database;
    } catch (error) {
      this.#claim?.release();
      this.#claim = null;
      if (isNevertwiceError(error)) throw error;
      throw configError(
        `the lock file ${path} cannot be opened (${messageOf(error)}). The JSONL ledger needs a folder it may write to, on a local disk.`,
        error,
      );
    }
  }

  #busy(): NevertwiceError {
    return new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the lock ${this.#options.path} was held by another process for too long. Nothing was run. Look for a program that is stopped while it writes, then call again.`,
    );
  }
}
