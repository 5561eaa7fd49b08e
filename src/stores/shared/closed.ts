import { NevertwiceError } from "../../core/errors.ts";

/** A call after close(). */
export function refuseClosed(
  isClosed: boolean,
  ledger: string,
  next = "Call before close(), or make a new nevertwice().",
): void {
  if (!isClosed) return;
  throw new NevertwiceError("STORE_UNAVAILABLE", `the ledger ${ledger} is closed. ${next}`);
}
