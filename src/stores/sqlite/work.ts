/** What the threads do on one connection, request by request; without a thread the event loop does the same. */
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
