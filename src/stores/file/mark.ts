/**
 * The small file beside the ledger (`ledger.jsonl.id`). It names the ledger, so that one that is gone or replaced is
 * noticed; and it holds the number of the last line that is surely on the disk. That number is written after each sync
 * and not synced itself: after a crash it is exact, after a power loss it may be older, never newer. So a ledger that
 * ends before it has lost acknowledged lines, even where the cut is clean.
 */
import { hexSum } from "../shared/checksum.ts";
import type { Disk } from "./disk.ts";

export interface Mark {
  readonly ledger: string;
  readonly synced: number;
}

const REV_DIGITS = 16;

/** Always of one length, below a disk's sector: overwritten in place, it is the old one or the new one. */
function encode({ ledger, synced }: Mark): Buffer {
  const open = `{"ledger":${JSON.stringify(ledger)},"synced":"${String(synced).padStart(REV_DIGITS, "0")}"`;
  return Buffer.from(`${open},"crc":"${hexSum(open)}"}\n`);
}

const MOST_BYTES = 512;

export class MarkFile {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #file: number;
  readonly #identity: string;

  constructor(disk: Disk, path: string) {
    this.#disk = disk;
    this.#path = path;
    this.#file = disk.open(path, "open");
    this.#identity = disk.factsOf(this.#file).identity;
  }

  /** False: it was removed or replaced, and others read and write another one. */
  get isCurrent(): boolean {
    return this.#disk.facts(this.#path)?.identity === this.#identity;
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

/**
 * Written beside, synced, renamed, and the rename synced: there is no moment with half a file under the name. What could
 * not be finished is removed: on a full disk it would take the room that the ledger needs.
 */
export async function writeWhole(
  disk: Disk,
  path: string,
  folder: string,
  bytes: Buffer,
  beside = path,
): Promise<void> {
  await replaceFile(disk, { path, folder, beside, fill: async (file) => disk.write(file, 0, bytes) });
}

export interface Replacement {
  readonly path: string;
  readonly folder: string;
  /** The file whose mode the new one gets. */
  readonly beside: string;
  fill(file: number): Promise<void>;
  /** Called right before the new file takes the name; what it throws leaves the old one in place. */
  readonly check?: () => void;
}

export async function replaceFile(disk: Disk, { path, folder, beside, fill, check }: Replacement): Promise<void> {
  const fresh = `${path}.new`;
  try {
    const file = disk.open(fresh, "create", beside);
    try {
      await fill(file);
      await disk.sync(file);
    } finally {
      disk.close(file);
    }
    check?.();
    disk.rename(fresh, path);
  } catch (error) {
    removeQuietly(disk, fresh);
    throw error;
  }
  disk.syncFolder(folder);
}

export function removeQuietly(disk: Disk, path: string): void {
  try {
    disk.remove(path);
  } catch {
    // The error that led here says more. The next open tries again.
  }
}
