/** Which ledger a crash test's program opens: SQLite unless its orders say otherwise. */
import { fileStore } from "nevertwice/file";
import { storeAt } from "./store-at.mjs";

/** @param {{ ledger: string, kind?: string, compactAfterLines?: number }} spec */
export function storeOf(spec) {
  if (spec.kind !== "file") return storeAt(spec.ledger);
  return fileStore({ path: spec.ledger, compactAfterLines: spec.compactAfterLines ?? 1_000 });
}
