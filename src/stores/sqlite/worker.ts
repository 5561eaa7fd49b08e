/** The worker thread's side of the SQLite store: commits and their disk waits happen here, off the event loop. */
import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";
import { isNevertwiceError } from "../../core/errors.ts";
import { driverAt, isBusy } from "./driver.ts";
import { openFile, storeError } from "./file.ts";
import { SqliteLook } from "./look.ts";
import { perform, STARTED, type WorkerOptions, type WorkerReply, type WorkerRequest } from "./work.ts";

// 32 MiB of log: the pages of the key index are written by every batch, and copied into the file once per checkpoint.
// Twice as much log as that saves little more; a fourth of it costs a batch a fifth of its time.
const CHECKPOINT_PAGES = 16_000;
// A waiter sleeps a random while between these, growing: SQLite's own busy handler wakes everybody at the same steps,
// and with eight processes the unlucky one starves.
const SHORTEST_NAP_MS = 0.2;
const LONGEST_NAP_MS = 4;

const { path, busyMs, library } = workerData as WorkerOptions;
const port = parentPort as NonNullable<typeof parentPort>;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const driver = driverAt(library);
port.postMessage({ id: STARTED } satisfies WorkerReply);
const file = openFile({ path, driver, busyMs, autoCheckpoint: CHECKPOINT_PAGES });
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
  return request.op === "close" ? file.close() : patiently(() => perform(file, look, request));
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
