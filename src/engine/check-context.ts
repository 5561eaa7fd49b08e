import type { Logger } from "./context.ts";

export interface CheckContext<Tx = unknown> {
  /** The intent's key. */
  readonly key: string;
  /** Whose intent it is; "" where it has no tenant. */
  readonly tenant: string;
  readonly scope: string | null;
  /** Aborted when the check takes longer than the action's `timeout`. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** The caller's transaction, where one was given. */
  readonly tx: Tx | undefined;
}

export type Check<I, Tx = unknown> = (input: I, context: CheckContext<Tx>) => unknown;

/** A check of what has no input: of once() and of a step. Anything but a function is left for the action's definition to refuse. */
export function asCheck(check: (context: CheckContext) => unknown): Check<unknown> {
  return typeof check === "function" ? (_input, context) => check(context) : check;
}
