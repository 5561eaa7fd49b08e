/**
 * The ledger's operations on one SQLite connection, synchronous. The same code serves the event loop, the worker thread
 * and the caller's own transaction.
 *
 * A row just written is never read with `.get()`: it steps once and resets, and an error of the commit that happens at
 * the reset is swallowed. `.run()` and `.all()` step to the end.
 */
import { type DamagedRecord, decodeIntact, requireDamaged } from "../../core/damaged-record.ts";
import type { Put, PutResult, Stored } from "../../core/store.ts";
import { wallNow } from "../../engine/real-timers.ts";
import { nextRevision } from "../shared/revision.ts";
import type { SqliteHandle, SqliteStatement } from "./driver.ts";
import { COLUMNS, decodeRow, encodeRow, type Row, type RowValues, versionOf } from "./row.ts";
import { SELECT, Statements } from "./statements.ts";

// What a key fixes (itself, tenant, action, scope) is not set again: naming an indexed column in SET costs an index
// entry removed and written, changed or not (10 µs of 35 measured).
const FIXED: readonly string[] = ["key", "tenant", "action", "scope"];
const CHANGES: readonly boolean[] = COLUMNS.map((column) => !FIXED.includes(column));
const LEASE_UNTIL = COLUMNS.indexOf("lease_until");
const KEY = COLUMNS.indexOf("key");

/** What is null stands in the SQL: half of a plain row is, and each bound value costs 0.2 µs. */
function insertSql(row: RowValues): string {
  const columns = COLUMNS.filter((_, i) => row[i] !== null);
  return `INSERT INTO nevertwice_records (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")}) ON CONFLICT (key) DO NOTHING`;
}

function updateSql(row: RowValues): string {
  const set = COLUMNS.map((column, i) => `${column} = ${row[i] === null ? "NULL" : "?"}`).filter((_, i) => CHANGES[i]);
  return `UPDATE nevertwice_records SET ${set.join(", ")}, lease_watch = ${row[LEASE_UNTIL] === null ? "NULL" : "?"} WHERE key = ? AND rev = ?`;
}

// Rows looked at in one transaction by a step of watching: a few milliseconds, so that no writer waits long for it.
const WATCH_ROWS = 5_000;

/** Damaged rows that were set aside, byte for byte, each with when that was. Made when it is first needed. */
export const QUARANTINE_TABLE = "nevertwice_quarantine";

// Of a check, shown by name; the others are counted.
const DAMAGE_SHOWN = 20;

/** What is wrong with a file: all of it, or rows of it. */
export interface FileCheck {
  /** The file does not hold together; null: it does. */
  readonly damage: string | null;
  readonly damagedRows: number;
  readonly some: readonly DamagedRecord[];
}

/** A put, encoded where the record lives, so that a worker thread only binds values. */
export interface RowPut {
  readonly row: RowValues;
  readonly expected: number | null;
}

export type RowPutResult =
  | { readonly ok: true; readonly version: number }
  | { readonly ok: false; readonly row: Row | null };

export function encodePut(put: Put): RowPut {
  return { row: encodeRow(put.record, nextRevision(put.expected, wallNow())), expected: put.expected };
}

export function decodePutResult(result: RowPutResult, where: string): PutResult {
  if (result.ok) return result;
  return { ok: false, current: result.row === null ? null : decodeRow(result.row, where) };
}

export class SqliteLedger {
  readonly #db: SqliteHandle;
  readonly #where: string;
  readonly #statements: Statements;
  readonly #inserts: Statements;
  readonly #updates: Statements;

  constructor(db: SqliteHandle, where: string) {
    this.#db = db;
    this.#where = where;
    [this.#statements, this.#inserts, this.#updates] = [new Statements(db), new Statements(db), new Statements(db)];
  }

  readRows(keys: readonly string[]): (Row | null)[] {
    return keys.map((key) => this.select("key = ?", [key])[0] ?? null);
  }

  read(keys: readonly string[]): (Stored | null)[] {
    return this.readRows(keys).map((row) => (row === null ? null : decodeRow(row, this.#where)));
  }

  /** One transaction for the batch; each put succeeds or conflicts on its own. */
  write(puts: readonly RowPut[]): RowPutResult[] {
    // A single statement is its own transaction: one caller pays for one statement.
    if (puts.length === 1) return [this.#put(puts[0] as RowPut)];
    return this.transaction(() => puts.map((put) => this.#put(put)));
  }

  /**
   * On a connection that is not ours alone. Always with a BEGIN of its own: it fails inside somebody else's transaction,
   * whose rollback would take an acknowledged claim back.
   */
  commit(puts: readonly RowPut[]): RowPutResult[] {
    return this.transaction(() => this.writeWithin(puts));
  }

  /** Inside a transaction somebody else began. */
  writeWithin(puts: readonly RowPut[]): RowPutResult[] {
    return puts.map((put) => this.#put(put));
  }

  #put({ row, expected }: RowPut): RowPutResult {
    const { changes } = expected === null ? this.#insert(row) : this.#update(row, expected);
    if (Number(changes) === 1) return { ok: true, version: versionOf(row) };
    return { ok: false, row: this.readRows([row[KEY] as string])[0] ?? null };
  }

  #insert(row: RowValues) {
    const values: RowValues = [];
    let shape = 0;
    for (let i = 0; i < row.length; i += 1) {
      const value = row[i] as RowValues[number];
      if (value === null) shape |= 1 << i;
      else values.push(value);
    }
    // A statement for each combination of nulls: a dozen in practice, 256 at the most.
    return this.#inserts.shaped(shape, () => insertSql(row)).run(...values);
  }

  #update(row: RowValues, expected: number) {
    const values: RowValues = [];
    let shape = 0;
    for (let i = 0; i < row.length; i += 1) {
      const value = row[i] as RowValues[number];
      if (value === null) shape |= 1 << i;
      else if (CHANGES[i]) values.push(value);
    }
    const until = row[LEASE_UNTIL] as number | null;
    if (until !== null) values.push(until);
    values.push(row[KEY] as string, expected);
    return this.#updates.shaped(shape, () => updateSql(row)).run(...values);
  }

  /** Rows, as they lie there. `where`: from there on to the end of the statement. */
  select(where: string, values: readonly unknown[]): Row[] {
    return this.#prepare(`${SELECT} WHERE ${where}`).all(...values) as Row[];
  }

  /** The rows that a sweep has found, unless they have changed since. */
  remove(found: readonly (readonly [id: number, rev: number])[]): number {
    return this.transaction(() => {
      const statement = this.#prepare("DELETE FROM nevertwice_records WHERE id = ? AND rev = ?");
      let removed = 0;
      for (const [id, rev] of found) removed += Number(statement.run(id, rev).changes);
      if (removed > 0) this.#keepMarkBelowNewRows();
      return removed;
    });
  }

  /** Inside a transaction. False: there is no row under this key. */
  quarantine(key: string, now: number): boolean {
    const [row] = this.readRows([key]);
    if (row === null || row === undefined) return false;
    requireDamaged(key, () => decodeRow(row, this.#where));
    this.#db.exec(
      `CREATE TABLE IF NOT EXISTS ${QUARANTINE_TABLE} AS SELECT 0 AS quarantined_at, * FROM nevertwice_records WHERE 0`,
    );
    this.#db.prepare(`INSERT INTO ${QUARANTINE_TABLE} SELECT ?, * FROM nevertwice_records WHERE key = ?`).run(now, key);
    this.#db.prepare("DELETE FROM nevertwice_records WHERE key = ?").run(key);
    this.#keepMarkBelowNewRows();
    return true;
  }

  /**
   * Claims that live longer than a sweep get into the lease index, and the mark moves past them: so many rows at a time,
   * because a busy ledger has hundreds of thousands of new ones, and no writer may wait for all of them. Answers whether
   * there is more.
   */
  watchSome(): boolean {
    const [mark, last] = this.#watchedAndLast();
    if (mark >= last) return false;
    return this.transaction(() => {
      const [from, to] = this.#watchedAndLast();
      const next = this.#prepare("SELECT min(id) AS id FROM nevertwice_records WHERE id > ?").all(from)[0];
      const first = (next as { id: number | null }).id;
      if (first === null) return false;
      const upTo = Math.min(to, first + WATCH_ROWS - 1);
      this.#prepare(
        "UPDATE nevertwice_records SET lease_watch = lease_until WHERE id > ? AND id <= ? AND lease_until IS NOT NULL AND lease_watch IS NULL",
      ).run(from, upTo);
      this.#prepare("UPDATE nevertwice_meta SET value = ? WHERE name = 'watched_to'").run(String(upTo));
      return upTo < to;
    });
  }

  #watchedAndLast(): [mark: number, last: number] {
    const [row] = this.#prepare(
      `SELECT (SELECT CAST(value AS INTEGER) FROM nevertwice_meta WHERE name = 'watched_to') AS mark,
         (SELECT max(id) FROM nevertwice_records) AS last`,
    ).all() as { mark: number | null; last: number | null }[];
    return [row?.mark ?? 0, row?.last ?? 0];
  }

  /** A removed last row gives its rowid to the next insert: the mark must not stand above a row it has not seen. */
  #keepMarkBelowNewRows(): void {
    this.#prepare(
      `UPDATE nevertwice_meta SET value = (SELECT coalesce(max(id), 0) FROM nevertwice_records)
       WHERE name = 'watched_to' AND CAST(value AS INTEGER) > (SELECT coalesce(max(id), 0) FROM nevertwice_records)`,
    ).run();
  }

  /** Whether everything in the file agrees with itself, and which rows cannot be read. */
  check(): FileCheck {
    const [first] = this.#db.prepare("PRAGMA integrity_check(1)").all() as { integrity_check: string }[];
    const structure = first?.integrity_check === "ok" ? null : (first?.integrity_check ?? "no answer");
    if (structure !== null) return { damage: structure, damagedRows: 0, some: [] };
    const some: DamagedRecord[] = [];
    let damagedRows = 0;
    for (let after = 0; ; ) {
      const rows = this.#prepare(`${SELECT} WHERE id > ? ORDER BY id LIMIT 1000`).all(after) as (Row & {
        id: number;
      })[];
      const last = rows.at(-1);
      if (last === undefined) return { damage: this.#checkWatch(), damagedRows, some };
      decodeIntact(
        rows,
        (row) => decodeRow(row, this.#where),
        (damage) => {
          damagedRows += 1;
          if (some.length < DAMAGE_SHOWN) some.push(damage);
        },
      );
      after = last.id;
    }
  }

  /** The mark of watched claims has no checksum; one that stands too high would hide silent holders from every sweep. */
  #checkWatch(): string | null {
    const mark = this.#prepare("SELECT value FROM nevertwice_meta WHERE name = 'watched_to'").all()[0];
    const { value } = (mark ?? {}) as { value?: unknown };
    if (typeof value !== "string" || !/^\d+$/.test(value)) return "the mark of watched claims is unreadable";
    const hidden = this.#prepare(
      "SELECT 1 FROM nevertwice_records WHERE lease_until IS NOT NULL AND lease_watch IS NULL AND id <= CAST(? AS INTEGER) LIMIT 1",
    ).all(value);
    return hidden.length === 0 ? null : "a live claim is hidden behind the mark of watched claims";
  }

  /** For reading on a connection that is not ours alone. Like `transaction`, it fails inside somebody else's. */
  committed<T>(work: () => T): T {
    return this.transaction(work, "BEGIN");
  }

  transaction<T>(work: () => T, begin = "BEGIN IMMEDIATE"): T {
    this.#prepare(begin).run();
    try {
      const answer = work();
      this.#prepare("COMMIT").run();
      return answer;
    } catch (error) {
      try {
        this.#prepare("ROLLBACK").run();
      } catch {
        // SQLite has rolled back by itself (a full disk, an I/O error); the first error is the one to tell.
      }
      throw error;
    }
  }

  #prepare(sql: string): SqliteStatement {
    return this.#statements.prepare(sql);
  }
}
