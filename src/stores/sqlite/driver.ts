/** SQLite by shape: node:sqlite, @photostructure/sqlite, better-sqlite3, or whatever offers the same few methods. */
import { configError, messageOf } from "../../core/errors.ts";
import { requireFile, resolveInstalled } from "../../engine/installed-package.ts";

export interface SqliteStatement {
  run(...values: unknown[]): { readonly changes: number | bigint };
  all(...values: unknown[]): unknown[];
}

export interface SqliteHandle {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close?(): void;
  /** node:sqlite */
  readonly isTransaction?: boolean;
  /** better-sqlite3 */
  readonly inTransaction?: boolean;
}

export interface SqliteDriver {
  readonly name: "node:sqlite" | "@photostructure/sqlite";
  /** By which another thread loads the same library: two libraries on one file break each other's locks. */
  readonly file: string;
  open(path: string): SqliteHandle;
}

/** The SQLite that Node brings along; on Node 20, the same API as an optional package. */
export function loadDriver(whose = "the embedded ledger"): SqliteDriver {
  const failures: string[] = [];
  for (const name of ["node:sqlite", "@photostructure/sqlite"] as const) {
    try {
      return driverAt({ name, file: resolveInstalled(name) });
    } catch (error) {
      failures.push(`${name}: ${messageOf(error).split("\n")[0]}`);
    }
  }
  throw configError(
    `${whose} needs SQLite, and this Node (${process.version}) has none. Run: npm install @photostructure/sqlite@1 (Node 20), or use Node 22.13 or later, or give a connection of your own, such as one of better-sqlite3: sqliteStore({ database }). Tried ${failures.join("; ")}.`,
  );
}

export function hasDriver(): boolean {
  try {
    loadDriver();
    return true;
  } catch {
    return false;
  }
}

export function driverAt({ name, file }: Pick<SqliteDriver, "name" | "file">): SqliteDriver {
  const { DatabaseSync } = withoutSqliteWarning(() => requireFile(file)) as {
    DatabaseSync: new (path: string) => SqliteHandle;
  };
  return { name, file, open: (path) => new DatabaseSync(path) };
}

/**
 * Node 22 to 24 say on stderr, once per thread, that their SQLite is experimental: cron mails it to somebody after each run.
 * Whether to use it is decided here, and tested here. Only that warning is kept back, and only while the module is loaded.
 */
function withoutSqliteWarning<T>(load: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = ((warning: string | Error, ...more: never[]) => {
    const [given] = more as unknown[];
    const type = typeof given === "object" && given !== null ? (given as { type?: unknown }).type : given;
    const isOurs = type === "ExperimentalWarning" && /\bsqlite\b/i.test(String(warning));
    if (!isOurs) emitWarning.call(process, warning, ...more);
  }) as typeof process.emitWarning;
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

export function isSqliteHandle(value: unknown): value is SqliteHandle {
  const handle = value as Partial<SqliteHandle> | null;
  return (
    typeof handle === "object" &&
    handle !== null &&
    typeof handle.prepare === "function" &&
    typeof handle.exec === "function"
  );
}

// SQLite's primary result codes; extended codes carry more in the higher bits.
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

function resultCode(error: unknown): number | null {
  const { errcode, errno, code, sqliteCode } = (error ?? {}) as Record<string, unknown>;
  for (const candidate of [errcode, sqliteCode, errno]) {
    if (typeof candidate === "number" && candidate > 0) return candidate & 0xff;
  }
  const text = `${String(code)} ${messageOf(error)}`;
  if (/SQLITE_BUSY|database is locked/.test(text)) return BUSY;
  if (/SQLITE_LOCKED|table is locked/.test(text)) return LOCKED;
  if (/SQLITE_CORRUPT|malformed/.test(text)) return CORRUPT;
  if (/SQLITE_NOTADB|not a database/.test(text)) return NOT_A_DATABASE;
  return null;
}

/** Locked by another connection, or by a transaction that is open on this one: worth another try a little later. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code === BUSY || code === LOCKED || isWithinTransaction(error);
}

/** A connection that does not say it is asked by a BEGIN, which fails where a transaction is open and changes nothing. */
export function isTransactionOpen(db: SqliteHandle): boolean {
  const said = db.isTransaction ?? db.inTransaction;
  if (said !== undefined) return said;
  try {
    db.exec("BEGIN");
  } catch (error) {
    if (isWithinTransaction(error)) return true;
    throw error;
  }
  db.exec("ROLLBACK");
  return false;
}

export function isWithinTransaction(error: unknown): boolean {
  return /within a transaction/.test(messageOf(error));
}

/** The file begins with something else than SQLite's header. */
export function isNotADatabase(error: unknown): boolean {
  return resultCode(error) === NOT_A_DATABASE;
}

export function isCorrupt(error: unknown): boolean {
  const code = resultCode(error);
  return code === CORRUPT || code === NOT_A_DATABASE;
}
