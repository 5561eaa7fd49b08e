/** What can be told about the disk under a ledger: how full it is, and whether it lasts. */
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { bytes } from "./format.js";
// A ledger grows by about 1 kB per record; below this a busy day could fill the disk.
const LEAST_FREE_BYTES = 100e6;
const NETWORK = "a network file system carries neither the locks nor the shared memory that many processes need: put the ledger on a local disk, or use a store made for many hosts";
const KINDS = new Map([
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
export async function inspectDisk(file) {
    const folder = nearestFolder(dirname(file));
    try {
        const { bavail, blocks, bsize, type } = await statfs(folder);
        const free = bavail * bsize;
        const enough = free >= LEAST_FREE_BYTES;
        const space = {
            name: "free space",
            value: `${bytes(free)} of ${bytes(blocks * bsize)}`,
            level: enough ? "ok" : "problem",
            ...(!enough && { advice: "a full disk stops the ledger, and with it every action: make room" }),
        };
        const kind = KINDS.get(type >>> 0);
        if (kind === undefined || process.platform !== "linux")
            return [space];
        const { name: value, level, advice } = kind;
        return [space, { name: "file system", value, level, ...(advice !== undefined && { advice }) }];
    }
    catch {
        // No statfs here (a sandbox, an odd mount): nothing to tell.
        return [];
    }
}
function nearestFolder(folder) {
    let at = folder;
    while (!existsSync(at) && dirname(at) !== at)
        at = dirname(at);
    return at;
}
//# sourceMappingURL=disk.js.map