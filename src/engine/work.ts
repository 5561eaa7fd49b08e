/** The user's function at work, as a promise. */
import { formatDuration } from "../core/duration.ts";
import { type Context, runAs } from "./context.ts";

export const NO_WORK: Promise<unknown> = Promise.resolve();

/** A promise of the work, whatever it is made of; a native one is passed on as it is. */
export function begin<A extends unknown[], T>(
  context: Context,
  work: (...args: A) => T | Promise<T>,
  ...args: A
): Promise<T> {
  try {
    return Promise.resolve(runAs(context, work, ...args));
  } catch (error) {
    return Promise.reject(error);
  }
}

export function timeoutError(phase: "check" | "prepare" | "run", timeoutMs: number): Error {
  return new DOMException(`${phase} took longer than ${formatDuration(timeoutMs)}.`, "TimeoutError");
}
