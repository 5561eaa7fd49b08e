/** Planted: a lease and a fence, but nothing that says "may have been sent". A lapsed lease is taken for "not done". */
import { openDatabase, steadyMs } from "./open-database.mjs";

export function openGuard(path, { leaseMs }) {
  const db = openDatabase(path);
  const claim = (id) =>
    db
      .prepare(
        "INSERT INTO guard VALUES (?, 'claimed', 1, ?) ON CONFLICT (id) DO UPDATE SET fence = fence + 1, lease_until = excluded.lease_until WHERE state = 'claimed' AND lease_until <= ? RETURNING fence",
      )
      .all(id, steadyMs() + leaseMs, steadyMs())[0]?.fence;
  const holds = (id, fence, state) =>
    Number(db.prepare("UPDATE guard SET state = ? WHERE id = ? AND fence = ?").run(state, id, fence).changes) === 1;
  return {
    open() {},
    async run(id, { prepare, effect }) {
      const fence = claim(id);
      if (fence === undefined) return db.prepare("SELECT state FROM guard WHERE id = ?").all(id)[0].state;
      await prepare();
      if (!holds(id, fence, "claimed")) return "lost";
      await effect();
      holds(id, fence, "done");
      return "done";
    },
    close: () => db.close(),
  };
}
