/** Planted: the claimed row is read back with .get(), which steps once and resets: an error of the commit is swallowed. */
import { heldGuard } from "./held.mjs";
import { openDatabase } from "./open-database.mjs";

export function openGuard(path) {
  const db = openDatabase(path);
  const claim = (id) =>
    db.prepare("INSERT INTO guard VALUES (?, 'sent', 1, 0) ON CONFLICT (id) DO NOTHING RETURNING id").get(id) !==
    undefined;
  return heldGuard(db, claim);
}
