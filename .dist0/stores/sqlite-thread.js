/** The main thread's side: requests out, replies in, and the process free to exit when nothing is under way. */
import { Worker } from "node:worker_threads";
import { messageOf, NevertwiceError } from "../core/errors.js";
/**
 * The thread inherits the process's flags, as threads do. But `node --input-type=module -e …` is about that text alone,
 * and a thread with that flag dies of it. A list of our own may then hold none at all: Node refuses V8's flags in it,
 * --max-old-space-size among them, and has applied those to the whole process already.
 */
function threadFlags() {
    return process.execArgv.some((flag) => flag.startsWith("--input-type")) ? { execArgv: [] } : {};
}
export class SqliteThread {
    #worker;
    #waiting = new Map();
    #lastId = 0;
    #dead = null;
    constructor(options) {
        this.#worker = new Worker(new URL("./sqlite-worker.js", import.meta.url), {
            workerData: options,
            ...threadFlags(),
        });
        this.#worker.unref();
        this.#worker.on("message", (reply) => this.#settle(reply));
        this.#worker.on("error", (error) => this.#died(messageOf(error)));
        this.#worker.on("exit", (code) => this.#died(`its thread ended with code ${code}`));
    }
    get busy() {
        return this.#waiting.size > 0;
    }
    get alive() {
        return this.#dead === null;
    }
    request(request) {
        if (this.#dead)
            return Promise.reject(this.#dead);
        this.#lastId += 1;
        const id = this.#lastId;
        // Somebody waits: the process must not exit before the answer.
        if (this.#waiting.size === 0)
            this.#worker.ref();
        return new Promise((resolve, reject) => {
            this.#waiting.set(id, { resolve: resolve, reject });
            this.#worker.postMessage({ ...request, id });
        });
    }
    async close() {
        if (this.#dead)
            return;
        await this.request({ op: "close" });
        await this.#worker.terminate();
    }
    #settle({ id, value, error }) {
        const waiting = this.#waiting.get(id);
        this.#waiting.delete(id);
        if (this.#waiting.size === 0)
            this.#worker.unref();
        if (error)
            waiting?.reject(new NevertwiceError(error.code, error.message));
        else
            waiting?.resolve(value);
    }
    #died(why) {
        this.#dead ??= new NevertwiceError("STORE_UNAVAILABLE", `the ledger's thread is gone: ${why}. Nothing was run by this call.`);
        for (const { reject } of this.#waiting.values())
            reject(this.#dead);
        this.#waiting.clear();
    }
}
//# sourceMappingURL=sqlite-thread.js.map