/** What the threads do on one connection, request by request; without a thread the event loop does the same. */
import type { SqliteDriver } from "./driver.ts";
import { firstValue, type OpenedFile } from "./file.ts";
import type { RowPut } from "./ledger.ts";
import { type ExpiredAnswer, LARGE_SLICE, type Slice, type SqliteLook } from "./look.ts";

export type Work =
  | { readonly op: "write"; readonly rows: readonly RowPut[] }
  | { readonly op: "look"; readonly slice: Slice }
  | { readonly op: "watch" }
  | { readonly op: "remove"; readonly found: ExpiredAnswer["found"] }
  | { readonly op: "check" }
  | { readonly op: "checkpoint" };

/** May throw that the file is locked: whoever calls it waits and calls again. `look`: on the same connection. */
export function perform({ db, ledger }: OpenedFile, look: SqliteLook, work: Work): unknown {
  switch (work.op) {
    case "write":
      return ledger.write(work.rows);
    case "look":
      return look.answer(work.slice, LARGE_SLICE);
    case "watch":
      return ledger.watchSome();
    case "remove":
      return ledger.remove(work.found);
    case "check":
      return ledger.check();
    case "checkpoint":
      return firstValue(db, "PRAGMA wal_checkpoint(PASSIVE)");
  }
}

// ---- what the loop and a thread say to each other ----

export type WorkerRequest = { readonly id: number } & (Work | { readonly op: "close" });

/** The reply that nobody asked for: the thread runs and has a driver. What fails before it was never begun. */
export const STARTED = 0;

export interface WorkerReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
}

export interface WorkerOptions {
  readonly path: string;
  readonly busyMs: number;
  /** The driver that the main thread uses, so that the thread has the same. */
  readonly library: Pick<SqliteDriver, "name" | "file">;
}
