/** Planted: WAL with synchronous=NORMAL. A commit is visible to all and on no disk: a power loss takes the claim back. */
import { heldGuard } from "./held.mjs";
import { openDatabase } from "./open-database.mjs";

export function openGuard(path) {
  const db = openDatabase(path, "NORMAL");
  const claim = (id) =>
    Number(db.prepare("INSERT INTO guard VALUES (?, 'sent', 1, 0) ON CONFLICT (id) DO NOTHING").run(id).changes) === 1;
  return heldGuard(db, claim);
}
