/** What the main thread and the commit thread say to each other. */
import type { SqliteDriver } from "./driver.ts";
import type { Work } from "./work.ts";

export type WorkerRequest = { readonly id: number } & (Work | { readonly op: "close" });

/** The reply that nobody asked for: the thread runs and has a driver. What fails before it was never begun. */
export const STARTED = 0;

export interface WorkerReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
}

export interface WorkerOptions {
  readonly path: string;
  readonly busyMs: number;
  /** The driver that the main thread uses, so that the thread has the same. */
  readonly library: Pick<SqliteDriver, "name" | "file">;
}
