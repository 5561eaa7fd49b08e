/**
 * The small file beside the ledger (`ledger.jsonl.id`). It names the ledger, so that one that is gone or replaced is
 * noticed; and it holds the number of the last line that is surely on the disk. That number is written after each sync
 * and not synced itself: after a crash it is exact, after a power loss it may be older, never newer. So a ledger that
 * ends before it has lost acknowledged lines, even where the cut is clean.
 */
import { crc32 } from "node:zlib";
import type { Disk } from "./file-disk.ts";

export interface Mark {
  readonly ledger: string;
  readonly synced: number;
}

const REV_DIGITS = 16;

/** Always of one length, below a disk's sector: overwritten in place, it is the old one or the new one. */
function encode({ ledger, synced }: Mark): Buffer {
  const open = `{"ledger":${JSON.stringify(ledger)},"synced":"${String(synced).padStart(REV_DIGITS, "0")}"`;
  return Buffer.from(`${open},"crc":"${crc32(open).toString(16).padStart(8, "0")}"}\n`);
}

const MOST_BYTES = 512;

export class MarkFile {
  readonly #disk: Disk;
  readonly #file: number;

  constructor(disk: Disk, path: string) {
    this.#disk = disk;
    this.#file = disk.open(path, "open");
  }

  /** Null: it cannot be read, so it says nothing. */
  read(): Mark | null {
    const text = this.#disk.read(this.#file, 0, MOST_BYTES).toString();
    const found = /^\{"ledger":"([^"\\]+)","synced":"(\d{16})","crc":"[0-9a-f]{8}"\}\n$/.exec(text);
    if (found === null) return null;
    const mark = { ledger: found[1] as string, synced: Number(found[2]) };
    return encode(mark).toString() === text ? mark : null;
  }

  write(mark: Mark): void {
    this.#disk.write(this.#file, 0, encode(mark));
  }

  close(): void {
    this.#disk.close(this.#file);
  }
}

export async function createMark(disk: Disk, path: string, ledger: string, folder: string, mark: Mark): Promise<void> {
  await writeWhole(disk, path, folder, encode(mark), ledger);
}

/** Written beside, synced, renamed, and the rename synced: there is no moment with half a file under the name. */
export async function writeWhole(
  disk: Disk,
  path: string,
  folder: string,
  bytes: Buffer,
  beside = path,
): Promise<void> {
  const fresh = `${path}.new`;
  const file = disk.open(fresh, "create", beside);
  try {
    disk.write(file, 0, bytes);
    await disk.sync(file);
  } finally {
    disk.close(file);
  }
  disk.rename(fresh, path);
  disk.syncFolder(folder);
}
