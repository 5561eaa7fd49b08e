// Where temporary folders go: the system's usual place, unless PostgreSQL could not work there.
import { statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, resolve } from "node:path";

// A unix socket's path may have 107 bytes (103 on macOS), and about 50 of them come after this folder.
const LONGEST = 50;
const OTHERS_MAY_PASS = 0o001;

/** @returns {string} */
export function baseFolder() {
  const usual = resolve(tmpdir());
  return usual.length <= LONGEST && (process.getuid?.() !== 0 || isOpen(usual)) ? usual : "/tmp";
}

/** Root lends the servers another user, who has to get through every folder on the way. */
function isOpen(folder) {
  if ((statSync(folder).mode & OTHERS_MAY_PASS) === 0) return false;
  return dirname(folder) === folder || isOpen(dirname(folder));
}
