/** A SQLite ledger with many settled records, made in a few seconds: rows are written past the engine, as it would write them. */
import { join } from "node:path";
import { sqliteStore } from "nevertwice/sqlite";
import { loadDriver } from "../../src/stores/sqlite/driver.ts";
import { COLUMNS, encodeRow } from "../../src/stores/sqlite/row.ts";
import { sampleRecord } from "../../src/testing/sample-record.ts";
import { temporaryFolder } from "./each-store.ts";

export function keyOf(index: number): string {
  return `nt1_${String(index).padStart(10, "0")}`;
}

/** Confirmed records that are past their keep. */
export async function largeSqlite(records: number): Promise<string> {
  const path = join(temporaryFolder(), "ledger.db");
  const store = sqliteStore({ path });
  await store.stats();
  await store.close();
  fillSqlite(path, records);
  return path;
}

/** Adds them to a ledger that is there. */
export function fillSqlite(path: string, records: number): void {
  const db = loadDriver().open(path);
  const insert = db.prepare(
    `INSERT INTO nevertwice_records (${COLUMNS.join(", ")}) VALUES (${COLUMNS.map(() => "?").join(", ")})`,
  );
  db.exec("PRAGMA synchronous = OFF; BEGIN");
  for (let index = 0; index < records; index += 1) {
    const record = sampleRecord({
      key: keyOf(index),
      state: "confirmed",
      dueAt: null,
      createdAt: 1_000 + index,
      settledAt: 2_000 + index,
      expiresAt: 3_000 + index,
    });
    insert.run(...encodeRow(record, index + 1));
  }
  db.exec("COMMIT");
  db.close?.();
}
