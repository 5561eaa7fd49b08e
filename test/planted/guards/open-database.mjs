/** A connection as a careful person would open it; the planted designs then go wrong in one way each. */
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

export function openDatabase(path, synchronous = "FULL") {
  const { DatabaseSync } = require(process.getBuiltinModule("node:sqlite") ? "node:sqlite" : "@photostructure/sqlite");
  const db = new DatabaseSync(path);
  db.exec("PRAGMA busy_timeout = 5000");
  db.exec("PRAGMA journal_mode = WAL");
  db.exec(`PRAGMA synchronous = ${synchronous}`);
  db.exec(
    "CREATE TABLE IF NOT EXISTS guard (id TEXT PRIMARY KEY, state TEXT NOT NULL, fence INTEGER NOT NULL, lease_until REAL NOT NULL)",
  );
  return db;
}

/** CLOCK_MONOTONIC, the same in all processes: the planted faults are elsewhere. */
export function steadyMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}
