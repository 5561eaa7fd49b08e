/**
 * A write-ahead log that was deleted after its program was killed: SQLite opens the file as it was at the last checkpoint,
 * and the commits since then are absent. The log's index (`-shm`) still says how many frames there were and how many of
 * them are in the file. SQLite removes the two together, when the last connection closes and every frame is in the file,
 * so an index with more frames than that, and without a log, proves the loss. Where both were deleted, nothing does.
 */
import { existsSync, readFileSync } from "node:fs";
import { endianness } from "node:os";

// SQLite's wal-index: its header twice, then how far checkpoints have come, in the byte order of the host.
const HEADER_BYTES = 48;
const INITIALIZED_AT = 12;
const FRAMES_AT = 16;
const CHECKPOINTED_AT = 2 * HEADER_BYTES;

/** What is wrong, or null. The path is the file's own, without symbolic links. */
export function lostWal(path: string): string | null {
  // While the log is there, the index is left alone: closing it would drop the locks of this process's connections.
  if (existsSync(`${path}-wal`)) return null;
  const index = readIndex(`${path}-shm`);
  if (index === null) return null;
  // The last connection may be closing at this moment, and the log of a new one may be there by now.
  const again = existsSync(`${path}-wal`) ? null : readIndex(`${path}-shm`);
  if (again === null || !again.equals(index)) return null;
  const missing = unsavedFrames(index);
  return missing === 0
    ? null
    : `its write-ahead log ${path}-wal is gone, and with it ${missing} pages that were committed and not yet in the file`;
}

function readIndex(path: string): Buffer | null {
  try {
    const bytes = readFileSync(path).subarray(0, CHECKPOINTED_AT + 4);
    return bytes.length === CHECKPOINTED_AT + 4 ? bytes : null;
  } catch {
    return null;
  }
}

function unsavedFrames(index: Buffer): number {
  const header = index.subarray(0, HEADER_BYTES);
  const isWhole = header[INITIALIZED_AT] === 1 && header.equals(index.subarray(HEADER_BYTES, CHECKPOINTED_AT));
  if (!isWhole) return 0;
  return Math.max(0, wordAt(index, FRAMES_AT) - wordAt(index, CHECKPOINTED_AT));
}

function wordAt(bytes: Buffer, at: number): number {
  return endianness() === "LE" ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
}
