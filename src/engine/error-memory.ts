/** Which errors stand behind outcomes: kept beside them, so that outcomes stay plain data. */
import type { Absent, Outcome } from "../core/outcome.ts";
import type { LedgerRecord } from "../core/record.ts";
import { fromStoredError } from "../core/stored-error.ts";

// The user's own error behind an outcome in doubt: reachable for action(), invisible in the outcome's data.
const causes = new WeakMap<object, unknown>();

export function withCause(outcome: Outcome<unknown>, cause: unknown): Outcome<unknown> {
  if (cause !== null && cause !== undefined) causes.set(outcome, cause);
  return outcome;
}

/** A doubt that is read back has its stored error as cause, as the call that met it had the error itself. */
export function withStoredCause(outcome: Outcome<unknown> | Absent, record: LedgerRecord): Outcome<unknown> | Absent {
  if (outcome.status === "unknown" && record.error !== null) causes.set(outcome, rememberedError(record));
  return outcome;
}

export function causeOf(outcome: object): unknown {
  return causes.get(outcome);
}

// Errors read back from the ledger, so that action() does not pass one off as thrown by this very call.
const remembered = new WeakSet<object>();

export function rememberedError(record: LedgerRecord): Error {
  const error = fromStoredError(record.error ?? { name: "Error", message: "no error was recorded" });
  remembered.add(error);
  return error;
}

export function isRemembered(error: unknown): boolean {
  return typeof error === "object" && error !== null && remembered.has(error);
}
