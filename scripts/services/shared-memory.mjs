// A PostgreSQL that was killed leaves its System V shared memory segment (56 bytes) behind, and a machine has only so
// many of them (4096 by default). Whatever else it shares lies in its folder, see `dynamic_shared_memory_type`.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { find } from "./programs.mjs";

/** To be called when no server runs in the folder any more. @param {string} folder */
export function releaseSharedMemory(folder) {
  const ipcrm = find("ipcrm");
  const locks = readdirSync(folder).map((name) => join(folder, name, "data", "postmaster.pid"));
  // The file is there only after a kill; its seventh line is the segment's key and id.
  for (const lock of locks.filter((path) => existsSync(path))) {
    const id = readFileSync(lock, "utf8").split("\n")[6]?.trim().split(/\s+/)[1];
    if (id && ipcrm) spawnSync(ipcrm, ["-m", id], { timeout: 5_000 });
  }
}
