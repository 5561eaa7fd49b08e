/** What is known of a PostgreSQL ledger before its code is loaded. */
import type { StoreTraits } from "../../core/store.ts";

export const POSTGRES_TRAITS: StoreTraits = { hosts: "many", survives: "power-loss", clock: "store", dueIndex: true };

export const POSTGRES_ROWS = {
  // Half of 256 callers: while one half is written, the other half works. With one batch for all of them server and
  // program wait for each other in turn (13 000 guards a second became 6 000).
  batchRows: 128,
  // Half of a busy worker's 512: one statement costs the server less than two with half of its rows each.
  crowdedBatchRows: 256,
} as const;
