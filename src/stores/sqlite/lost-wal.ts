/**
 * A write-ahead log that was deleted or shortened after its program was killed: SQLite opens the file with the frames that
 * are left, and the later commits are absent. The log's index (`-shm`) still records how many frames there were, the
 * checksum of the last one, and how many are in the file already. A writer syncs its frames before it counts them there,
 * and sets the count to zero before it cuts the log or begins it anew. So an index that counts frames which are neither
 * in the file nor in the log proves the loss. Where the index was deleted too, nothing does.
 *
 * After a power loss the index may be older than the log, because it is never synced: one from before the machine was
 * started proves nothing about a log that is there. (A missing log is judged: SQLite removes the index before the log.)
 */
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { endianness, uptime } from "node:os";
import { identityFrom } from "../file/identity.ts";

// SQLite's wal-index: its header twice, then how far checkpoints have come, in the byte order of the host.
const HEADER_BYTES = 48;
const INITIALIZED_AT = 12;
const PAGE_SIZE_AT = 14;
const FRAMES_AT = 16;
const CHECKSUM_AT = 24;
const SALTS_AT = 32;
const CHECKPOINTED_AT = 2 * HEADER_BYTES;
const INDEX_BYTES = CHECKPOINTED_AT + 4;

// The log: a header, then frames of a header and a page each, in big-endian order.
const LOG_HEADER_BYTES = 32;
const LOG_SALTS_AT = 16;
const FRAME_HEADER_BYTES = 24;
const FRAME_SALTS_AT = 8;
const FRAME_CHECKSUM_AT = 16;
const SALTS_BYTES = 8;

interface Index {
  readonly bytes: Buffer;
  /** In milliseconds since 1970. */
  readonly writtenAt: number;
}

/** What is wrong, or null. The path is the file's own, without symbolic links. `bootedAt`: when the machine was started. */
export function lostWal(path: string, bootedAt = Date.now() - uptime() * 1000): string | null {
  const before = readIndex(`${path}-shm`);
  if (before === null || unsavedFrames(before.bytes) === 0) return null;
  const log = judgeLog(`${path}-wal`, before.bytes);
  // Another program may write, checkpoint or close at this moment. The index changes before the log is cut or removed.
  const after = readIndex(`${path}-shm`);
  if (log === "whole" || after === null || !after.bytes.equals(before.bytes)) return null;
  if (log === "missing") {
    return `its write-ahead log ${path}-wal is gone, and with it ${unsavedFrames(before.bytes)} pages that were committed and not yet in the file`;
  }
  if (before.writtenAt < bootedAt) return null;
  return `its write-ahead log ${path}-wal is shorter than what was committed, and the rest is not in the file yet. Restore the log. To go on without them, remove ${path}-shm: what the lost commits recorded may then run again`;
}

function judgeLog(path: string, index: Buffer): "whole" | "missing" | "short" {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "missing" : "whole";
  }
  try {
    const header = read(file, 0, LOG_HEADER_BYTES);
    if (header.length < LOG_HEADER_BYTES) return "short";
    const salts = index.subarray(SALTS_AT, SALTS_AT + SALTS_BYTES);
    // Another round of the log than the one that the index counted: a connection without this index has written it.
    if (!header.subarray(LOG_SALTS_AT, LOG_SALTS_AT + SALTS_BYTES).equals(salts)) return "whole";
    return hasLastFrame(file, index, salts) ? "whole" : "short";
  } catch {
    // SQLite meets the same error, and reports it.
    return "whole";
  } finally {
    // SQLite keeps no locks on the log.
    closeSync(file);
  }
}

/** Each frame's checksum goes on from the one before it: the last one is right only behind all others. */
function hasLastFrame(file: number, index: Buffer, salts: Buffer): boolean {
  const pageSize = pageSizeOf(index);
  const at = LOG_HEADER_BYTES + (wordAt(index, FRAMES_AT) - 1) * (FRAME_HEADER_BYTES + pageSize);
  if (fstatSync(file).size < at + FRAME_HEADER_BYTES + pageSize) return false;
  const frame = read(file, at, FRAME_HEADER_BYTES);
  return (
    frame.subarray(FRAME_SALTS_AT, FRAME_SALTS_AT + SALTS_BYTES).equals(salts) &&
    frame.readUInt32BE(FRAME_CHECKSUM_AT) === wordAt(index, CHECKSUM_AT) &&
    frame.readUInt32BE(FRAME_CHECKSUM_AT + 4) === wordAt(index, CHECKSUM_AT + 4)
  );
}

/** By path. One entry for each ledger of this process. */
const held = new Map<string, { readonly inode: string; readonly file: number }>();

function readIndex(path: string): Index | null {
  try {
    const file = openIndex(path);
    const bytes = read(file, 0, INDEX_BYTES);
    const { mtimeMs } = fstatSync(file);
    if (process.platform === "win32") closeSync(file);
    return bytes.length === INDEX_BYTES ? { bytes, writtenAt: mtimeMs } : null;
  } catch {
    return null;
  }
}

/**
 * It stays open: closing it would drop the locks that SQLite connections of this process have on it, the program's own
 * connections too. Only Windows has locks that belong to a handle, and there an open file could not be removed.
 */
function openIndex(path: string): number {
  if (process.platform === "win32") return openSync(path, "r");
  const { inode } = identityFrom(statSync(path, { bigint: true }));
  const known = held.get(path);
  if (known?.inode === inode) return known.file;
  const file = openSync(path, "r");
  held.set(path, { inode: identityFrom(fstatSync(file, { bigint: true })).inode, file });
  // Of an index that was removed since: nobody locks that one any more.
  if (known !== undefined) closeSync(known.file);
  return file;
}

function unsavedFrames(index: Buffer): number {
  const header = index.subarray(0, HEADER_BYTES);
  const isWhole = header[INITIALIZED_AT] === 1 && header.equals(index.subarray(HEADER_BYTES, CHECKPOINTED_AT));
  if (!isWhole) return 0;
  return Math.max(0, wordAt(index, FRAMES_AT) - wordAt(index, CHECKPOINTED_AT));
}

/** 65 536 does not fit its 16 bits, and is written as 1. */
function pageSizeOf(index: Buffer): number {
  const size = endianness() === "LE" ? index.readUInt16LE(PAGE_SIZE_AT) : index.readUInt16BE(PAGE_SIZE_AT);
  return size === 1 ? 65_536 : size;
}

function wordAt(bytes: Buffer, at: number): number {
  return endianness() === "LE" ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
}

/** As much of the range as the file has. */
function read(file: number, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(file, bytes, 0, length, at));
}
