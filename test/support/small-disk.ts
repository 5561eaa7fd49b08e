/** A disk with little room, for tests that run where none can be mounted: what does not fit is cut off with ENOSPC. */
import { fstatSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { localDisk } from "../../src/stores/file/disk.ts";
import type { Disk } from "../../src/stores/file/index.ts";

export interface SmallDisk {
  readonly disk: Disk;
  /** Bytes that all files of the folder may have together. */
  limit: number;
}

export function smallDisk(folder: string, limit: number): SmallDisk {
  const used = () => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  const small = { limit };
  const disk: Disk = {
    ...localDisk,
    write(file, at, bytes) {
      const { size } = fstatSync(file);
      const fits = Math.max(0, size + Math.max(0, small.limit - used()) - at);
      if (bytes.length <= fits) return localDisk.write(file, at, bytes);
      localDisk.write(file, at, bytes.subarray(0, fits));
      throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    },
    // As where a quota counts and the file system does not know it.
    freeBytes: () => null,
  };
  return Object.assign(small, { disk });
}
