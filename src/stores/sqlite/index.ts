/**
 * The embedded store: one SQLite file, many processes, one host. A small batch on an idle loop commits right here (one
 * caller pays one commit and no hop); anything larger, slower or contended goes to a thread, so that the ledger does not
 * stall the agent it protects.
 */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { configError, isNevertwiceError } from "../../core/errors.ts";
import type { Instant } from "../../core/record.ts";
import type {
  Finding,
  InspectQuery,
  LeaseQuery,
  LedgerStats,
  ListQuery,
  Page,
  Put,
  PutResult,
  Quarantined,
  StatsQuery,
  Stored,
  SweepQuery,
  TransactionalStore,
  TransactionView,
} from "../../core/store.ts";
import { setTimeout } from "../../engine/real-timers.ts";
import { refuseClosed } from "../shared/closed.ts";
import { hostInstant } from "../shared/host-clock.ts";
import { savepoint } from "../shared/savepoint.ts";
import { intactPage } from "../shared/scan.ts";
import { LoopShare, nextTurn } from "../shared/slices.ts";
import { openChecks } from "./checks.ts";
import { isBusy, isSqliteHandle, isTransactionOpen, loadDriver, type SqliteHandle } from "./driver.ts";
import { checkpointQuietly, firstValue, ledgerPath, type OpenedFile, openFile, storeError } from "./file.ts";
import { findingsOf, isSmallFile } from "./inspect.ts";
import { SqliteLeases } from "./leases.ts";
import {
  decodePutResult,
  encodePut,
  type FileCheck,
  QUARANTINE_TABLE,
  type RowPut,
  type RowPutResult,
  SqliteLedger,
} from "./ledger.ts";
import { type AnswerOf, LARGE_SLICE, type Slice, SMALL_SLICE, SqliteLook } from "./look.ts";
import { SqlitePresence } from "./presence.ts";
import { decodeRow } from "./row.ts";
import { migrate, readSchema, refuseNewer, SCHEMA_VERSION } from "./schema.ts";
import { type SliceRunner, SqliteSurvey } from "./survey.ts";
import { SqliteThread } from "./thread.ts";
import { perform, type Work } from "./work.ts";

export type { SqliteHandle, SqliteStatement } from "./driver.ts";

export interface SqliteStoreOptions {
  /** The file. Made when it is not there. */
  readonly path?: string;
  /** A connection of your own instead (node:sqlite, @photostructure/sqlite, better-sqlite3): the ledger lives in your database, on your thread. */
  readonly database?: SqliteHandle;
  readonly clock?: { instant(): Instant };
  /** How long a lock of another process, or an open transaction on `database`, is waited for. */
  readonly busyMs?: number;
}

// The engine tries a write three times: a caller waits three times this for a lock that never goes.
const DEFAULT_BUSY_MS = 5_000;
// Up to here a batch commits on the loop: the rows cost less than the hop to the thread (70 µs measured).
const INLINE_ROWS = 4;
// A disk whose commits take longer than this on average is kept off the loop for a while. A single hiccup, however long,
// counts for no more than HICCUP_MS: it takes a row of slow commits to make a slow disk.
const SLOW_COMMIT_MS = 5;
const HICCUP_MS = 20;
const COMMIT_WEIGHT = 0.05;
const OFF_LOOP_MS = 10_000;
// Some 2 000 pages of log. While the log still grows, a commit takes twice as long as one that writes over what a
// checkpoint has freed: the file system has to write down the new size as well.
const COMMITS_PER_CHECKPOINT = 1_000;
// A crowd leaves a long log behind (the thread's own checkpoints are far apart), and commits after it would lengthen it
// further. So many commits on the loop in a row tell that the crowd has gone.
const COMMITS_AFTER_CROWD = 64;
// SQLite's own default: on the loop, small checkpoints are better than rare ones.
const CHECKPOINT_PAGES_ON_LOOP = 1_000;

export function sqliteStore(options: SqliteStoreOptions): TransactionalStore<SqliteHandle> {
  const { path, database } = options;
  if ((path === undefined) === (database === undefined)) {
    throw configError('sqliteStore: give either path ("./ledger.db") or database (an open connection).');
  }
  if (database !== undefined && !isSqliteHandle(database)) {
    throw configError(
      "sqliteStore: database is not a SQLite connection: it needs prepare() and exec(), as node:sqlite's DatabaseSync and better-sqlite3 have them.",
    );
  }
  if (path !== undefined && (typeof path !== "string" || path.trim() === "" || path.includes(":memory:"))) {
    throw configError(
      `sqliteStore: path is ${JSON.stringify(path)}; give the path of a file. For a ledger that forgets at exit use store: "memory:".`,
    );
  }
  return new SqliteStore(options);
}

class SqliteStore implements TransactionalStore<SqliteHandle> {
  readonly name: string;
  readonly traits = { hosts: "one", survives: "power-loss", clock: "client", dueIndex: true } as const;
  readonly #given: string;
  /** Without symbolic links, from the first call on. */
  #path: string;
  readonly #owned: boolean;
  readonly #database: SqliteHandle | undefined;
  readonly #clock: { instant(): Instant };
  readonly #busyMs: number;
  #file: OpenedFile | null = null;
  /** Commits. */
  #thread: SqliteThread | null = null;
  /** Reads what takes long. */
  #reader: SqliteThread | null = null;
  #look: SqliteLook | null = null;
  #leases: SqliteLeases | null = null;
  readonly #survey: SqliteSurvey;
  readonly #share = new LoopShare();
  #closed = false;
  #offLoopUntil = 0;
  #commitMs = 0;
  #commits = 0;
  /** The log is as the thread's batches left it. */
  #crowded = false;
  /** Null: a connection of yours, or not open yet. */
  #presence: SqlitePresence | null = null;
  readonly #views = new WeakMap<SqliteHandle, SqliteLedger>();

  constructor(options: SqliteStoreOptions) {
    this.#owned = options.database === undefined;
    this.#database = options.database;
    this.#given = options.path === undefined ? "(your connection)" : resolve(options.path);
    this.#path = this.#given;
    this.name = `sqlite:${this.#given}`;
    this.#clock = options.clock ?? { instant: hostInstant };
    this.#busyMs = options.busyMs ?? DEFAULT_BUSY_MS;
    this.#survey = new SqliteSurvey(this.#sliceRunner());
  }

  now(): number {
    return this.#clock.instant().now;
  }

  instant(): Instant {
    return this.#clock.instant();
  }

  async read(keys: readonly string[]): Promise<(Stored | null)[]> {
    if (this.#share.isSpent(performance.now())) await nextTurn();
    return this.#committed(({ ledger }) => ledger.read(keys));
  }

  async write(puts: readonly Put[]): Promise<PutResult[]> {
    if (puts.length === 0) return [];
    // What goes to the thread waits for a turn anyway.
    const isHere = !this.#owned || puts.length <= INLINE_ROWS;
    if (isHere && this.#share.isSpent(performance.now())) await nextTurn();
    const now = performance.now();
    const mayCommitHere = this.#mayCommitHere(puts, now);
    const rows = puts.map(encodePut);
    const settled = (mayCommitHere ? this.#commitHere(rows, now) : null) ?? (await this.#commitElsewhere(rows));
    return settled.map((result) => decodePutResult(result, this.#path));
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    this.#requireFile();
    return this.#patiently(({ ledger }) => this.#leasesOn(ledger).lease(query, this.instant()));
  }

  async list(query: ListQuery): Promise<Page> {
    this.#requireFile();
    const { rows, cursor } = await this.#survey.list(query, this.instant());
    return intactPage(rows, (row) => decodeRow(row, this.#path), cursor);
  }

  async stats(query: StatsQuery = {}): Promise<LedgerStats> {
    this.#requireFile();
    return this.#survey.stats(query, this.instant());
  }

  async sweep(query: SweepQuery): Promise<number> {
    this.#requireFile();
    return this.#survey.sweep(query, this.instant());
  }

  within(tx: SqliteHandle): TransactionView {
    if (!isSqliteHandle(tx)) {
      throw configError(
        "tx is not a SQLite connection: pass the connection whose transaction is open (it needs prepare() and exec()).",
      );
    }
    requireOpenTransaction(tx);
    this.#presence?.requireFile(performance.now());
    this.#requireSameFile(tx);
    const ledger = this.#viewOf(tx);
    // Asked again each time: the transaction may have ended between two statements of one call.
    const within = <T>(work: () => T): T =>
      guardedBy(this.#path, () => {
        requireOpenTransaction(tx);
        return work();
      });
    return {
      read: async (keys) => within(() => ledger.read(keys)),
      write: async (puts) =>
        within(() => ledger.writeWithin(puts.map(encodePut)).map((result) => decodePutResult(result, this.#path))),
      atomically: (work) => savepoint(tx, (sql) => tx.exec(sql), work),
    };
  }

  async inspect({ quick = false }: InspectQuery = {}): Promise<readonly Finding[]> {
    this.#requireFile();
    const check = quick && !isSmallFile(this.#path) ? null : await this.#check();
    const { db } = this.#open();
    return findingsOf({ db, path: this.#path, given: this.#given, owned: this.#owned, at: this.instant(), check });
  }

  async quarantine(key: string): Promise<Quarantined | null> {
    this.#requireFile();
    const file = this.#path;
    return this.#patiently(({ ledger }) => {
      const found = ledger.transaction(() => ledger.quarantine(key, this.now()));
      return found ? { key, keptIn: `the table ${QUARANTINE_TABLE} of ${file}` } : null;
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await Promise.all([this.#thread?.close(), this.#reader?.close()]);
    if (this.#owned && this.#file) {
      // Everything into the one file: whoever copies ledger.db after a close has it all.
      checkpointQuietly(this.#file.db);
      this.#file.close();
    }
    this.#file = null;
  }

  // ---- where the work is done ----

  #open(): OpenedFile {
    refuseClosed(this.#closed, this.#path);
    this.#file ??= this.#owned ? this.#openOwn() : this.#openYours(this.#database as SqliteHandle);
    return this.#file;
  }

  #openOwn(): OpenedFile {
    this.#path = ledgerPath(this.#given);
    const file = openFile({
      path: this.#path,
      driver: loadDriver(),
      busyMs: this.#busyMs,
      checks: openChecks,
      autoCheckpoint: 0,
    });
    this.#presence = new SqlitePresence(this.#given, this.#path, file.inode);
    const [first] = file.damaged;
    if (first !== undefined) {
      const more = file.damaged.length > 1 ? ` There are more: see nevertwice doctor.` : "";
      process.emitWarning(`${first.message}${more}`, {
        type: "NevertwiceWarning",
        code: "NEVERTWICE_DAMAGED_RECORD",
      });
    }
    return file;
  }

  #openYours(db: SqliteHandle): OpenedFile {
    const ledger = new SqliteLedger(db, this.#path);
    guardedBy(this.#path, () => {
      // As committed: a schema that a transaction of yours has just made goes when that is rolled back.
      const state = ledger.committed(() => readSchema(db));
      refuseNewer(state, this.#path);
      if (state?.version !== SCHEMA_VERSION) ledger.transaction(() => migrate(db, this.#path));
    });
    // Yours: it stays open.
    return { db, ledger, inode: "", damaged: [], close: () => {} };
  }

  /**
   * What is committed, and nothing else. A connection of yours may have a transaction open, and would show what it has
   * written so far: the answer waits until that is over.
   */
  async #committed<T>(work: (file: OpenedFile) => T): Promise<T> {
    if (!this.#owned) return this.#patiently((file) => file.ledger.committed(() => work(file)));
    const file = this.#open();
    this.#presence?.requireNowAndThen(performance.now());
    return guardedBy(this.#path, () => work(file));
  }

  /** On a thread of its own, for as long as it takes: a large file takes seconds, and others want to look meanwhile. */
  async #check(): Promise<FileCheck> {
    if (!this.#owned) return this.#committed(({ ledger }) => ledger.check());
    this.#requireFile();
    const thread = this.#startThread();
    try {
      return await thread.request<FileCheck>({ op: "check" });
    } finally {
      await thread.close();
    }
  }

  // ---- looking (see stores/sqlite/look.ts) ----

  #sliceRunner(): SliceRunner {
    const small = <S extends Slice>(slice: S, size: number) =>
      this.#committed(({ db }) => {
        return this.#lookOn(db).answer(slice, size);
      });
    return {
      here: (slice) => small(slice, SMALL_SLICE),
      away: async <S extends Slice>(slice: S) => {
        if (this.#owned) return this.#readerThread().request<AnswerOf<S>>({ op: "look", slice });
        await nextTurn();
        return (await small(slice, LARGE_SLICE)) as AnswerOf<S>;
      },
      remove: async (found) => {
        if (this.#owned) return this.#offLoop().request<number>({ op: "remove", found });
        await nextTurn();
        return this.#patiently(({ ledger }) => ledger.remove(found));
      },
      watch: async () => {
        if (this.#owned) return this.#offLoop().request<boolean>({ op: "watch" });
        await nextTurn();
        return this.#patiently(({ ledger }) => ledger.watchSome());
      },
    };
  }

  #lookOn(db: SqliteHandle): SqliteLook {
    this.#look ??= new SqliteLook(db);
    return this.#look;
  }

  #leasesOn(ledger: SqliteLedger): SqliteLeases {
    this.#leases ??= new SqliteLeases(ledger, this.#path);
    return this.#leases;
  }

  #readerThread(): SqliteThread {
    if (!this.#reader?.alive) {
      this.#requireFile();
      this.#reader = this.#startThread();
    }
    return this.#reader;
  }

  /** Before what takes long or lets something run. And a thread that opens a file that is gone would make a new one. */
  #requireFile(): void {
    if (!this.#owned) return;
    this.#open();
    this.#presence?.requireAll(performance.now());
  }

  /** For work that must stay on this connection and may meet a lock: tries again, a little later each time. */
  async #patiently<T>(work: (file: OpenedFile) => T): Promise<T> {
    const until = performance.now() + this.#busyMs;
    for (let napMs = 1; ; napMs = Math.min(25, napMs * 2)) {
      try {
        return work(this.#open());
      } catch (error) {
        if (!isBusy(isNevertwiceError(error) ? error.cause : error) || performance.now() >= until)
          throw storeError(error, this.#path);
        await new Promise((done) => setTimeout(done, napMs * (0.5 + Math.random())));
      }
    }
  }

  async #commitElsewhere(rows: readonly RowPut[]): Promise<RowPutResult[]> {
    if (!this.#owned) return this.#patiently(({ ledger }) => ledger.commit(rows));
    if (rows.length > INLINE_ROWS) {
      this.#crowded = true;
      this.#commits = 0;
    }
    return this.#offLoop().request<RowPutResult[]>({ op: "write", rows });
  }

  #mayCommitHere(puts: readonly Put[], now: number): boolean {
    if (!this.#owned) return false;
    this.#open();
    // A result lets nothing run: that the ledger is lost is noticed by whatever comes next.
    const isResult = puts.every(({ record }) => record.state === "confirmed");
    if (isResult) this.#presence?.requireNowAndThen(now);
    else this.#presence?.requireFile(now);
    return puts.length <= INLINE_ROWS && !this.#thread?.busy && now >= this.#offLoopUntil;
  }

  /** Null: another process holds the lock, and waiting for it is the thread's business. */
  #commitHere(rows: readonly RowPut[], started: number): RowPutResult[] | null {
    try {
      const results = (this.#file as OpenedFile).ledger.write(rows);
      const tookMs = performance.now() - started;
      this.#commitMs += COMMIT_WEIGHT * (Math.min(tookMs, HICCUP_MS) - this.#commitMs);
      if (this.#commitMs > SLOW_COMMIT_MS) this.#stayOffLoop(started);
      this.#checkpointNowAndThen();
      return results;
    } catch (error) {
      if (isBusy(error)) return null;
      throw storeError(error, this.#path);
    }
  }

  #stayOffLoop(now: number): void {
    this.#offLoopUntil = now + OFF_LOOP_MS;
    this.#commitMs = 0;
  }

  #checkpointNowAndThen(): void {
    this.#commits += 1;
    if (this.#commits < (this.#crowded ? COMMITS_AFTER_CROWD : COMMITS_PER_CHECKPOINT)) return;
    this.#commits = 0;
    this.#crowded = false;
    // A failed checkpoint only postpones the copy.
    this.#offLoop()
      .checkpoint()
      .catch(() => {});
  }

  #offLoop(): SqliteThread {
    if (this.#closed) this.#open();
    if (!this.#thread?.alive) this.#thread = this.#startThread();
    return this.#thread;
  }

  #startThread(): SqliteThread {
    const onLoop = (work: Work) => {
      // Only the thread's connection checkpoints by itself, and there is no thread.
      this.#open().db.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES_ON_LOOP}`);
      return this.#patiently((file) => perform(file, this.#lookOn(file.db), work));
    };
    return new SqliteThread({ path: this.#path, busyMs: this.#busyMs, onLoop });
  }

  // ---- the caller's own transaction ----

  #viewOf(tx: SqliteHandle): SqliteLedger {
    let ledger = this.#views.get(tx);
    if (ledger === undefined) {
      ledger = new SqliteLedger(tx, this.#path);
      this.#views.set(tx, ledger);
    }
    // Looked at each time: a schema made in a transaction goes when that transaction is rolled back.
    guardedBy(this.#path, () => {
      const state = readSchema(tx);
      refuseNewer(state, this.#path);
      if (state?.version !== SCHEMA_VERSION) migrate(tx, this.#path);
    });
    return ledger;
  }

  #requireSameFile(tx: SqliteHandle): void {
    if (tx === this.#database) return;
    const theirs = mainFile(tx);
    const ours = this.#owned ? this.#path : mainFile(this.#database as SqliteHandle);
    if (theirs !== "" && ours !== "" && sameFile(theirs, ours)) {
      if (this.#owned) requireSameLibrary(tx);
      return;
    }
    throw configError(
      `tx is a transaction on ${theirs || "an in-memory database"}, but the ledger is ${ours || "another in-memory database"}: they could not commit together. Keep the ledger in the same file: nevertwice({ store: "sqlite:${theirs || "app.db"}" }).`,
    );
  }
}

let ownLibrary: string | undefined;

/** Two SQLite libraries on one file in one process: when one closes a file, the locks of the other are gone. */
function requireSameLibrary(tx: SqliteHandle): void {
  ownLibrary ??= libraryOf(loadDriver().open(":memory:"));
  if (libraryOf(tx) === ownLibrary) return;
  throw configError(
    "tx belongs to another SQLite library than the ledger's, and two of them in one process break each other's locks on one file. Give the ledger your connection: nevertwice({ store: sqliteStore({ database: db }) }).",
  );
}

function libraryOf(db: SqliteHandle): string {
  return String(firstValue(db, "SELECT sqlite_source_id()"));
}

function requireOpenTransaction(tx: SqliteHandle): void {
  if (isTransactionOpen(tx)) return;
  throw configError(
    'tx has no transaction open. Run "BEGIN IMMEDIATE" on it first (or use your library\'s transaction function), and commit after the call.',
  );
}

function guardedBy<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw storeError(error, path);
  }
}

function mainFile(db: SqliteHandle): string {
  const rows = db.prepare("PRAGMA database_list").all() as { name: string; file: string | null }[];
  return rows.find((row) => row.name === "main")?.file ?? "";
}

function sameFile(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other);
  } catch {
    return false;
  }
}
