/** The ledger's tables, and how they came about. Forward only: a migration that has shipped is never edited. */
import { randomUUID } from "node:crypto";
import { configError } from "../../core/errors.ts";
import type { SqliteHandle } from "./driver.ts";

const MIGRATIONS: readonly string[] = [
  // 1. One row per intent. What people and workers look for has columns of its own; the rest is one JSON document.
  //
  //    A plain claim and confirm write three pages, like the INSERT and UPDATE one would write by hand: the row's (twice)
  //    and the key index's. Every further index page would cost 25 to 30 µs a commit, so no index holds what the plain
  //    way touches:
  //    - rowid order is creation order, so `ls` needs none;
  //    - `attention_at` is set for due work, doubts and dead letters only;
  //    - `lease_watch` is set when a claim outlives its first sweep or is renewed; younger claims are found behind
  //      `watched_to`, the rowid up to which every live claim is watched;
  //    - expiry needs none: a record past `keep` counts as gone wherever it is met, so removing it may take its time.
  `CREATE TABLE nevertwice_records (
     id           INTEGER PRIMARY KEY,
     key          TEXT NOT NULL UNIQUE,
     rev          INTEGER NOT NULL,
     tenant       TEXT NOT NULL,
     action       TEXT NOT NULL,
     scope        TEXT,
     state        TEXT NOT NULL,
     lease_until  REAL,
     lease_epoch  TEXT,
     lease_watch  REAL,
     attention_at INTEGER,
     expires_at   INTEGER,
     created_at   INTEGER NOT NULL,
     doc          TEXT NOT NULL,
     input        TEXT,
     draft        TEXT,
     result       TEXT,
     sum          INTEGER NOT NULL
   );
   CREATE INDEX nevertwice_attention ON nevertwice_records (state, attention_at) WHERE attention_at IS NOT NULL;
   CREATE INDEX nevertwice_leases ON nevertwice_records (lease_watch) WHERE lease_watch IS NOT NULL;
   INSERT INTO nevertwice_meta (name, value) VALUES ('watched_to', '0');`,
  // 2. Documents in short form (see stores/sqlite/row.ts). No published release has written the long form of schema 1.
  "",
  // 3. Due work and doubts of one tenant are found by the index alone, however many of other tenants stand before them.
  `DROP INDEX nevertwice_attention;
   CREATE INDEX nevertwice_attention ON nevertwice_records (state, attention_at, tenant, action) WHERE attention_at IS NOT NULL;`,
  // 4. A page of due work, doubts or dead letters, in the order of creation, is a short walk over an index. Without it each
  //    page had to gather and sort all of them. Plain calls have no entry in it.
  `CREATE INDEX IF NOT EXISTS nevertwice_attention_order ON nevertwice_records (state, id, tenant, action) WHERE attention_at IS NOT NULL;`,
];

export const SCHEMA_VERSION = MIGRATIONS.length;

export interface SchemaState {
  readonly version: number;
  readonly ledgerId: string;
}

export function hasSchema(db: SqliteHandle): boolean {
  return db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'nevertwice_meta'").all().length > 0;
}

/** Null where there is no ledger yet. */
export function readSchema(db: SqliteHandle): SchemaState | null {
  if (!hasSchema(db)) return null;
  const rows = db.prepare("SELECT name, value FROM nevertwice_meta").all() as { name: string; value: string }[];
  const meta = new Map(rows.map((row) => [row.name, row.value]));
  return { version: Number(meta.get("schema_version") ?? 0), ledgerId: meta.get("ledger_id") ?? "" };
}

/** To be called inside a write transaction: several processes may start at once, one of them migrates. */
export function migrate(db: SqliteHandle, where: string): SchemaState {
  const state = readSchema(db);
  refuseNewer(state, where);
  if (state?.version === SCHEMA_VERSION) return state;
  if (state === null) {
    db.exec("CREATE TABLE nevertwice_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID");
    db.prepare("INSERT INTO nevertwice_meta (name, value) VALUES ('ledger_id', ?)").run(randomUUID());
  }
  for (let version = state?.version ?? 0; version < SCHEMA_VERSION; version += 1)
    db.exec(MIGRATIONS[version] as string);
  db.prepare("INSERT OR REPLACE INTO nevertwice_meta (name, value) VALUES ('schema_version', ?)").run(
    String(SCHEMA_VERSION),
  );
  return readSchema(db) as SchemaState;
}

export function refuseNewer(state: SchemaState | null, where: string): void {
  if (state === null || state.version <= SCHEMA_VERSION) return;
  throw configError(
    `the ledger ${where} was written by a newer nevertwice (its schema is ${state.version}, this release knows ${SCHEMA_VERSION}). It was left untouched. Upgrade this program: npm install nevertwice@latest`,
  );
}
