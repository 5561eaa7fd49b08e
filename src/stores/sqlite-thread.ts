/** The main thread's side: requests out, replies in, and the process free to exit when nothing is under way. */
import { Worker } from "node:worker_threads";
import { type ErrorCode, messageOf, NevertwiceError } from "../core/errors.ts";
import type { WorkerReply, WorkerRequest } from "./sqlite-worker.ts";

type Unnumbered<T> = T extends WorkerRequest ? Omit<T, "id"> : never;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The thread inherits the process's flags, as threads do. But `node --input-type=module -e …` is about that text alone,
 * and a thread with that flag dies of it. A list of our own may then hold none at all: Node refuses V8's flags in it,
 * --max-old-space-size among them, and has applied those to the whole process already.
 */
function threadFlags(): { execArgv?: string[] } {
  return process.execArgv.some((flag) => flag.startsWith("--input-type")) ? { execArgv: [] } : {};
}

export class SqliteThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #aside = 0;
  #lastId = 0;
  #dead: NevertwiceError | null = null;

  constructor(options: { path: string; busyMs: number }) {
    this.#worker = new Worker(new URL("./sqlite-worker.js", import.meta.url), {
      workerData: options,
      ...threadFlags(),
    });
    this.#worker.unref();
    this.#worker.on("message", (reply: WorkerReply) => this.#settle(reply));
    this.#worker.on("error", (error) => this.#died(messageOf(error)));
    this.#worker.on("exit", (code) => this.#died(`its thread ended with code ${code}`));
  }

  /** Whether there is work to queue behind. */
  get busy(): boolean {
    return this.#waiting.size > this.#aside;
  }

  get alive(): boolean {
    return this.#dead === null;
  }

  request<T>(request: Unnumbered<WorkerRequest>): Promise<T> {
    if (this.#dead) return Promise.reject(this.#dead);
    this.#lastId += 1;
    const id = this.#lastId;
    // Somebody waits: the process must not exit before the answer.
    if (this.#waiting.size === 0) this.#worker.ref();
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#worker.postMessage({ ...request, id });
    });
  }

  /**
   * Copies the log into the file, which waits for the disk: never on the loop. First beside the commits there, which leave
   * some more behind meanwhile; then those few with everybody queued behind it, so that the log can begin anew.
   */
  async checkpoint(): Promise<void> {
    this.#aside += 1;
    try {
      await this.request({ op: "checkpoint" });
    } finally {
      this.#aside -= 1;
    }
    await this.request({ op: "checkpoint" });
  }

  async close(): Promise<void> {
    if (this.#dead) return;
    await this.request({ op: "close" });
    await this.#worker.terminate();
  }

  #settle({ id, value, error }: WorkerReply): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (error) waiting?.reject(new NevertwiceError(error.code as ErrorCode, error.message));
    else waiting?.resolve(value);
  }

  #died(why: string): void {
    this.#dead ??= new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the ledger's thread is gone: ${why}. Nothing was run by this call.`,
    );
    for (const { reject } of this.#waiting.values()) reject(this.#dead);
    this.#waiting.clear();
  }
}
