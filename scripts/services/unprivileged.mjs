// PostgreSQL and PgBouncer refuse to run as root. As root we lend them a user: the one Debian made for PostgreSQL, or
// nobody. As anyone else they run as ourselves.
import { spawnSync } from "node:child_process";
import { chownSync } from "node:fs";

let known;

/** @returns {{ uid?: number, gid?: number }} */
export function unprivileged() {
  if (process.getuid?.() !== 0) return {};
  known ??= lookUp("postgres") ?? lookUp("nobody");
  if (known === undefined) throw new Error("PostgreSQL needs a user that is not root: adduser --system postgres");
  return known;
}

/** @param {string} path */
export function giveAway(path) {
  const { uid, gid } = unprivileged();
  if (uid !== undefined) chownSync(path, uid, gid);
}

function lookUp(name) {
  const [uid, gid] = ["-u", "-g"].map((what) => spawnSync("id", [what, name], { encoding: "utf8", timeout: 5_000 }));
  return uid.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined;
}
