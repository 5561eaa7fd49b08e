/** Where a ledger is: the path of a SQLite file, or the URL of a server. */
export function storeAt(ledger) {
  return ledger.includes("://") ? ledger : `sqlite:${ledger}`;
}
