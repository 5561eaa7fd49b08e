/** The worker thread's side of the SQLite store: commits and their disk waits happen here, off the event loop. */
import { parentPort, workerData } from "node:worker_threads";
import { isNevertwiceError } from "../core/errors.js";
import { isBusy, loadDriver } from "./sqlite-driver.js";
import { firstValue, openFile, storeError } from "./sqlite-file.js";
// 16 MiB of log: the pages of the key index are written by every batch, and copied into the file once per checkpoint.
const CHECKPOINT_PAGES = 4_000;
// A waiter sleeps a random while between these, growing: SQLite's own busy handler wakes everybody at the same steps,
// and with eight processes the unlucky one starves.
const SHORTEST_NAP_MS = 0.2;
const LONGEST_NAP_MS = 4;
const { path, busyMs } = workerData;
const port = parentPort;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const file = openFile({ path, driver: loadDriver(), busyMs, check: false, autoCheckpoint: CHECKPOINT_PAGES });
port.on("message", (request) => {
    let reply;
    try {
        reply = { id: request.id, value: answer(request) };
    }
    catch (error) {
        const { code, message } = isNevertwiceError(error) ? error : storeError(error, path);
        reply = { id: request.id, error: { code, message } };
    }
    port.postMessage(reply);
    if (request.op === "close")
        port.close();
});
function answer(request) {
    switch (request.op) {
        case "write":
            return patiently(() => file.ledger.write(request.puts));
        case "sweep":
            return patiently(() => file.ledger.sweep(request.query, request.at));
        case "stats":
            return file.ledger.stats(request.at);
        case "check":
            return file.ledger.check();
        case "checkpoint":
            return firstValue(file.db, "PRAGMA wal_checkpoint(PASSIVE)");
        case "close":
            return file.db.close?.();
    }
}
function patiently(work) {
    const until = performance.now() + busyMs;
    let napMs = SHORTEST_NAP_MS;
    for (;;) {
        try {
            return work();
        }
        catch (error) {
            if (!isBusy(error) || performance.now() >= until)
                throw error;
            Atomics.wait(sleeper, 0, 0, napMs * (0.5 + Math.random()));
            napMs = Math.min(LONGEST_NAP_MS, napMs * 1.5);
        }
    }
}
//# sourceMappingURL=sqlite-worker.js.map