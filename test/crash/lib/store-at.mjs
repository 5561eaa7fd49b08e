/** Where a ledger is: the path of a SQLite or a JSONL file, or a store as nevertwice() takes it. */
export function storeAt(ledger) {
  if (/^(sqlite|file|memory):|:\/\//.test(ledger)) return ledger;
  return `${ledger.endsWith(".jsonl") ? "file" : "sqlite"}:${ledger}`;
}
