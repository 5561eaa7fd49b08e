/** The main thread's side: requests out, replies in, and the process free to exit when nothing is under way. */
import type { Worker } from "node:worker_threads";
import { type ErrorCode, messageOf, NevertwiceError } from "../../core/errors.ts";
import { loadDriver } from "./driver.ts";
import { THREAD_SOURCE } from "./thread-source.ts";
import { STARTED, type Work, type WorkerOptions, type WorkerReply, type WorkerRequest } from "./work.ts";

interface Waiting {
  readonly request: WorkerRequest;
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

export interface ThreadOptions {
  readonly path: string;
  readonly busyMs: number;
  /** Does the work where no thread can start. */
  readonly onLoop: (work: Work) => Promise<unknown>;
}

export class SqliteThread {
  readonly #options: ThreadOptions;
  /** Null: no thread can start here, and the loop does its work. */
  #worker: Worker | null = null;
  #started = false;
  readonly #waiting = new Map<number, Waiting>();
  #aside = 0;
  #lastId = 0;
  #dead: NevertwiceError | null = null;
  #onLoop: Promise<unknown> = Promise.resolve();

  constructor(options: ThreadOptions) {
    this.#options = options;
    try {
      this.#worker = startWorker(options);
    } catch (error) {
      warnOfNoThread(options.path, messageOf(error));
      return;
    }
    this.#worker.unref();
    this.#worker.on("message", (reply: WorkerReply) => this.#receive(reply));
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

  request<T>(work: Work | { readonly op: "close" }): Promise<T> {
    if (this.#dead) return Promise.reject(this.#dead);
    this.#lastId += 1;
    const request: WorkerRequest = { ...work, id: this.#lastId };
    // Somebody waits: the process must not exit before the answer.
    if (this.#waiting.size === 0) this.#worker?.ref();
    return new Promise((resolve, reject) => {
      this.#waiting.set(request.id, { request, resolve: resolve as (value: unknown) => void, reject });
      if (this.#worker === null) this.#performOnLoop(request);
      else this.#worker.postMessage(request);
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
    await this.#worker?.terminate();
  }

  #receive(reply: WorkerReply): void {
    if (reply.id === STARTED) this.#started = true;
    else if (reply.error)
      this.#settle(reply.id, null, new NevertwiceError(reply.error.code as ErrorCode, reply.error.message));
    else this.#settle(reply.id, reply.value, null);
  }

  #settle(id: number, value: unknown, error: unknown): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker?.unref();
    if (error !== null) waiting?.reject(error);
    else waiting?.resolve(value);
  }

  #died(why: string): void {
    if (this.#worker === null) return;
    if (!this.#started) {
      this.#goOnWithoutThread(why);
      return;
    }
    this.#dead ??= new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the ledger's thread is gone: ${why}. Nothing was run by this call.`,
    );
    for (const { reject } of this.#waiting.values()) reject(this.#dead);
    this.#waiting.clear();
  }

  /** The thread has done nothing yet, so everything it was asked can be done here without doing it twice. */
  #goOnWithoutThread(why: string): void {
    this.#worker = null;
    warnOfNoThread(this.#options.path, why);
    for (const { request } of this.#waiting.values()) this.#performOnLoop(request);
  }

  /** One after the other, as the thread does it. */
  #performOnLoop(request: WorkerRequest): void {
    this.#onLoop = this.#onLoop.then(async () => {
      try {
        // The connection is the store's own, which closes it.
        const value = request.op === "close" ? undefined : await this.#options.onLoop(request);
        this.#settle(request.id, value, null);
      } catch (error) {
        this.#settle(request.id, null, error);
      }
    });
  }
}

function startWorker({ path, busyMs }: ThreadOptions): Worker {
  if (THREAD_SOURCE === "") throw new Error("this build of nevertwice has no thread");
  const { name, file } = loadDriver();
  const workerData: WorkerOptions = { path, busyMs, library: { name, file } };
  // Not imported: a program with one caller starts no thread.
  const { Worker } = process.getBuiltinModule("node:worker_threads");
  return new Worker(THREAD_SOURCE, { eval: true, workerData, ...threadFlags() });
}

let warned = false;

function warnOfNoThread(path: string, why: string): void {
  if (warned) return;
  warned = true;
  process.emitWarning(
    `no thread can be started for the ledger ${path} (${why}). It works on the event loop instead: calls are guarded as before, but large batches, statistics and waits for another process's lock delay the program.`,
    { type: "NevertwiceWarning", code: "NEVERTWICE_NO_THREAD" },
  );
}
