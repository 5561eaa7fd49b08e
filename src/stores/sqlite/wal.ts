/**
 * A write-ahead log that was damaged after it was written. SQLite takes the first frame with a wrong checksum for the
 * end of the log, so the commits behind it would read as absent. A write that was cut short looks the same, with one
 * difference: every frame's checksum goes on from the frame before it, and a writer goes on only from a commit that is
 * finished. So a commit frame behind the bad one, with a frame that goes on from it, proves that acknowledged commits
 * are being dropped. What a killed writer or an earlier round of the log left behind never has that.
 */
import { closeSync, fstatSync, openSync, readSync, realpathSync } from "node:fs";
import { endianness } from "node:os";

interface Log {
  readonly file: number;
  readonly size: number;
  readonly header: Buffer;
}

interface Shape {
  readonly pageSize: number;
  readonly bigEndian: boolean;
}

interface Sums {
  readonly one: number;
  readonly two: number;
}

interface Frame {
  readonly number: number;
  /** Where the frame begins in `bytes`, which the next chunk overwrites. */
  readonly at: number;
  readonly bytes: Buffer;
  readonly page: number;
  /** The size of the database after this commit; 0: not the last frame of its transaction. */
  readonly commit: number;
  readonly salts: string;
  readonly sums: Sums;
}

/** What the next frame is held against, once the frame itself is overwritten. */
interface Before {
  readonly commits: boolean;
  readonly salts: string;
  /** The checksums that the next frame may go on from: as stored, and as they should have been. */
  readonly seeds: readonly Sums[];
}

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const SUMMED_HEADER_BYTES = 8;
const MAGIC_LITTLE = 0x377f0682;
const MAGIC_BIG = 0x377f0683;
const PAGE_SIZES = [2048, 4096, 512, 1024, 8192, 16_384, 32_768, 65_536];
const CHUNK_BYTES = 512 * 1024;
// Checkpoints keep the log at a few MiB; one that grew beyond this would hold up the start.
const LARGEST_BYTES = 256 * 1024 * 1024;
const LOOKS = 4;
const NO_SUMS: Sums = { one: 0, two: 0 };
const HOST_IS_BIG = endianness() === "BE";

/** What is wrong with the log of the ledger `path`, or null. Opens the log only: closing that drops no lock of SQLite's. */
export function walDamage(path: string): string | null {
  let file: number;
  try {
    // SQLite keeps the log beside the file itself, not beside a link to it.
    file = openSync(`${realpathSync(path)}-wal`, "r");
  } catch {
    // Not there, just gone, or unreadable: SQLite meets the same, and says so.
    return null;
  }
  try {
    // Another process may be writing: what it had half written at the first look is whole at the second, because it
    // went on from there. Damage stays where it is.
    let last = look(file);
    for (let looks = 1; last !== null && looks < LOOKS; looks += 1) {
      const again = look(file);
      if (again === last) return last === "" ? null : last;
      last = again;
    }
    return null;
  } catch {
    return null;
  } finally {
    closeSync(file);
  }
}

/** Null: nothing wrong. Empty: the log was begun anew meanwhile, and this look says nothing. */
function look(file: number): string | null {
  const { size } = fstatSync(file);
  if (size <= HEADER_BYTES || size > LARGEST_BYTES) return null;
  const header = readHeader(file);
  const log: Log = { file, size, header };
  const shape = shapeOf(header);
  const found = shape === null ? damagedHeader(log) : damagedFrame(log, shape);
  // A new round of the log begins with its header.
  return found !== null && !readHeader(file).equals(header) ? "" : found;
}

function readHeader(file: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  readSync(file, header, 0, HEADER_BYTES, 0);
  return header;
}

/** Null: the header is not one, or its checksum is wrong. */
function shapeOf(header: Buffer): Shape | null {
  const magic = header.readUInt32BE(0);
  const pageSize = header.readUInt32BE(8);
  if ((magic !== MAGIC_LITTLE && magic !== MAGIC_BIG) || !PAGE_SIZES.includes(pageSize)) return null;
  const bigEndian = magic === MAGIC_BIG;
  const sums = summed(NO_SUMS, header, 0, HEADER_BYTES - 8, bigEndian);
  return same(sums, sumsAt(header, HEADER_BYTES - 8)) ? { pageSize, bigEndian } : null;
}

function damagedFrame(log: Log, shape: Shape): string | null {
  const salts = log.header.toString("latin1", 16, 24);
  let sums = sumsAt(log.header, HEADER_BYTES - 8);
  let bad = 0;
  let before: Before | null = null;
  for (const frame of framesOf(log, shape.pageSize)) {
    if (bad === 0) {
      const expected = sumsOf(frame, sums, shape);
      if (frame.salts === salts && frame.page !== 0 && same(expected, frame.sums)) {
        sums = expected;
        continue;
      }
      bad = frame.number;
      const commits = frame.commit !== 0 || (frame.salts === salts && lostItsCommit(frame, sums, shape));
      before = { commits, salts: frame.salts, seeds: [frame.sums, expected] };
      continue;
    }
    // Frames of an earlier round go on from each other too, with salts of their own.
    const current = frame.salts === salts || before?.salts === salts;
    if (before !== null && current && goesOn(frame, before, shape)) {
      return `its write-ahead log is damaged: frame ${bad} is not what was written, and finished commits follow it`;
    }
    before = { commits: frame.commit !== 0, salts: frame.salts, seeds: [frame.sums] };
  }
  return null;
}

/** Without the header nothing is known but that frames go on from each other, if they do. */
function damagedHeader(log: Log): string | null {
  for (const pageSize of PAGE_SIZES) {
    let before = null as Before | null;
    for (const frame of framesOf(log, pageSize)) {
      if (before?.salts === frame.salts) {
        for (const bigEndian of [false, true]) {
          if (goesOn(frame, before, { pageSize, bigEndian })) {
            return "its write-ahead log is damaged: the header is not what was written, and finished commits follow it";
          }
        }
      }
      before = { commits: frame.commit !== 0, salts: frame.salts, seeds: [frame.sums] };
    }
  }
  return null;
}

function goesOn(frame: Frame, before: Before, shape: Shape): boolean {
  return before.commits && before.seeds.some((seed) => same(sumsOf(frame, seed, shape), frame.sums));
}

/** One flipped bit can take the mark of a commit away: 16 pages become none. The checksum still remembers. */
function lostItsCommit(frame: Frame, seed: Sums, shape: Shape): boolean {
  const { bytes, at } = frame;
  const field = at + 4;
  const kept = bytes.readUInt32BE(field);
  let found = false;
  for (let bit = 0; bit < 32 && !found; bit += 1) {
    bytes.writeUInt32BE((1 << bit) >>> 0, field);
    found = same(sumsOf(frame, seed, shape), frame.sums);
  }
  bytes.writeUInt32BE(kept, field);
  return found;
}

function* framesOf({ file, size }: Log, pageSize: number): Generator<Frame> {
  const frameBytes = FRAME_HEADER_BYTES + pageSize;
  const bytes = Buffer.from(new ArrayBuffer(Math.max(1, Math.floor(CHUNK_BYTES / frameBytes)) * frameBytes));
  let number = 1;
  for (let position = HEADER_BYTES; position + frameBytes <= size; position += bytes.length) {
    const whole = Math.floor(readSync(file, bytes, 0, bytes.length, position) / frameBytes) * frameBytes;
    for (let at = 0; at < whole; at += frameBytes) {
      yield {
        number,
        at,
        bytes,
        page: bytes.readUInt32BE(at),
        commit: bytes.readUInt32BE(at + 4),
        salts: bytes.toString("latin1", at + 8, at + 16),
        sums: sumsAt(bytes, at + 16),
      };
      number += 1;
    }
    if (whole < bytes.length) return;
  }
}

// ---- SQLite's checksum: of the frame's page number, its commit mark and its page; not of its salts ----

function sumsOf({ bytes, at }: Frame, seed: Sums, { pageSize, bigEndian }: Shape): Sums {
  const head = summed(seed, bytes, at, SUMMED_HEADER_BYTES, bigEndian);
  return summed(head, bytes, at + FRAME_HEADER_BYTES, pageSize, bigEndian);
}

function summed(seed: Sums, bytes: Buffer, from: number, length: number, bigEndian: boolean): Sums {
  let { one, two } = seed;
  if (bigEndian === HOST_IS_BIG && (bytes.byteOffset + from) % 4 === 0) {
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset + from, length / 4);
    for (let i = 0; i < words.length; i += 2) {
      one = (one + (words[i] as number) + two) | 0;
      two = (two + (words[i + 1] as number) + one) | 0;
    }
    return { one, two };
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset + from, length);
  for (let i = 0; i < length; i += 8) {
    one = (one + view.getUint32(i, !bigEndian) + two) | 0;
    two = (two + view.getUint32(i + 4, !bigEndian) + one) | 0;
  }
  return { one, two };
}

function sumsAt(bytes: Buffer, at: number): Sums {
  return { one: bytes.readInt32BE(at), two: bytes.readInt32BE(at + 4) };
}

function same(a: Sums, b: Sums): boolean {
  return a.one === b.one && a.two === b.two;
}
