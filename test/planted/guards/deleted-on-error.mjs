/** Planted: SET NX in SQL, deleted on any error. An error after the effect opens the door for the next one. */
import { openDatabase } from "./open-database.mjs";

export function openGuard(path) {
  const db = openDatabase(path);
  return {
    open() {},
    async run(id, { prepare, effect }) {
      const { changes } = db.prepare("INSERT OR IGNORE INTO guard VALUES (?, 'taken', 1, 0)").run(id);
      if (Number(changes) === 0) return "taken";
      try {
        await prepare();
        await effect();
        return "done";
      } catch (error) {
        db.prepare("DELETE FROM guard WHERE id = ?").run(id);
        throw error;
      }
    },
    close: () => db.close(),
  };
}
