/** What a tool's thrown error means by the tool's own options; undefined leaves it to the built-in rules. */
import { classify } from "../../core/classify.ts";
import { type DoubtBecause, doubtBecause, doubtReason, isNevertwiceError } from "../../core/errors.ts";
import { isUnclassified } from "../../core/way-out.ts";
import type { Verdictish } from "../../engine/definition.ts";
import { soundsInterrupted } from "./interrupted.ts";
import type { AnyToolOptions, ErrorMeaning } from "./options.ts";

export function verdictOnThrown(
  error: unknown,
  { classify: own, errors }: { readonly [option in "classify" | "errors"]?: AnyToolOptions[option] | undefined },
): Verdictish | undefined {
  const verdict = own?.(error) ?? undefined;
  if (verdict !== undefined || !saysNothing(error)) return verdict;
  const meaning = typeof errors === "function" ? saidOf(errors, error) : errors;
  // A word about the tool's errors in general is none about an attempt that broke off.
  if (meaning === "not-done") return !isNevertwiceError(error) && soundsInterrupted(error) ? "doubt" : "refused";
  return meaning === "doubt" ? "doubt" : undefined;
}

/** The same for the ledger: a doubt says whose word it is, or why that word is not enough. */
export function verdictFor(
  error: unknown,
  options: Parameters<typeof verdictOnThrown>[1],
): Verdictish | DoubtBecause | undefined {
  const said = verdictOnThrown(error, options);
  return said === "doubt" ? doubtBecause(doubtReason(error) ?? whyDoubt(options)) : said;
}

/** Why an error is in doubt that the tool's options have a word about. */
export function whyDoubt({ errors }: { readonly errors?: AnyToolOptions["errors"] | undefined }): string {
  return errors === "not-done"
    ? "an error that leaves open whether it happened"
    : "the tool's options call this error doubt";
}

/** A function that was written for results alone may fail on an error: then it has said nothing. */
function saidOf(errors: (result: never, error: unknown) => ErrorMeaning, error: unknown): ErrorMeaning | undefined {
  try {
    return errors(undefined as never, error);
  } catch {
    return undefined;
  }
}

/** A timeout or a lost connection does say something, and it outweighs a word about the tool's errors in general. */
function saysNothing(error: unknown): boolean {
  if (isNevertwiceError(error)) return error.code === "INVALID_INPUT" || error.code === "INVALID_KEY";
  const verdict = classify(error, 0);
  return verdict.kind === "doubt" && isUnclassified(verdict.why);
}
