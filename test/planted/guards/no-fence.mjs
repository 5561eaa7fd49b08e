/** Planted: a lease and a send mark, but no fence. A holder that slept through its lease goes on as if nothing had happened. */
import { openDatabase, steadyMs } from "./open-database.mjs";

export function openGuard(path, { leaseMs }) {
  const db = openDatabase(path);
  const claim = (id) =>
    Number(
      db
        .prepare(
          "INSERT INTO guard VALUES (?, 'claimed', 1, ?) ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until WHERE state = 'claimed' AND lease_until <= ?",
        )
        .run(id, steadyMs() + leaseMs, steadyMs()).changes,
    ) === 1;
  return {
    open() {},
    async run(id, { prepare, effect }) {
      if (!claim(id)) return db.prepare("SELECT state FROM guard WHERE id = ?").all(id)[0].state;
      await prepare();
      db.prepare("UPDATE guard SET state = 'sent' WHERE id = ?").run(id);
      await effect();
      db.prepare("UPDATE guard SET state = 'done' WHERE id = ?").run(id);
      return "done";
    },
    close: () => db.close(),
  };
}
