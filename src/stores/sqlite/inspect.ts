/** What doctor shows of a SQLite ledger. */
import { statSync } from "node:fs";
import type { Instant } from "../../core/record.ts";
import type { Finding } from "../../core/store.ts";
import { clockFinding } from "../shared/host-clock.ts";
import { loadDriver, type SqliteHandle } from "./driver.ts";
import { firstValue } from "./file.ts";
import type { FileCheck } from "./ledger.ts";
import { readSchema, SCHEMA_VERSION } from "./schema.ts";

// Checked in a tenth of a second.
const CHECKED_QUICKLY_BYTES = 8 * 1024 * 1024;

/** Whether the whole file is read in next to no time. */
export function isSmallFile(path: string): boolean {
  try {
    return statSync(path).size <= CHECKED_QUICKLY_BYTES;
  } catch {
    return true;
  }
}

export interface Inspected {
  readonly db: SqliteHandle;
  readonly path: string;
  /** As the program gave it, with symbolic links. */
  readonly given: string;
  readonly owned: boolean;
  readonly at: Instant;
  /** Null: the file was not read as a whole. */
  readonly check: FileCheck | null;
}

export function findingsOf({ db, path, given, owned, at, check }: Inspected): readonly Finding[] {
  const journal = String(firstValue(db, "PRAGMA journal_mode"));
  const synchronous = Number(firstValue(db, "PRAGMA synchronous"));
  return [
    { name: "file", value: path === given ? path : `${path} (through ${given})`, ok: true },
    {
      name: "driver",
      value: owned
        ? `${loadDriver().name}, SQLite ${String(firstValue(db, "SELECT sqlite_version()"))}`
        : "your connection",
      ok: true,
    },
    { name: "schema", value: `version ${readSchema(db)?.version ?? 0} of ${SCHEMA_VERSION}`, ok: true },
    {
      name: "journal",
      value: journal,
      ok: journal === "wal",
      advice: "reopen the file with this release: it sets write-ahead logging",
    },
    {
      name: "synchronous",
      value: synchronous >= 2 ? "FULL" : String(synchronous),
      ok: synchronous >= 2,
      advice:
        'set "PRAGMA synchronous = FULL" on your connection: without it a power loss can take acknowledged records back',
    },
    integrity(check),
    clockFinding(at),
  ];
}

function integrity(check: FileCheck | null): Finding {
  if (check === null)
    return {
      name: "integrity",
      value: "not checked: the file is large and was not read as a whole",
      ok: true,
      partial: true,
    };
  const { damage, damagedRows } = check;
  return {
    name: "integrity",
    value: damage ?? (damagedRows === 0 ? "ok" : `${damagedRows} of its rows cannot be read; the others can`),
    ok: damage === null && damagedRows === 0,
    advice: "restore the file from a backup; do not delete it, or what was done may be done again",
  };
}
