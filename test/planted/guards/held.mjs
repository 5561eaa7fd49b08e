/**
 * What the last two designs have in common: one row per id, marked as sent before the effect and never sent again.
 * Sound, as far as the scenarios go, if `claim` commits durably or throws.
 */
export function heldGuard(db, claim) {
  return {
    open() {},
    async run(id, { prepare, effect }) {
      const known = db.prepare("SELECT state FROM guard WHERE id = ?").all(id)[0];
      if (known !== undefined) return known.state;
      await prepare();
      if (!claim(id)) return "taken";
      await effect();
      db.prepare("UPDATE guard SET state = 'done' WHERE id = ?").run(id);
      return "done";
    },
    close: () => db.close(),
  };
}
