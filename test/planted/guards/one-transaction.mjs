/** Planted: the row and the call in one transaction. A crash rolls the row back, the effect stays. */
import { openDatabase } from "./open-database.mjs";

export function openGuard(path) {
  const db = openDatabase(path);
  return {
    open() {},
    async run(id, { prepare, effect }) {
      db.exec("BEGIN IMMEDIATE");
      try {
        const { changes } = db.prepare("INSERT OR IGNORE INTO guard VALUES (?, 'done', 1, 0)").run(id);
        if (Number(changes) === 1) {
          await prepare();
          await effect();
        }
        db.exec("COMMIT");
        return "done";
      } catch (error) {
        db.exec("ROLLBACK");
        throw error;
      }
    },
    close: () => db.close(),
  };
}
