/**
 * A ledger in a plain JSONL file: one line per change, readable with jq, many processes of one host, modest volume. Every
 * change is synced before it is acknowledged. What is in the file is known from an index in memory that follows the
 * file's end, so no call ever reads it from the start again.
 */
import { resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { type DamagedRecord, decodeIntact, requireDamaged } from "../../core/damaged-record.ts";
import { configError, messageOf } from "../../core/errors.ts";
import { refuseUnknownOptions } from "../../core/options.ts";
import type { Instant, LedgerRecord } from "../../core/record.ts";
import type {
  Finding,
  InspectQuery,
  LeaseQuery,
  LedgerStats,
  ListQuery,
  Page,
  Put,
  PutResult,
  Quarantined,
  StatsQuery,
  Store,
  Stored,
  StoreTraits,
  SweepQuery,
} from "../../core/store.ts";
import { setTimeout } from "../../engine/real-timers.ts";
import { refuseClosed } from "../shared/closed.ts";
import { clockFinding, hostInstant } from "../shared/host-clock.ts";
import { Turns } from "../shared/savepoint.ts";
import {
  checkLimit,
  claimed,
  dueRows,
  intactPage,
  isListed,
  isSweepable,
  PageScan,
  StatsScan,
  sweepableRows,
} from "../shared/scan.ts";
import { eachInSlices } from "../shared/slices.ts";
import { type Disk, localDisk } from "./disk.ts";
import type { Entry } from "./entries.ts";
import { unusable } from "./errors.ts";
import { refuseFolder, refuseLoneMount } from "./identity.ts";
import { FileLock } from "./lock.ts";
import { type Addition, FileLog } from "./log.ts";

export interface FileStoreOptions {
  /** The file. Made when it is not there. */
  readonly path: string;
  readonly clock?: { instant(): Instant };
  /** How long a lock of another process is waited for. */
  readonly busyMs?: number;
  /** Compact when there are this many lines beyond one and a half per live record. */
  readonly compactAfterLines?: number;
  /** The calls made on the files. Tests pass their own, to take back what was not synced. */
  readonly disk?: Disk;
}

export type { Disk } from "./disk.ts";

const DEFAULT_BUSY_MS = 5_000;
// A ledger that only grows (a claim and a confirm each) is compacted at each doubling; a start never reads much more than this.
const LINES_A_RECORD = 1.5;
const DEFAULT_SLACK_LINES = 1_000;
const LOOKED_AT_A_SWEEP = 20_000;
const KEYS_A_LINE = 500;
const BATCH_ROWS = 256;
// A compaction that failed is tried again after this, and after twice as long each time, up to the longest.
const SHORTEST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 600_000;
const CHECKED_QUICKLY_BYTES = 8 * 1024 * 1024;

const OPTIONS = ["path", "clock", "busyMs", "compactAfterLines", "disk"];

export function fileStore(options: FileStoreOptions): Store {
  const { path } = options ?? {};
  if (typeof path !== "string" || path.trim() === "") {
    throw configError(`fileStore: path is ${JSON.stringify(path)}; give the path of a file, such as "./ledger.jsonl".`);
  }
  refuseUnknownOptions("fileStore", options, OPTIONS);
  return new FileStore(options);
}

class FileStore implements Store {
  readonly name: string;
  readonly traits: StoreTraits = { hosts: "one", survives: "power-loss", clock: "client", dueIndex: true };
  readonly batchRows = BATCH_ROWS;
  readonly #given: string;
  readonly #options: FileStoreOptions;
  readonly #clock: { instant(): Instant };
  readonly #slackLines: number;
  #parts: { readonly log: FileLog; readonly lock: FileLock } | null = null;
  /** Calls that were accepted: close() waits for them. */
  readonly #calls = new Set<Promise<unknown>>();
  /** Writers of this process take turns; each waits for the lock of the host by itself. */
  readonly #writers = new Turns();
  /** Looks at the file's end take turns with commits. */
  readonly #ends = new Turns();
  #look: Promise<void> | null = null;
  /** The lock is ours and the index is fresh: nobody else can have changed the file since. */
  #settled = false;
  #compacting = false;
  #pauseMs = 0;
  /** By the steady clock. */
  #compactFrom = Number.NEGATIVE_INFINITY;
  #closing: Promise<void> | null = null;

  constructor(options: FileStoreOptions) {
    this.#given = resolve(options.path);
    this.name = `file:${this.#given}`;
    this.#options = options;
    this.#clock = options.clock ?? { instant: hostInstant };
    this.#slackLines = options.compactAfterLines ?? DEFAULT_SLACK_LINES;
  }

  now(): number {
    return this.#clock.instant().now;
  }

  instant(): Instant {
    return this.#clock.instant();
  }

  async read(keys: readonly string[]): Promise<(Stored | null)[]> {
    return this.#call(async () => {
      await this.#fresh();
      return keys.map((key) => this.#stored(key));
    });
  }

  async write(puts: readonly Put[]): Promise<PutResult[]> {
    if (puts.length === 0) return [];
    return this.#call(() => this.#exclusively(() => this.#swap(puts)));
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    return this.#call(() => this.#lease(query));
  }

  async list(query: ListQuery): Promise<Page> {
    return this.#call(() => this.#list(query));
  }

  async stats(query: StatsQuery = {}): Promise<LedgerStats> {
    return this.#call(() => this.#stats(query));
  }

  async sweep(query: SweepQuery): Promise<number> {
    return this.#call(() => this.#sweep(query));
  }

  async inspect(query: InspectQuery = {}): Promise<readonly Finding[]> {
    return this.#call(() => this.#inspect(query));
  }

  /** Its line goes to a file beside the ledger, and the ledger is written anew without it. */
  async quarantine(key: string): Promise<Quarantined | null> {
    return this.#call(() => this.#exclusively(() => this.#setAside(key)));
  }

  async close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #lease(query: LeaseQuery): Promise<Stored[]> {
    // Most polls find nothing due: that takes no lock. It also checks the query.
    await this.#fresh();
    if (this.#due(query).length === 0) return [];
    return this.#exclusively(async () => {
      const at = this.instant();
      const claims = this.#dueRecords(query).flatMap((record) => claimed(record, query, at) ?? []);
      const versions = await this.#append(claims.map((put) => ({ put })));
      return claims.map((record, i) => ({ record, version: versions[i] as number }));
    });
  }

  async #list(query: ListQuery): Promise<Page> {
    await this.#fresh();
    const at = this.instant();
    const scan = new PageScan<Entry>(query, at);
    await eachInSlices(this.#log.index.inStates(query.states), (entry) => scan.add(entry));
    const { items: found, cursor } = scan.page();
    // Between two slices records may have changed, and a compaction may have moved their lines: the entries as they are now.
    const keys = new Set(found.map(({ record }) => record.key));
    const items = [...keys].flatMap((key) => {
      const entry = this.#log.index.get(key);
      return entry !== undefined && isListed(entry.record, query, at) ? [entry] : [];
    });
    return intactPage(items, (entry) => this.#log.stored(entry), cursor);
  }

  async #stats(query: StatsQuery): Promise<LedgerStats> {
    await this.#fresh();
    const scan = new StatsScan(query, this.instant());
    await eachInSlices(this.#log.index.all(), (entry) => scan.add(entry));
    return scan.stats();
  }

  async #sweep(query: SweepQuery): Promise<number> {
    await this.#fresh();
    checkLimit(query.limit, "sweep");
    const { index } = this.#log;
    const { tenant, limit, thorough = false } = query;
    const now = this.now();
    const { rows, end } = await index.sweeps.next(tenant, {
      look: LOOKED_AT_A_SWEEP,
      thorough,
      most: limit,
      wanted: (entry) => isSweepable(entry, query, now),
    });
    const over = [...new Set(rows.map(({ record }) => record.key))];
    const removed = over.length === 0 ? 0 : await this.#remove(over, query);
    // Where another process has removed most of them, it is sweeping too.
    if (!end && removed >= over.length / 2) query.unfinished?.();
    return removed;
  }

  #remove(over: readonly string[], query: SweepQuery): Promise<number> {
    return this.#exclusively(async () => {
      // Looked at again under the lock: another process may have begun one of them anew, or removed it.
      const still = over.flatMap((key) => this.#log.index.get(key) ?? []);
      const keys = sweepableRows(still, query, this.now()).map(({ record }) => record.key);
      const lines = Math.ceil(keys.length / KEYS_A_LINE);
      const parts = Array.from({ length: lines }, (_, i) => keys.slice(i * KEYS_A_LINE, (i + 1) * KEYS_A_LINE));
      await this.#append(parts.map((gone) => ({ gone })));
      return keys.length;
    });
  }

  async #inspect({ quick = false }: InspectQuery): Promise<readonly Finding[]> {
    await this.#fresh();
    const checked = !quick || this.#log.bytes <= CHECKED_QUICKLY_BYTES;
    const damage = checked ? await this.#log.check() : null;
    const { index, lines, path } = this.#log;
    return [
      { name: "file", value: path === this.#given ? path : `${path} (through ${this.#given})`, ok: true },
      { name: "lines", value: `${lines}, ${index.size} of them live`, ok: true },
      {
        name: "checksums",
        value: damage ?? (checked ? "every line is as it was written" : "not checked again: the file is large"),
        ok: damage === null,
        ...(!checked && { partial: true }),
        advice: "restore the file from a backup; the lines that are whole can still be read with jq",
      },
      clockFinding(this.instant()),
    ];
  }

  async #setAside(key: string): Promise<Quarantined | null> {
    const entry = this.#log.index.get(key);
    if (entry === undefined) return null;
    requireDamaged(key, () => this.#log.stored(entry));
    const aside = `${this.#log.path}.quarantine-${this.now()}`;
    await this.#log.writeAside(aside, this.#log.bytesOf(entry));
    await this.#log.append([{ gone: [key] }]);
    // The record is removed by now, whether or not the disk has room for a compaction.
    await this.#compact().catch(() => {});
    return { key, keptIn: `the file ${aside}` };
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#calls);
    // A compaction that began before.
    await this.#writers.ended();
    await this.#ends.ended();
    this.#parts?.log.close();
    this.#parts?.lock.close();
  }

  // ---- the files ----

  get #log(): FileLog {
    return this.#files().log;
  }

  /** At the first call, not before: a link to the ledger may be made after the store. */
  #files(): { readonly log: FileLog; readonly lock: FileLock } {
    if (this.#parts !== null) return this.#parts;
    const { disk = localDisk, busyMs = DEFAULT_BUSY_MS } = this.#options;
    let log: FileLog;
    try {
      log = new FileLog(this.#given, disk);
    } catch (error) {
      throw unusable(this.#given, messageOf(error), error);
    }
    refuseLoneMount(log.path);
    if (disk.facts(log.path)?.isFolder) refuseFolder(log.path, "file");
    const lock = new FileLock({
      beside: log.path,
      path: `${log.path}.lock`,
      busyMs,
      random: Math.random,
      pause: (ms) => new Promise((done) => setTimeout(done, ms)),
      monotonic: () => performance.now(),
      makeFolder: disk.makeFolder,
    });
    this.#parts = { log, lock };
    return this.#parts;
  }

  // ---- turns ----

  /** What begins before close() is carried out and answered; what begins after it is refused. */
  #call<T>(work: () => Promise<T>): Promise<T> {
    this.#refuseWhenClosed();
    const call = work();
    this.#calls.add(call);
    const ended = () => this.#calls.delete(call);
    call.then(ended, ended);
    return call;
  }

  /** Up to date with all that was acknowledged before this call, by whomever. */
  #fresh(): Promise<void> {
    if (this.#settled) return Promise.resolve();
    if (this.#look === null) {
      this.#look = this.#lookAtEnd().finally(() => {
        this.#look = null;
      });
    }
    return this.#look;
  }

  async #lookAtEnd(): Promise<void> {
    const sure = await this.#ends.take(() => {
      // From here on, what another process acknowledges may be missed by this look: the next caller takes its own.
      this.#look = null;
      return this.#log.refresh();
    });
    // A new ledger, or an end that only the holder of the lock can judge.
    if (!sure) await this.#exclusively(async () => {});
  }

  /** With the lock of the host, the index fresh. */
  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    return this.#writers.take(() => this.#withLock(work));
  }

  async #withLock<T>(work: () => Promise<T>): Promise<T> {
    const { lock } = this.#files();
    await lock.take();
    try {
      return await this.#ends.take(async () => {
        await this.#log.refreshLocked();
        this.#settled = true;
        try {
          return await work();
        } finally {
          this.#settled = false;
        }
      });
    } finally {
      lock.give();
    }
  }

  // ---- under the lock ----

  async #swap(puts: readonly Put[]): Promise<PutResult[]> {
    const staged = new Map<string, number>();
    const won: { put: LedgerRecord; place: number }[] = [];
    const results = puts.map(({ record, expected }, place): PutResult => {
      // A second put on one key in one batch meets the first, whose version it cannot know yet.
      const version = staged.has(record.key) ? Number.NaN : (this.#log.index.get(record.key)?.version ?? null);
      if (version !== expected) return { ok: false, current: null };
      staged.set(record.key, place);
      won.push({ put: record, place });
      return { ok: true, version: 0 };
    });
    const versions = await this.#append(won);
    won.forEach(({ place }, i) => {
      results[place] = { ok: true, version: versions[i] as number };
    });
    return results.map((result, place) =>
      result.ok ? result : { ok: false, current: this.#stored((puts[place] as Put).record.key) },
    );
  }

  async #append(additions: readonly Addition[]): Promise<number[]> {
    if (additions.length === 0) return [];
    const versions = await this.#log.append(additions);
    if (this.#isCompactionDue()) this.#compactSoon();
    return versions;
  }

  #isCompactionDue(): boolean {
    // A store that is being closed has answers to give, and the next one will compact.
    if (this.#compacting || this.#closing !== null || this.instant().steady < this.#compactFrom) return false;
    return this.#log.lines > LINES_A_RECORD * this.#log.index.size + this.#slackLines;
  }

  /** After those who wait for this commit have their answer. */
  #compactSoon(): void {
    this.#compacting = true;
    this.#exclusively(() => this.#compact())
      // The ledger goes on in the old file.
      .catch(() => {})
      .finally(() => {
        this.#compacting = false;
      });
  }

  /** What fails (a disk without room for a second file) is put off, longer each time: every try holds the lock. */
  async #compact(): Promise<void> {
    try {
      await this.#log.compact();
      this.#pauseMs = 0;
    } catch (error) {
      this.#pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, this.#pauseMs * 2));
      this.#compactFrom = this.instant().steady + this.#pauseMs;
      throw error;
    }
  }

  // ---- looking ----

  #stored(key: string): Stored | null {
    const entry = this.#log.index.get(key);
    return entry === undefined ? null : this.#log.stored(entry);
  }

  /** As many as asked for, although lines that cannot be read stand before them. */
  #dueRecords(query: LeaseQuery): LedgerRecord[] {
    const damaged = new Map<string, DamagedRecord>();
    for (;;) {
      const known = damaged.size;
      const due = this.#due({ ...query, limit: query.limit + known });
      const sound = decodeIntact(
        due.filter(({ record }) => !damaged.has(record.key)),
        (entry) => this.#log.stored(entry).record,
        (found) => damaged.set(found.key, found),
      );
      if (damaged.size > known) continue;
      for (const found of damaged.values()) query.damaged?.(found);
      return sound.slice(0, query.limit);
    }
  }

  #due(query: LeaseQuery) {
    return dueRows(this.#log.index.inStates(["pending", "claimed"]), query, this.instant());
  }

  #refuseWhenClosed(): void {
    refuseClosed(this.#closing !== null, this.#given, "Open it again with fileStore({ path }).");
  }
}
