/** What a worker offers to the program that runs it. */
import type { Duration } from "../core/duration.ts";

export type WorkerEvent =
  /** An intent left this worker's hands. */
  | {
      readonly type: "finished";
      readonly action: string;
      readonly key: string;
      readonly as: "done" | "retry" | "failed" | "unknown" | "given-back" | "moved";
      readonly why?: string;
    }
  /** Nothing is due. */
  | { readonly type: "idle" }
  /** The store did not answer, or an action is set up wrongly; the worker goes on. */
  | { readonly type: "error"; readonly error: unknown };

export interface WorkerStatus {
  readonly state: "new" | "running" | "stopping" | "stopped";
  readonly inFlight: number;
  readonly done: number;
  /** Surely did not happen, and will be tried again. */
  readonly retried: number;
  /** Dead letters. */
  readonly failed: number;
  /** Among them: not begun in time. */
  readonly expired: number;
  readonly inDoubt: number;
  readonly givenBack: number;
}

export interface Worker {
  /** Begins to look for work, and goes on until it is stopped. */
  start(): Promise<void>;
  /**
   * Takes nothing new, hands back what has not begun, and waits for what runs: until it has ended, or no longer than
   * `within`. Answers how many were still under way then; their leases run out by themselves.
   */
  stop(options?: { readonly within?: Duration }): Promise<{ readonly stillRunning: number }>;
  /**
   * One look: runs what is due now, up to the concurrency, and answers how many that were. Rejects with the store's error
   * where the ledger did not answer the look, or an intent could not be begun because of it.
   */
  tick(): Promise<number>;
  /**
   * Runs until nothing is due any more, and nothing is left that this worker put off itself because a limit was full or
   * another record of its order came first. What is due later for other reasons (a delay, a pause before a retry, a doubt
   * ahead in its order, a limit that lets the next one begin in more than a minute) is not waited for. A ledger that does not
   * answer is looked at again for a few seconds. Then, when what is under way has ended, this rejects with the store's error
   * (STORE_UNAVAILABLE), and so it does where an intent could not be begun because the ledger did not answer.
   */
  drain(): Promise<WorkerStatus>;
  on(listener: (event: WorkerEvent) => void): () => void;
  readonly status: WorkerStatus;
}
