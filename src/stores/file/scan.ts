/**
 * Reading the JSONL ledger's lines in order, and telling a write that was cut short from damage. A commit is synced
 * before the next one begins, so only the last commit can be torn: a bad line with a later commit behind it was once
 * whole on the disk.
 */
import { setImmediate } from "../../engine/real-timers.ts";
import type { Disk } from "./disk.ts";
import { type Change, decodeChange, isIntact, lineEnd, type Span } from "./line.ts";
import { withBitFlippedBack } from "./repair.ts";

export interface ScanOptions {
  readonly disk: Disk;
  readonly file: number;
  readonly from: number;
  readonly to: number;
  /** The rev of the line before `from`. */
  readonly lastRev: number;
  /** So many lines from `from` on were written by a compaction: their revs have gaps, and none of them can be torn. */
  readonly compacted: number;
  /** The rev that appended lines go on from. */
  readonly compactedRev: number;
  /** Stop behind this rev: what is not acknowledged yet is nobody's business. */
  readonly upTo: number;
  readonly apply: (change: Change, at: number, length: number) => void;
}

export interface Scanned {
  /** Behind the last good line. */
  readonly end: number;
  readonly lastRev: number;
  readonly lines: number;
  /** Bytes behind `end`: torn, or beyond `upTo`. */
  readonly left: "nothing" | "beyond" | "torn";
  /** Lines with one flipped bit. Whose they are is known: that record is damaged, and the others are not. */
  readonly flipped: number;
  /** What is wrong where no crash can have made it so. */
  readonly damage: string | null;
}

const CHUNK_BYTES = 4 * 1024 * 1024;

export async function scanLines(options: ScanOptions): Promise<Scanned> {
  const { disk, file, from, to } = options;
  const scan = new Scan(options);
  let carry = Buffer.alloc(0);
  for (let at = from; at < to; ) {
    if (at > from) await breathe();
    const chunk = disk.read(file, at, Math.min(CHUNK_BYTES, to - at));
    if (chunk.length === 0) break;
    const bytes = carry.length === 0 ? chunk : Buffer.concat([carry, chunk]);
    const start = at - carry.length;
    at += chunk.length;
    const used = scan.take(bytes, start);
    if (scan.over) return scan.result("beyond");
    carry = Buffer.from(bytes.subarray(used));
  }
  return scan.finish(carry.length);
}

class Scan {
  readonly #options: ScanOptions;
  #end: number;
  #lastRev: number;
  #lines = 0;
  #badAt: number | null = null;
  #flipped = 0;
  #damage: string | null = null;
  over = false;

  constructor(options: ScanOptions) {
    this.#options = options;
    this.#end = options.from;
    this.#lastRev = options.lastRev;
  }

  /** How many bytes were whole lines. */
  take(bytes: Buffer, start: number): number {
    let used = 0;
    while (!this.over && this.#damage === null) {
      const end = lineEnd(bytes, used);
      if (end === -1) break;
      this.#line({ bytes, from: used, to: end }, start + used);
      used = end + 1;
    }
    return this.#damage === null ? used : bytes.length;
  }

  finish(incomplete: number): Scanned {
    if (this.#damage === null && incomplete > 0 && this.#lines < this.#options.compacted) {
      this.#damage = `its compacted part ends in the middle of a line, at byte ${this.#end}`;
    }
    if (this.#damage === null && this.#badAt === null && incomplete === 0 && this.#lines < this.#options.compacted) {
      this.#damage = `${this.#options.compacted - this.#lines} lines of its compacted part are missing`;
    }
    return this.result(incomplete > 0 || this.#badAt !== null ? "torn" : "nothing");
  }

  result(left: Scanned["left"]): Scanned {
    return {
      end: this.#end,
      lastRev: this.#lastRev,
      lines: this.#lines,
      left,
      flipped: this.#flipped,
      damage: this.#damage,
    };
  }

  #line(line: Span, at: number): void {
    const change = isIntact(line) ? decodeChange(line) : this.#changeOfFlipped(line);
    if (change === null) this.#bad(at);
    else if (this.#badAt !== null) this.#behindBad(change, at);
    else this.#good(change, at, line.to - line.from);
  }

  /** Only of a record's line: that records are gone is not believed on the word of a line that was changed. */
  #changeOfFlipped(line: Span): Change | null {
    const written = withBitFlippedBack(line);
    const change = written === null ? null : decodeChange(written);
    if (change?.kind !== "put") return null;
    this.#flipped += 1;
    return change;
  }

  #bad(at: number): void {
    if (this.#lines < this.#options.compacted) this.#damage = `a line at byte ${at} does not match its checksum`;
    this.#badAt ??= at;
  }

  /** Of the commit that was torn, or of a later one: then the bad line was synced once. */
  #behindBad(change: Change, at: number): void {
    if (change.commit > this.#lastRev + 1)
      this.#damage = `the line at byte ${this.#badAt} does not match its checksum, and there are later ones (byte ${at})`;
  }

  #good(change: Change, at: number, length: number): void {
    const { compacted, compactedRev, upTo, apply } = this.#options;
    const inCompacted = this.#lines < compacted;
    const follows = inCompacted
      ? change.rev > this.#lastRev && change.rev <= compactedRev
      : change.rev === this.#lastRev + 1;
    if (!follows) {
      this.#damage = `the line at byte ${at} is number ${change.rev}, and the one before it is ${this.#lastRev}: lines are missing or out of order`;
      return;
    }
    // What a compaction wrote was synced before anybody could see it, whatever the mark has come to say.
    if (!inCompacted && change.rev > upTo) {
      this.over = true;
      return;
    }
    apply(change, at, length);
    this.#lines += 1;
    this.#end = at + length + 1;
    this.#lastRev = this.#lines === compacted ? compactedRev : change.rev;
  }
}

function breathe(): Promise<void> {
  return new Promise((done) => setImmediate(done));
}
