/** The worker thread's side of the SQLite store: commits and their disk waits happen here, off the event loop. */
import { parentPort, workerData } from "node:worker_threads";
import { isNevertwiceError } from "../core/errors.ts";
import { type Batch, type Conflicts, conflictsOf, unpackBatch } from "./sqlite-batch.ts";
import { isBusy, loadDriver } from "./sqlite-driver.ts";
import { firstValue, openFile, storeError } from "./sqlite-file.ts";
import { type ExpiredAnswer, LARGE_SLICE, type Slice, SqliteLook } from "./sqlite-look.ts";

export type WorkerRequest =
  | { readonly id: number; readonly op: "write"; readonly batch: Batch }
  | { readonly id: number; readonly op: "look"; readonly slice: Slice }
  | { readonly id: number; readonly op: "watch" }
  | { readonly id: number; readonly op: "remove"; readonly found: ExpiredAnswer["found"] }
  | { readonly id: number; readonly op: "check" }
  | { readonly id: number; readonly op: "checkpoint" }
  | { readonly id: number; readonly op: "close" };

export interface WorkerReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
}

interface WorkerOptions {
  readonly path: string;
  readonly busyMs: number;
}

// 32 MiB of log: the pages of the key index are written by every batch, and copied into the file once per checkpoint.
// Twice as much log as that saves little more; a fourth of it costs a batch a fifth of its time.
const CHECKPOINT_PAGES = 16_000;
// A waiter sleeps a random while between these, growing: SQLite's own busy handler wakes everybody at the same steps,
// and with eight processes the unlucky one starves.
const SHORTEST_NAP_MS = 0.2;
const LONGEST_NAP_MS = 4;

const { path, busyMs } = workerData as WorkerOptions;
const port = parentPort as NonNullable<typeof parentPort>;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const file = openFile({ path, driver: loadDriver(), busyMs, check: false, autoCheckpoint: CHECKPOINT_PAGES });
const look = new SqliteLook(file.db);

port.on("message", (request: WorkerRequest) => {
  let reply: WorkerReply;
  try {
    reply = { id: request.id, value: answer(request) };
  } catch (error) {
    const { code, message } = isNevertwiceError(error) ? error : storeError(error, path);
    reply = { id: request.id, error: { code, message } };
  }
  port.postMessage(reply);
  if (request.op === "close") port.close();
});

function answer(request: WorkerRequest): unknown {
  switch (request.op) {
    case "write":
      return write(request.batch);
    case "look":
      return look.answer(request.slice, LARGE_SLICE);
    case "watch":
      return patiently(() => file.ledger.watchSome());
    case "remove":
      return patiently(() => file.ledger.remove(request.found));
    case "check":
      return file.ledger.check();
    case "checkpoint":
      return firstValue(file.db, "PRAGMA wal_checkpoint(PASSIVE)");
    case "close":
      return file.db.close?.();
  }
}

function write(batch: Batch): Conflicts {
  const puts = unpackBatch(batch);
  return conflictsOf(patiently(() => file.ledger.write(puts)));
}

function patiently<T>(work: () => T): T {
  const until = performance.now() + busyMs;
  let napMs = SHORTEST_NAP_MS;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
      Atomics.wait(sleeper, 0, 0, napMs * (0.5 + Math.random()));
      napMs = Math.min(LONGEST_NAP_MS, napMs * 1.5);
    }
  }
}
