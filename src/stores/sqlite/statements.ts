/** Statements of one connection, each prepared once. */
import type { SqliteHandle, SqliteStatement } from "./driver.ts";
import { COLUMNS } from "./row.ts";

// Named by ourselves: left alone, SQLite names a column as the file's schema spells it, and a flipped bit there (Scope for
// scope) would lose every null of that column without a word from the checksum.
export const SELECT = `SELECT id, ${COLUMNS.map((column) => `${column} AS ${column}`).join(", ")} FROM nevertwice_records`;

export class Statements {
  readonly db: SqliteHandle;
  readonly #prepared = new Map<string | number, SqliteStatement>();

  constructor(db: SqliteHandle) {
    this.db = db;
  }

  prepare(sql: string): SqliteStatement {
    return this.shaped(sql, () => sql);
  }

  /** `sql` is made only once for each shape. */
  shaped(shape: string | number, sql: () => string): SqliteStatement {
    let statement = this.#prepared.get(shape);
    if (statement === undefined) {
      statement = this.db.prepare(sql());
      this.#prepared.set(shape, statement);
    }
    return statement;
  }

  all(sql: string, values: readonly unknown[] = []): unknown[] {
    return this.prepare(sql).all(...values);
  }
}
