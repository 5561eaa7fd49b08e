/** What can be told about the disk under a ledger: how full it is, and whether it lasts. */
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { readableByOthers } from "../../stores/shared/private-files.ts";
import { bytes, shellWord } from "../term/format.ts";
import type { Check } from "./health.ts";

// A ledger grows by about 1 kB per record; below this a busy day could fill the disk.
const LEAST_FREE_BYTES = 100e6;

const NETWORK =
  "a network file system carries neither the locks nor the shared memory that many processes need: put the ledger on a local disk, or use a store made for many hosts";

// statfs(2) magic numbers. A file system that is not listed says nothing either way.
interface Kind {
  readonly name: string;
  readonly level: Check["level"];
  readonly advice?: string;
}

const KINDS: ReadonlyMap<number, Kind> = new Map([
  [
    0x01021994,
    {
      name: "tmpfs (memory)",
      level: "problem",
      advice: "it does not survive a reboot or power loss, and what was done could be done again: put it on a disk",
    },
  ],
  [0x6969, { name: "nfs", level: "problem", advice: NETWORK }],
  [0xff534d42, { name: "cifs", level: "problem", advice: NETWORK }],
  [0xfe534d42, { name: "smb2", level: "problem", advice: NETWORK }],
  [
    0x794c7630,
    {
      name: "overlayfs (a container's own layer)",
      level: "note",
      advice: "it does not survive the container being removed: put the ledger on a mounted volume",
    },
  ],
  [0xef53, { name: "ext4", level: "ok" }],
  [0x58465342, { name: "xfs", level: "ok" }],
  [0x9123683e, { name: "btrfs", level: "ok" }],
]);

export async function inspectDisk(file: string): Promise<Check[]> {
  const folder = nearestFolder(dirname(file));
  try {
    const { bavail, blocks, bsize, type } = await statfs(folder);
    const free = bavail * bsize;
    const enough = free >= LEAST_FREE_BYTES;
    const space: Check = {
      name: "free space",
      value: `${bytes(free)} of ${bytes(blocks * bsize)}`,
      level: enough ? "ok" : "problem",
      ...(!enough && { advice: "a full disk stops the ledger, and with it every action: make room" }),
    };
    const kind = KINDS.get(type >>> 0);
    if (kind === undefined || process.platform !== "linux") return [space];
    const { name: value, level, advice } = kind;
    return [space, { name: "file system", value, level, ...(advice !== undefined && { advice }) }];
  } catch {
    // No statfs here (a sandbox, an odd mount): nothing to tell.
    return [];
  }
}

// What lies beside a ledger and holds, or guards, what is in it.
const BESIDE = ["", "-wal", "-shm", ".id", ".lock", ".new", ".torn"];

/** Files that others can read are left as they are: a ledger may be shared by a group on purpose. */
export function inspectModes(file: string): Check[] {
  const open = readableByOthers(BESIDE.map((end) => `${file}${end}`));
  if (!existsSync(file)) return [];
  if (open.length === 0) return [{ name: "permissions", value: "only its owner can read it", level: "ok" }];
  return [
    {
      name: "permissions",
      value: `others than its owner can read or write ${open.map((path) => basename(path)).join(", ")}`,
      level: "note",
      advice: `inputs and results lie in it. If it is not meant to be shared: chmod 600 ${shellWord(file)}*`,
    },
  ];
}

function nearestFolder(folder: string): string {
  let at = folder;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  return at;
}
