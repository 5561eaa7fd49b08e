/**
 * `exists`: the effect is a row of the user's own database under a unique key. Where the database says that the row is
 * there, the action finds it and gives its result: the intent is done.
 */
import { ReturnedError, returnedError } from "../core/returned-error.ts";
import { isUniqueViolation } from "../core/sql-error.ts";
import type { AttemptContext } from "./context.ts";

/** undefined: this violation is about something else. */
export type Exists<I, R> = (error: unknown, input: I) => R | undefined | Promise<R | undefined>;

/** `exists` threw: what it thought of the violation is not known. */
export class ExistsFailed extends Error {
  override readonly name = "ExistsFailed";
  readonly violation: unknown;

  constructor(violation: unknown, cause: unknown) {
    const said = cause instanceof Error ? cause.message : String(cause);
    super(`a row with this unique key is there, and exists could not read it: ${said}`, { cause });
    this.violation = violation;
  }
}

/** undefined: `exists` says nothing about this error. */
export async function resultThere<I, R>(
  exists: Exists<I, R>,
  error: unknown,
  input: I,
): Promise<{ result: R } | undefined> {
  if (!isUniqueViolation(error)) return undefined;
  try {
    const result = await exists(error, input);
    return result === undefined ? undefined : { result };
  } catch (cause) {
    throw new ExistsFailed(error, cause);
  }
}

type RunOf<I, R, D> = (input: I, context: AttemptContext, draft: D) => R | Promise<R>;

/** Part of `run`, so that the lease is kept and the timeout holds while it looks. */
export function runOrExists<I, R, D>(run: RunOf<I, R, D>, exists: Exists<I, R>): RunOf<I, R, D> {
  return async (input, context, draft) => {
    try {
      const result = await run(input, context, draft);
      const failure = returnedError(result);
      if (failure instanceof ReturnedError) throw failure;
      return result;
    } catch (error) {
      const there = await resultThere(exists, error, input);
      if (there === undefined) throw error;
      // With `mark: "manual"` a success needs its mark, also where the row was found before the effect.
      await context.sent();
      return there.result;
    }
  };
}
