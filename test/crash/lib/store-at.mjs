/** Where a ledger is: the path of a SQLite or a JSONL file, or the URL of a server. */
export function storeAt(ledger) {
  if (ledger.includes("://")) return ledger;
  return `${ledger.endsWith(".jsonl") ? "file" : "sqlite"}:${ledger}`;
}
