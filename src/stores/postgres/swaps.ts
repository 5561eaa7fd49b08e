/** Reads and compare-and-swaps on any connection: the pool's, or the caller's own transaction. */
import { performance } from "node:perf_hooks";
import { damagedRecord, decodeIntact } from "../../core/damaged-record.ts";
import { configError, NevertwiceError } from "../../core/errors.ts";
import type { LeaseQuery, Put, PutResult, Stored } from "../../core/store.ts";
import { inRounds } from "../shared/rounds.ts";
import type { ServerClock } from "../shared/server-clock.ts";
import type { Connection } from "./client/connection.ts";
import { isProvisional } from "./clock.ts";
import { isTransient } from "./errors.ts";
import { keyHex } from "./sql/key.ts";
import { type RowNames, readRows } from "./sql/read.ts";
import { attentionSince, decodeRow, type Row } from "./sql/row.ts";
import { singleWrite } from "./sql/single.ts";
import { batchWrite, type PlannedPut, planPut, type Statement, timed, winners } from "./sql/write.ts";
import { uniformRead, uniformWrite } from "./supabase/uniform.ts";

// 2 MB. On a small table the planner joins a batch by reading all of it, and a plan that is kept would go on doing so
// while the table grows. From 0.5 MB on it takes the index (from 1.3 MB where random_page_cost is 10), as it will on any
// larger one. An insert looks nothing up.
export const LARGE_BYTES = 2 * 1_048_576;
// A deadlock's victim has written nothing: it goes again, a few times.
const TRIES = 4;

/** The ways to ask; those that a connection does not have are asked as any other. */
type Asking = Pick<Connection, "query" | "queryAgain">;

export interface SwapOptions {
  readonly table: string;
  readonly name: string;
  readonly tenant: string | undefined;
  readonly clock: ServerClock;
}

export interface Leased {
  readonly stored: Stored;
  /** When it became due. */
  readonly since: number;
}

export class Swaps {
  readonly #options: SwapOptions;
  #large = false;

  constructor(options: SwapOptions) {
    this.#options = options;
  }

  /** Plans for what is looked for again and again may be kept: they are those for any larger table. */
  get large(): boolean {
    return this.#large;
  }

  decode(row: Row): Stored {
    return decodeRow(row, this.#options.name);
  }

  /** What a lease made of rows, the longest due first. What cannot be read is reported. */
  leased(rows: readonly Row[], query: LeaseQuery): Leased[] {
    const decode = (row: Row) => ({ stored: this.#leased(row, query), since: attentionSince(row) });
    return decodeIntact(rows, decode, (damaged) => query.damaged?.(damaged)).sort((a, b) => a.since - b.since);
  }

  #leased(row: Row, { to }: LeaseQuery): Stored {
    const stored = this.decode(row);
    const { state, key } = stored.record;
    if (state === to) return stored;
    // The lease leaves a state as it was that no work in a queue has.
    throw damagedRecord({ key, where: this.#options.name, what: `it is queued work, and its state is ${state}` });
  }

  async read(run: Connection, keys: readonly string[]): Promise<(Stored | null)[]> {
    if (keys.length === 0) return [];
    const hexes = keys.map(keyHex);
    const { tenant } = this.#options;
    const names = [...new Set(hexes)].map((hex) => ({ hex, tenant }));
    // One key is looked up by the index on any table.
    const how = this.#large || keys.length === 1 ? "queryAgain" : "query";
    const found = this.#byHex(await this.#timed(run, this.#select(run, names), how));
    return hexes.map((hex) => found.get(hex) ?? null);
  }

  /** Each put on its own; a key that comes twice is put twice, one after the other. */
  write(run: Connection, puts: readonly Put[], inTransaction = false): Promise<PutResult[]> {
    const now = this.#now();
    const all = puts.map((put) => this.#plan(put, now, run.uniform === true));
    // The engine's own batches come sorted, each key once.
    if (ascending(all)) return this.#swap(run, all, inTransaction, now);
    return inRounds(
      all,
      ({ hex }) => hex,
      async (round) => {
        // Sorted, so that no two batches lock rows in opposite order.
        const sorted = [...round].sort((a, b) => (a.hex < b.hex ? -1 : 1));
        const results = await this.#swap(run, sorted, inTransaction, this.#now());
        return round.map((planned) => results[sorted.indexOf(planned)] as PutResult);
      },
    );
  }

  /**
   * Records stamped by this host's wall clock, before the server's was known, are not written: "there is no row" makes
   * the engine look at the clock again. Nothing was written, so nothing is lost by it.
   */
  async writeAllButEarly(run: Connection, puts: readonly Put[], inTransaction = false): Promise<PutResult[]> {
    const early = puts.map(stampedTooEarly);
    const timely = puts.filter((_, i) => !early[i]);
    const others = timely.length === 0 ? [] : await this.write(run, timely, inTransaction);
    const current = await this.read(
      run,
      puts.filter(({ expected }, i) => early[i] && expected !== null).map(({ record }) => record.key),
    );
    return puts.map(({ expected }, i) => {
      if (!early[i]) return others.shift() as PutResult;
      return { ok: false, current: expected === null ? null : (current.shift() ?? null) };
    });
  }

  #plan(put: Put, now: number, whole: boolean): PlannedPut {
    const { tenant } = this.#options;
    if (tenant !== undefined && put.record.tenant !== tenant) throw foreign(tenant, put);
    return planPut(put, { hex: keyHex(put.record.key), now, whole });
  }

  #swap(run: Connection, batch: readonly PlannedPut[], inTransaction: boolean, now: number): Promise<PutResult[]> {
    const tries = inTransaction ? 1 : TRIES;
    const [only] = batch;
    if (batch.length > 1 || only === undefined || run.uniform) return this.#swapMany(run, batch, tries, now);
    return this.#swapOne(run, only, tries, now);
  }

  async #swapMany(run: Connection, batch: readonly PlannedPut[], tries: number, now: number): Promise<PutResult[]> {
    const { table } = this.#options;
    if (run.uniform) {
      const [row] = await this.#patiently(tries, () => this.#timed(run, uniformWrite(table, batch, now)));
      return this.#settle(run, batch, winners(row as Row, batch.length));
    }
    const again = this.#large || batch.every(({ way }) => way === "insert");
    const how = again ? "queryAgain" : "query";
    const measured = !this.#large;
    const statement = batchWrite(table, batch, now, measured);
    const [answer] = await this.#patiently(tries, () => this.#timed(run, statement, how));
    // Not asked again: a plan for a large table serves a small one as well.
    if (measured) this.#large = Number(answer?.c3) >= LARGE_BYTES;
    return this.#settle(run, batch, winners(answer as Row, batch.length));
  }

  async #swapOne(run: Connection, only: PlannedPut, tries: number, now: number): Promise<PutResult[]> {
    const statement = singleWrite(this.#options.table, only, now, run.sendsTexts);
    const rows = await this.#patiently(tries, async () => {
      if (run.count !== undefined && !this.#options.clock.stale) return run.count(statement.text, statement.values);
      return (await this.#timed(run, timed(statement))).length;
    });
    return rows === 1 ? [won(only)] : this.#settle(run, [only], new Set());
  }

  #now(): number {
    return this.#options.clock.instant().now;
  }

  async #settle(run: Connection, batch: readonly PlannedPut[], keys: ReadonlySet<string> | null): Promise<PutResult[]> {
    if (keys === null) return batch.map(won);
    const lost = batch.filter(({ hex }) => !keys.has(hex));
    // A statement of its own: the row that stood in the way may have come after the first one's snapshot.
    const named = lost.map(({ hex, record }) => ({ hex, tenant: record.tenant }));
    const current = this.#byHex(await this.#timed(run, this.#select(run, named)));
    return batch.map((put) => (keys.has(put.hex) ? won(put) : { ok: false, current: current.get(put.hex) ?? null }));
  }

  async #patiently<T>(tries: number, ask: () => Promise<T>): Promise<T> {
    for (let left = tries; ; left -= 1) {
      try {
        return await ask();
      } catch (error) {
        if (left <= 1 || !isTransient(error)) throw error;
      }
    }
  }

  #select(run: Connection, names: readonly RowNames[]): Statement {
    const { table } = this.#options;
    return run.uniform ? uniformRead(table, names) : readRows(table, names);
  }

  #byHex(rows: readonly Row[]): Map<string, Stored> {
    const found = new Map<string, Stored>();
    for (const row of rows) {
      const stored = this.decode(row);
      const hex = row.c0 as string;
      if (found.has(hex)) throw ambiguous(stored.record.key);
      found.set(hex, stored);
    }
    return found;
  }

  /** Every answer that tells the server's time is a new measure of it. */
  async #timed(run: Connection, { text, values }: Statement, how: keyof Asking = "query"): Promise<Row[]> {
    const askedAt = performance.now();
    const rows = await (run[how]?.(text, values) ?? run.query(text, values));
    const clock = rows[0]?.clock;
    if (typeof clock === "string")
      this.#options.clock.observe({ serverMs: Number(clock), askedAt, answeredAt: performance.now() });
    return rows;
  }
}

function won({ rev }: PlannedPut): PutResult {
  return { ok: true, version: rev };
}

function ascending(puts: readonly PlannedPut[]): boolean {
  for (let i = 1; i < puts.length; i += 1) {
    if ((puts[i - 1] as PlannedPut).hex >= (puts[i] as PlannedPut).hex) return false;
  }
  return puts.length > 0;
}

function foreign(tenant: string, { record }: Put): NevertwiceError {
  return configError(
    `this store is confined to the tenant ${JSON.stringify(tenant)}, and a record of another was to be written. Make one postgresStore() per tenant, or one without tenant.`,
    new NevertwiceError("CONFIG", "another tenant's record", { key: record.key }),
  );
}

/** A key is a digest over its tenant: no two tenants come by one. Somebody wrote to the table. */
function ambiguous(key: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    "two tenants hold records under one key, which nevertwice never writes. Nothing was run. Find out who writes to the ledger's table, or confine the store: postgresStore({ tenant }).",
    { key },
  );
}

export function stampedTooEarly({ record }: Put): boolean {
  return isProvisional(record.updatedAt);
}
