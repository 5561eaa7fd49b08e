/** What the commit thread does on one connection, request by request; without a thread the event loop does the same. */
import type { Instant } from "../core/record.ts";
import type { StatsQuery, SweepQuery } from "../core/store.ts";
import { type Batch, conflictsOf, unpackBatch } from "./sqlite-batch.ts";
import { firstValue, type OpenedFile } from "./sqlite-file.ts";

export type Work =
  | { readonly op: "write"; readonly batch: Batch }
  | { readonly op: "sweep"; readonly query: SweepQuery; readonly at: Instant }
  | { readonly op: "stats"; readonly query: StatsQuery; readonly at: Instant }
  | { readonly op: "check" }
  | { readonly op: "checkpoint" };

/** May throw that the file is locked: whoever calls it waits and calls again. */
export function perform({ db, ledger }: OpenedFile, work: Work): unknown {
  switch (work.op) {
    case "write":
      return conflictsOf(ledger.write(unpackBatch(work.batch)));
    case "sweep":
      return ledger.sweep(work.query, work.at);
    case "stats":
      return ledger.stats(work.query, work.at);
    case "check":
      return ledger.check();
    case "checkpoint":
      return firstValue(db, "PRAGMA wal_checkpoint(PASSIVE)");
  }
}
