/** A ledger in a Map: for tests, and for dedupe inside one process. It survives nothing. */
import { performance } from "node:perf_hooks";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type {
  LeaseQuery,
  LedgerStats,
  ListQuery,
  Page,
  Put,
  PutResult,
  StatsQuery,
  Store,
  Stored,
  StoreTraits,
  SweepQuery,
} from "../core/store.ts";
import { wallNow } from "../engine/real-timers.ts";
import { refuseClosed } from "./shared/closed.ts";
import { checkLimit, claimed, dueRows, isSweepable, PageScan, StatsScan } from "./shared/scan.ts";
import { eachInSlices, Rotations } from "./shared/slices.ts";

export interface MemoryStoreOptions {
  /** Tests pass their own; otherwise wall time and the process's monotonic clock. */
  readonly clock?: { instant(): Instant };
}

export function memoryStore(options: MemoryStoreOptions = {}): Store {
  return new MemoryStore(options.clock ?? processClock);
}

// The monotonic clock counts from the start of the process, so that moment names its epoch.
const EPOCH = `process-${performance.timeOrigin}`;

const processClock = {
  instant: (): Instant => ({ now: wallNow(), steady: performance.now(), epoch: EPOCH }),
};

// Rows that one background pass looks at.
const LOOKED_AT_A_SWEEP = 100_000;

class MemoryStore implements Store {
  readonly name = "memory";
  readonly traits: StoreTraits = { hosts: "one", survives: "nothing", clock: "client", dueIndex: false };
  readonly #rows = new Map<string, Stored>();
  readonly #clock: { instant(): Instant };
  readonly #sweeps = new Rotations<Stored>(() => this.#rows.values());
  // One counter for all rows: a row that was swept and begun again must not meet a writer who holds its old version.
  #revision = 0;
  #closed = false;

  constructor(clock: { instant(): Instant }) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.instant().now;
  }

  instant(): Instant {
    return this.#clock.instant();
  }

  async read(keys: readonly string[]): Promise<(Stored | null)[]> {
    this.#refuseWhenClosed();
    return keys.map((key) => this.#rows.get(key) ?? null);
  }

  async write(puts: readonly Put[]): Promise<PutResult[]> {
    this.#refuseWhenClosed();
    return puts.map((put) => this.#swap(put));
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    this.#refuseWhenClosed();
    const at = this.#clock.instant();
    return dueRows(this.#rows.values(), query, at).flatMap(({ record }) => {
      const claim = claimed(record, query, at);
      return claim === null ? [] : [this.#set(claim)];
    });
  }

  async list(query: ListQuery): Promise<Page> {
    this.#refuseWhenClosed();
    const scan = new PageScan<Stored>(query, this.#clock.instant());
    await eachInSlices(this.#rows.values(), (row) => scan.add(row));
    return scan.page();
  }

  async stats(query: StatsQuery = {}): Promise<LedgerStats> {
    this.#refuseWhenClosed();
    const scan = new StatsScan(query, this.#clock.instant());
    await eachInSlices(this.#rows.values(), (row) => scan.add(row));
    return scan.stats();
  }

  async sweep(query: SweepQuery): Promise<number> {
    this.#refuseWhenClosed();
    checkLimit(query.limit, "sweep");
    const { tenant, limit, thorough = false } = query;
    const now = this.now();
    const { rows, end } = await this.#sweeps.next(tenant, {
      look: LOOKED_AT_A_SWEEP,
      thorough,
      most: limit,
      wanted: (row) => isSweepable(row, query, now),
    });
    if (!end) query.unfinished?.();
    let removed = 0;
    for (const row of rows) {
      // Begun anew since it was looked at: it stays.
      if (this.#rows.get(row.record.key) !== row) continue;
      this.#rows.delete(row.record.key);
      removed += 1;
    }
    return removed;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#rows.clear();
  }

  #swap({ record, expected }: Put): PutResult {
    const current = this.#rows.get(record.key) ?? null;
    if ((current?.version ?? null) !== expected) return { ok: false, current };
    return { ok: true, version: this.#set(record).version };
  }

  /** A frozen copy: whoever holds the record, before or after, can't change what the ledger says. */
  #set(record: LedgerRecord): Stored {
    this.#revision += 1;
    const row = Object.freeze({ record: Object.freeze({ ...record }), version: this.#revision });
    this.#rows.set(record.key, row);
    return row;
  }

  #refuseWhenClosed(): void {
    refuseClosed(this.#closed, "in memory", "Open a new one with memoryStore(); what it held is gone.");
  }
}
