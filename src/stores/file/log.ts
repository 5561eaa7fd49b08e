/**
 * The JSONL ledger's file: kept up to date with what others append, appended to, repaired and compacted under the lock.
 *
 * Who holds no lock reads only what is acknowledged (up to the mark); who holds it also takes over what a dead writer
 * left behind, after syncing it, and cuts off what that writer did not finish.
 */
import { randomUUID } from "node:crypto";
import { basename, dirname } from "node:path";
import { damagedRecord } from "../../core/damaged-record.ts";
import { isNevertwiceError, messageOf, NevertwiceError } from "../../core/errors.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { Stored } from "../../core/store.ts";
import { setImmediate } from "../../engine/real-timers.ts";
import type { Disk, FileFacts } from "./disk.ts";
import { type Entry, FileIndex } from "./entries.ts";
import {
  cutShort,
  damaged,
  gone,
  isNoRoom,
  ledElsewhere,
  newerFormat,
  noRoomToCompact,
  notALedger,
  replaced,
  unusable,
} from "./errors.ts";
import { otherScheme, refuseHardLinks, schemeOf } from "./identity.ts";
import {
  type Change,
  decodeChange,
  decodeHeader,
  decodeRecord,
  encodeGone,
  encodeHeader,
  encodePut,
  FORMAT,
  type Header,
  isIntact,
  lineEnd,
  type Span,
} from "./line.ts";
import { createMark, MarkFile, removeQuietly, replaceFile, writeWhole } from "./mark.ts";
import { withBitFlippedBack } from "./repair.ts";
import { type Scanned, scanLines } from "./scan.ts";

export type Addition = { readonly put: LedgerRecord } | { readonly gone: readonly string[] };

interface Opened {
  readonly file: number;
  readonly identity: string;
  readonly id: string;
  readonly index: FileIndex;
  end: number;
  lastRev: number;
  /** Lines in the file, live or not. */
  lines: number;
}

const HEADER_BYTES = 4096;
// What a writer left unfinished is kept for whoever wants to look at it, up to here.
const TORN_BYTES = 1024 * 1024;
const COPY_BYTES = 1024 * 1024;
const NEWLINE = Buffer.of(10);
// Compaction leaves at least this much of the disk to the calls.
const ROOM_TO_SPARE_BYTES = 256 * 1024;

export class FileLog {
  /** Without symbolic links: everything that belongs to the ledger lies beside this path. */
  readonly path: string;
  readonly #given: string;
  readonly #disk: Disk;
  #opened: Opened | null = null;
  #mark: MarkFile | null = null;
  /** The file whose name is surely on the disk. */
  #settledIdentity = "";

  constructor(given: string, disk: Disk) {
    this.#given = given;
    this.path = disk.realPath(given);
    this.#disk = disk;
  }

  get index(): FileIndex {
    return this.#open.index;
  }

  get lines(): number {
    return this.#open.lines;
  }

  get bytes(): number {
    return this.#open.end;
  }

  get #open(): Opened {
    if (this.#opened === null) throw new NevertwiceError("STORE_UNAVAILABLE", `the ledger ${this.path} is not open.`);
    return this.#opened;
  }

  get #idPath(): string {
    return `${this.path}.id`;
  }

  get #folder(): string {
    return dirname(this.path);
  }

  /** Reads what was acknowledged since the last look. False: that cannot be told without the lock. */
  async refresh(): Promise<boolean> {
    return this.#guarded(async () => {
      // The mark before the size: what it promises must be in the file by then.
      const mark = this.#readMark();
      // An older mark than what was read under it: the id file was put back from a copy, and the mark tells nothing.
      if (mark === null || mark.synced < (this.#opened?.lastRev ?? 0)) return false;
      const facts = this.#facts();
      if (facts === null || facts.size === 0) return false;
      const scanned = await this.#scan(facts, mark.synced);
      if (mark.ledger !== this.#open.id) return false;
      if (scanned === null) return true;
      if (scanned.damage !== null) return false;
      // Only a fresh look at the whole file must know what lies beyond: a power loss may have taken the mark back.
      return this.#open.lastRev >= mark.synced && !(scanned.whole && scanned.left !== "nothing");
    });
  }

  /** The same for who holds the lock: makes the ledger where there is none, and puts its end in order. */
  async refreshLocked(): Promise<void> {
    await this.#guarded(async () => {
      await this.#makeIfNew();
      const mark = this.#readMark();
      const facts = this.#facts();
      if (facts === null) throw gone(this.path, "is gone");
      const scanned = await this.#scan(facts, Number.MAX_SAFE_INTEGER);
      if (scanned?.damage) throw damaged(this.path, scanned.damage);
      const open = this.#open;
      if (mark !== null && mark.ledger !== open.id) throw replaced(this.path);
      if (open.lastRev < (mark?.synced ?? 0)) throw cutShort(this.path, open.lastRev, mark?.synced ?? 0);
      this.#settleName(open);
      if (scanned?.left === "torn") await this.#cutTorn(facts.size);
      if (mark === null || open.lastRev > mark.synced) await this.#takeOver();
    });
  }

  /** Under the lock, and fresh. On the disk when it resolves; the versions of the puts, in order. */
  async append(additions: readonly Addition[]): Promise<number[]> {
    const open = this.#open;
    const commit = open.lastRev + 1;
    const lines = additions.map((addition, i) => encodeAddition(addition, commit + i, commit));
    await this.#guarded(async () => {
      const bytes = Buffer.from(lines.join(""));
      await this.#appendBytes(open, bytes).catch((error) => {
        // A compaction that was killed may have left the file behind that fills the disk.
        if (!isNoRoom(error) || !this.#removeLeftovers()) throw error;
        return this.#appendBytes(open, bytes);
      });
      // Before the lines are ours: were it to fail, whoever comes next takes them over.
      this.#mark?.write({ ledger: open.id, synced: commit + lines.length - 1 });
    });
    for (const line of lines) this.#accept(Buffer.from(line.slice(0, -1)));
    return additions.map((_, i) => commit + i);
  }

  stored(entry: Entry): Stored {
    return { record: decodeRecord(spanOf(this.#line(entry))), version: entry.version };
  }

  async writeAside(path: string, bytes: Buffer): Promise<void> {
    await this.#guarded(() => writeWhole(this.#disk, path, this.#folder, bytes));
  }

  /** The bytes of a record's line, whatever they are now. */
  bytesOf(entry: Entry): Buffer {
    return this.#disk.read(this.#open.file, entry.at, entry.length);
  }

  /**
   * Live lines only, in a new file that takes the old one's name. Under the lock, and fresh. It resolves once the folder is
   * synced: nothing may be acknowledged in the new file while a power loss could bring the old one back.
   */
  async compact(): Promise<void> {
    await this.#guarded(async () => {
      const open = this.#open;
      const check = () => this.#requireReplaceable(open);
      check();
      this.#requireRoom(open);
      const fill = (file: number) => this.#copyLive(file);
      await replaceFile(this.#disk, { path: this.path, folder: this.#folder, beside: this.path, fill, check });
      const facts = this.#facts();
      if (facts === null) throw gone(this.path, "is gone");
      await this.#scan(facts, open.lastRev);
      this.#settledIdentity = facts.identity;
    });
  }

  /** Every line of the file; null: all is well. */
  async check(): Promise<string | null> {
    return this.#guarded(async () => {
      const open = this.#open;
      const { header, from } = this.#header(open.file);
      const found = await scanLines({ ...this.#scanFrom(open.file, header, from), to: open.end, apply: () => {} });
      if (found.damage !== null) return found.damage;
      if (found.end !== open.end) return `line ${found.lines + 1} does not match its checksum`;
      return found.flipped === 0 ? null : `a bit is flipped in ${found.flipped} of its lines; the others can be read`;
    });
  }

  close(): void {
    if (this.#opened !== null) this.#disk.close(this.#opened.file);
    this.#opened = null;
    this.#closeMark();
  }

  #closeMark(): void {
    this.#mark?.close();
    this.#mark = null;
  }

  // ---- opening ----

  /** The file under the ledger's name; null: there is none. The path that was given must still lead to it. */
  #facts(): FileFacts | null {
    const facts = this.#disk.facts(this.path);
    const leadsHere = this.#given === this.path || this.#disk.realPath(this.#given) === this.path;
    if (!leadsHere || facts?.isLink) throw ledElsewhere(this.#given, this.path);
    return facts;
  }

  /**
   * What a process left behind that was killed while it wrote. Only who holds the lock writes these files, so under the
   * lock nobody does. True: something was removed.
   */
  #removeLeftovers(): boolean {
    const left = [`${this.path}.new`, `${this.#idPath}.new`].filter((path) => this.#isLeftover(path));
    for (const path of left) removeQuietly(this.#disk, path);
    return left.length > 0;
  }

  /** It names this ledger, or its bytes never reached the disk. Another file under that name is left alone. */
  #isLeftover(path: string): boolean {
    if (!this.#disk.exists(path)) return false;
    try {
      const file = this.#disk.open(path, "open");
      const start = this.#disk.read(file, 0, HEADER_BYTES);
      this.#disk.close(file);
      return start.every((byte) => byte === 0) || start.includes(`"${this.#open.id}"`);
    } catch {
      return false;
    }
  }

  async #makeIfNew(): Promise<void> {
    const facts = this.#facts();
    const known = this.#opened !== null || this.#disk.exists(this.#idPath);
    if (facts === null || facts.size === 0) {
      if (known) throw gone(this.path, facts === null ? "is gone" : "is empty");
      this.#disk.makeFolder(this.#folder);
      const header: Header = { nevertwice: "ledger", format: FORMAT, id: randomUUID(), compacted: 0, rev: 0 };
      await writeWhole(this.#disk, this.path, this.#folder, Buffer.from(encodeHeader(header)));
    }
  }

  /** The mark that is at its path now: others write there, also after the id file was removed and made again. */
  #readMark() {
    if (this.#mark?.isCurrent === false) this.#closeMark();
    if (this.#mark === null) {
      if (!this.#disk.exists(this.#idPath)) return null;
      this.#mark = new MarkFile(this.#disk, this.#idPath);
    }
    return this.#mark.read();
  }

  /** Null: there is nothing new. */
  async #scan(
    facts: { readonly identity: string; readonly size: number },
    upTo: number,
  ): Promise<(Scanned & { whole: boolean }) | null> {
    const open = this.#opened;
    if (open === null || facts.identity !== open.identity) return this.#scanWhole(upTo);
    if (facts.size < open.end) throw cutShort(this.path, facts.size, open.end);
    if (facts.size === open.end || open.lastRev >= upTo) return null;
    const apply = (change: Change, at: number, length: number) => open.index.apply(change, at, length);
    const { file, end, lastRev } = open;
    const range = { disk: this.#disk, file, from: end, to: facts.size, lastRev, upTo, compacted: 0, compactedRev: 0 };
    const scanned = await scanLines({ ...range, apply });
    open.end = scanned.end;
    open.lastRev = scanned.lastRev;
    open.lines += scanned.lines;
    return { ...scanned, whole: false };
  }

  async #scanWhole(upTo: number): Promise<Scanned & { whole: boolean }> {
    const file = this.#disk.open(this.path, "open");
    try {
      const { identity, size, links } = this.#disk.factsOf(file);
      refuseHardLinks(this.path, links);
      const { header, from } = this.#header(file);
      const before = this.#opened;
      if (before !== null && before.id !== header.id) throw replaced(this.path);
      const index = new FileIndex();
      const apply = (change: Change, at: number, length: number) => index.apply(change, at, length);
      const scanned = await scanLines({ ...this.#scanFrom(file, header, from), to: size, upTo, apply });
      if (scanned.damage !== null) throw damaged(this.path, scanned.damage);
      if (before !== null && scanned.lastRev < before.lastRev)
        throw cutShort(this.path, scanned.lastRev, before.lastRev);
      index.loaded();
      const { end, lastRev, lines } = scanned;
      this.#opened = { file, identity, id: header.id, index, end, lastRev, lines };
      if (before !== null) this.#disk.close(before.file);
      return { ...scanned, whole: true };
    } catch (error) {
      this.#disk.close(file);
      throw error;
    }
  }

  #scanFrom(file: number, header: Header, from: number) {
    return {
      disk: this.#disk,
      file,
      from,
      upTo: Number.MAX_SAFE_INTEGER,
      lastRev: header.compacted > 0 ? 0 : header.rev,
      compacted: header.compacted,
      compactedRev: header.rev,
    };
  }

  #header(file: number): { header: Header; from: number } {
    const bytes = this.#disk.read(file, 0, HEADER_BYTES);
    const end = lineEnd(bytes, 0);
    const line = { bytes, from: 0, to: Math.max(0, end) };
    if (schemeOf(bytes) === "sqlite") throw otherScheme(this.path, "sqlite");
    if (end === -1 || !isIntact(line)) {
      if (bytes.toString("utf8", 0, 200).startsWith('{"nevertwice":"ledger"'))
        throw damaged(this.path, "its first line does not match its checksum");
      throw this.#disk.exists(this.#idPath) ? damaged(this.path, "its first line is gone") : notALedger(this.path);
    }
    const header = decodeHeader(line);
    if (header === null) throw notALedger(this.path);
    if (header.format > FORMAT) throw newerFormat(this.path, header.format, FORMAT);
    return { header, from: end + 1 };
  }

  // ---- putting things in order, under the lock ----

  /** A compaction may have ended before its rename was synced, or before it removed what it wrote. */
  #settleName({ identity }: Opened): void {
    if (this.#settledIdentity === identity) return;
    this.#removeLeftovers();
    this.#disk.syncFolder(this.#folder);
    this.#settledIdentity = identity;
  }

  /** F14: what a dead writer did not finish was never acknowledged. It is set aside, then cut off. */
  async #cutTorn(size: number): Promise<void> {
    const open = this.#open;
    const torn = this.#disk.read(open.file, open.end, Math.min(TORN_BYTES, size - open.end));
    await writeWhole(this.#disk, `${this.path}.torn`, this.#folder, torn, this.path).catch((error) => {
      // On a full disk the ledger matters more than a copy of what was never acknowledged.
      if (!isNoRoom(error)) throw error;
    });
    this.#disk.truncate(open.file, open.end);
    // Durable before the next commit is written over it.
    await this.#disk.sync(open.file);
  }

  /**
   * Lines whose writer died before it could say that they are synced: now they are. Where there is no id file, it is made
   * here: after the ledger (an id without a ledger means that one was lost), and with the right number from the start,
   * because others read it at once.
   */
  async #takeOver(): Promise<void> {
    const open = this.#open;
    await this.#disk.sync(open.file);
    const mark = { ledger: open.id, synced: open.lastRev };
    if (!this.#disk.exists(this.#idPath)) await createMark(this.#disk, this.#idPath, this.path, this.#folder, mark);
    this.#mark ??= new MarkFile(this.#disk, this.#idPath);
    this.#mark.write(mark);
  }

  async #appendBytes(open: Opened, bytes: Buffer): Promise<void> {
    try {
      this.#disk.write(open.file, open.end, bytes);
      await this.#disk.sync(open.file);
    } catch (error) {
      this.#takeBack(open);
      throw error;
    }
  }

  /** A commit that failed half way. If even this fails, the lines are found by whoever comes next, as if we had died. */
  #takeBack(open: Opened): void {
    try {
      this.#disk.truncate(open.file, open.end);
    } catch {
      // Nothing was acknowledged.
    }
  }

  #accept(line: Buffer): void {
    const open = this.#open;
    const change = decodeChange(spanOf(line));
    open.index.apply(change, open.end, line.length);
    open.end += line.length + 1;
    open.lastRev = change.rev;
    open.lines += 1;
  }

  // ---- lines ----

  #line(entry: Entry): Buffer {
    const line = this.#disk.read(this.#open.file, entry.at, entry.length);
    if (line.length === entry.length && isIntact(spanOf(line))) return line;
    throw damagedRecord({ key: entry.record.key, where: this.path, what: "its line does not match its checksum" });
  }

  // ---- compaction ----

  /** The rename must replace the file that was copied, and leave no second name behind that still leads to it. */
  #requireReplaceable(open: Opened): void {
    const facts = this.#facts();
    if (facts === null) throw gone(this.path, "is gone");
    if (facts.identity !== open.identity) throw replaced(this.path);
    refuseHardLinks(this.path, facts.links);
  }

  /** Asked first: copying until the disk is full would fail the writes of other programs meanwhile. */
  #requireRoom({ index }: Opened): void {
    let needed = HEADER_BYTES;
    for (const entry of index.all()) needed += entry.length + 1;
    const free = this.#disk.freeBytes(this.#folder);
    if (free !== null && free < needed + ROOM_TO_SPARE_BYTES) throw noRoomToCompact(this.path, needed, free);
  }

  /** Byte for byte, checksums checked. A damaged line is carried over where it will be known for whose it is. */
  async #copyLive(file: number): Promise<void> {
    const { index, id, lastRev } = this.#open;
    const live = [...index.all()].sort((a, b) => a.at - b.at);
    const header: Header = { nevertwice: "ledger", format: FORMAT, id, compacted: live.length, rev: lastRev };
    let pending: Buffer[] = [Buffer.from(encodeHeader(header))];
    let bytes = 0;
    let at = 0;
    const flush = () => {
      const block = Buffer.concat(pending);
      this.#disk.write(file, at, block);
      at += block.length;
      pending = [];
      bytes = 0;
    };
    for (const entry of live) {
      const line = this.bytesOf(entry);
      const known = isIntact(spanOf(line)) || withBitFlippedBack(spanOf(line)) !== null;
      pending.push(known ? line : this.#line(entry), NEWLINE);
      bytes += entry.length + 1;
      if (bytes < COPY_BYTES) continue;
      flush();
      await new Promise((done) => setImmediate(done));
    }
    flush();
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw isNevertwiceError(error)
        ? error
        : unusable(this.path, `${messageOf(error)} (${basename(this.path)})`, error);
    }
  }
}

function encodeAddition(addition: Addition, rev: number, commit: number): string {
  return "put" in addition ? encodePut(addition.put, rev, commit) : encodeGone(addition.gone, rev, commit);
}

function spanOf(line: Buffer): Span {
  return { bytes: line, from: 0, to: line.length };
}
