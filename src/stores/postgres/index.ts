/**
 * The ledger in PostgreSQL: many processes on many hosts, one primary. Batches are one statement each, READ COMMITTED
 * is enough (every write names the revision it replaces), and nothing is kept in a session.
 */
import { performance } from "node:perf_hooks";
import { bellsOf, ringsBell } from "../../core/doorbell.ts";
import { configError } from "../../core/errors.ts";
import type { Instant } from "../../core/record.ts";
import type {
  Finding,
  LeaseQuery,
  LedgerStats,
  ListQuery,
  Page,
  Put,
  PutResult,
  Quarantined,
  StatsQuery,
  Stored,
  SweepQuery,
  TransactionalStore,
  TransactionView,
} from "../../core/store.ts";
import { SweepPlaces } from "../shared/bounded-map.ts";
import { refuseClosed } from "../shared/closed.ts";
import { LapsedLooks } from "../shared/lapsed-looks.ts";
import { Opening } from "../shared/opening.ts";
import { checkLimit } from "../shared/scan.ts";
import type { ServerClock } from "../shared/server-clock.ts";
import type { Connection, Driver } from "./client/connection.ts";
import { openDriver } from "./client/driver.ts";
import { answerWithin, QueryTimeout } from "./client/timeout.ts";
import { postgresClock } from "./clock.ts";
import { storeError } from "./errors.ts";
import { PostgresIdentity } from "./identity.ts";
import { inspectServer } from "./inspect.ts";
import { POSTGRES_ROWS, POSTGRES_TRAITS } from "./known.ts";
import { ready } from "./migrate.ts";
import { checkOptions, type PostgresStoreOptions, type Settings } from "./options.ts";
import { quarantineRow } from "./quarantine.ts";
import { keyHex } from "./sql/key.ts";
import { FROM_THE_BEGINNING, leaseDue, leaseLapsed } from "./sql/lease.ts";
import { LeaseFloor } from "./sql/lease-floor.ts";
import { listStatement, pageOf } from "./sql/list.ts";
import type { Row } from "./sql/row.ts";
import { nameTenant, quoteName } from "./sql/schema.ts";
import { ledgerStats } from "./sql/stats.ts";
import { SWEEP_ROWS, sweepStatement, sweptStatement, watchStatement } from "./sql/sweep.ts";
import { Swaps, stampedTooEarly } from "./swaps.ts";
import { transactionConnection } from "./tx.ts";
import { Wakes } from "./wake.ts";
import { transactionView } from "./within.ts";

export type { PgClient, PgPool, PostgresJs, SupabaseClient } from "./client/driver.ts";
export type { PostgresStoreOptions } from "./options.ts";

// However many rows a caller of the port hands over, a statement holds no more.
const STATEMENT_ROWS = 500;
// A sweep that has more to do than this goes on at the next one.
const WATCH_BUDGET_MS = 500;
const WATCH_EVERY_MS = 5_000;
const SWEEP_BUDGET_MS = 500;

/** `Tx`: what your library's transactions are, for ctx.tx and for the calls that take one: `postgresStore<PoolClient>({ pool })`. */
export function postgresStore<Tx = unknown>(options: PostgresStoreOptions): TransactionalStore<Tx>;
/** @internal With a clock that was read before the store was loaded. */
export function postgresStore<Tx = unknown>(options: PostgresStoreOptions, clock: ServerClock): TransactionalStore<Tx>;
export function postgresStore<Tx = unknown>(
  options: PostgresStoreOptions,
  clock = postgresClock(),
): TransactionalStore<Tx> {
  return new PostgresStore(checkOptions(options), clock) as TransactionalStore<Tx>;
}

interface Opened {
  readonly driver: Driver;
  /** How statements are run: as they are, or each in a transaction that names its tenant. */
  readonly run: Connection;
  /** How statements over many rows are run. */
  readonly survey: Connection;
  readonly ledgerId: string;
  readonly identity: PostgresIdentity;
  readonly wakes: Wakes | null;
}

class PostgresStore implements TransactionalStore<unknown> {
  readonly name: string;
  readonly traits = POSTGRES_TRAITS;
  readonly batchRows = POSTGRES_ROWS.batchRows;
  readonly crowdedBatchRows = POSTGRES_ROWS.crowdedBatchRows;
  readonly quarantine?: (key: string) => Promise<Quarantined | null>;
  readonly #settings: Settings;
  readonly #tables: { readonly table: string; readonly watch: string };
  readonly #clock: ServerClock;
  readonly #swaps: Swaps;
  readonly #opening = new Opening(() => this.#connect());
  #opened: Opened | null = null;
  readonly #checked = new WeakMap<object, Promise<void>>();
  #closed = false;
  readonly #leaseFloor = new LeaseFloor();
  readonly #lapsedLooks = new LapsedLooks();
  #watchedAt = Number.NEGATIVE_INFINITY;
  readonly #sweptTo = new SweepPlaces<number>();

  constructor(settings: Settings, clock: ServerClock) {
    this.#settings = settings;
    this.#clock = clock;
    // It makes a table, which supabase-js and a role that is confined to a tenant may not.
    if (settings.supabase === undefined && !settings.rls) this.quarantine = (key) => this.#quarantine(key);
    this.name = settings.name;
    const schema = quoteName(settings.schema);
    this.#tables = { table: `${schema}.records`, watch: `${schema}.watch` };
    this.#swaps = new Swaps({
      table: this.#tables.table,
      name: this.name,
      tenant: settings.tenant,
      clock: this.#clock,
    });
  }

  now(): number {
    return this.#clock.instant().now;
  }

  instant(): Instant {
    return this.#clock.instant();
  }

  watch(key: string, wake: () => void): () => void {
    return this.#opened?.wakes?.watch(keyHex(key), wake) ?? (() => {});
  }

  read(keys: readonly string[]): Promise<(Stored | null)[]> {
    return this.#do((opened) => checked(opened, () => this.#swaps.read(opened.run, keys)));
  }

  write(puts: readonly Put[]): Promise<PutResult[]> {
    const swap = ({ run }: Opened) => {
      if (puts.some(stampedTooEarly)) return this.#swaps.writeAllButEarly(run, puts);
      return puts.length <= STATEMENT_ROWS ? this.#swaps.write(run, puts) : this.#inParts(run, puts);
    };
    const work = (opened: Opened) => checked(opened, () => swap(opened));
    return this.#do(work, (results) => {
      const wakes = this.#opened?.wakes;
      if (wakes?.waitedFor) for (const [i, put] of puts.entries()) if (results[i]?.ok) letGo(wakes, put);
      return results;
    });
  }

  async #inParts(run: Connection, puts: readonly Put[]): Promise<PutResult[]> {
    const results: PutResult[] = [];
    for (let at = 0; at < puts.length; at += STATEMENT_ROWS)
      results.push(...(await this.#swaps.write(run, puts.slice(at, at + STATEMENT_ROWS))));
    return results;
  }

  lease(query: LeaseQuery): Promise<Stored[]> {
    return this.#do(async ({ driver, identity, run, survey }) => {
      checkLimit(query.limit, "lease");
      await identity.check(driver);
      const confined = { ...query, ...this.#ownTenant(query.tenant) };
      const now = this.now();
      // Abandoned work first: behind the due work of a queue that is never empty, nobody would get to it.
      const lapsed = this.#lapsedLooks.due(confined, now) ? await this.#leaseLapsed(survey, confined, now) : [];
      const limit = query.limit - lapsed.length;
      return limit === 0 ? lapsed : andMore(lapsed, () => this.#leaseDue(run, { ...confined, limit }, now));
    });
  }

  async #leaseLapsed(survey: Connection, query: LeaseQuery, now: number): Promise<Stored[]> {
    const { text, values } = leaseLapsed(this.#tables, query, now);
    const leased = this.#swaps.leased(await survey.query(text, values), query);
    // Where there was as much as asked for there may be more.
    if (leased.length < query.limit) this.#lapsedLooks.foundAll(query, now);
    return leased.map(({ stored }) => stored);
  }

  async #leaseDue(run: Connection, query: LeaseQuery, now: number): Promise<Stored[]> {
    const from = this.#leaseFloor.of(query, now);
    const { text, values } = leaseDue(this.#tables, query, now, from ?? FROM_THE_BEGINNING);
    // Planned once, where the plan stays right: planning it is a good part of what a lease costs the server.
    const ask = this.#swaps.large && run.queryAgain ? run.queryAgain : run.query;
    const rows = await ask(text, values);
    const leased = this.#swaps.leased(rows, query);
    // Rows that cannot be read were leased with the others: as many more are asked for in their place.
    const unread = rows.length - leased.length;
    if (unread > 0) {
      this.#leaseFloor.forget(query);
      const more = await this.#leaseDue(run, { ...query, limit: unread }, now);
      return [...leased.map(({ stored }) => stored), ...more];
    }
    const last = leased.at(-1);
    if (last !== undefined && leased.length === query.limit) this.#leaseFloor.reached(query, last.since, from, now);
    else this.#leaseFloor.forget(query);
    const due = leased.map(({ stored }) => stored);
    if (from === null || due.length === query.limit) return due;
    return andMore(due, () => this.#leaseDue(run, { ...query, limit: query.limit - due.length }, now));
  }

  list(query: ListQuery): Promise<Page> {
    return this.#do(async ({ driver, identity, survey }) => {
      await identity.check(driver);
      const confined = { ...query, ...this.#ownTenant(query.tenant) };
      const { text, values } = listStatement(this.#tables, confined, this.now());
      return pageOf(await survey.query(text, values), query, (row) => this.#swaps.decode(row));
    });
  }

  stats(query: StatsQuery = {}): Promise<LedgerStats> {
    return this.#do(async ({ driver, identity, survey }) => {
      await identity.check(driver);
      const { tenant } = this.#ownTenant(query.tenant);
      return ledgerStats(survey, this.#tables, this.now(), tenant);
    });
  }

  sweep(query: SweepQuery): Promise<number> {
    return this.#do(async ({ driver, identity, survey: run }) => {
      checkLimit(query.limit, "sweep");
      await identity.check(driver);
      const { tenant } = this.#ownTenant(query.tenant);
      if (query.thorough === true || this.#watchDue()) await this.#watchOldClaims(run);
      return this.#removeExpired(run, query, tenant);
    });
  }

  /** Goes round by creation from where the last sweep of this tenant stopped: to the end, or until its time is over. */
  async #removeExpired(run: Connection, query: SweepQuery, tenant: string | undefined): Promise<number> {
    const until = performance.now() + SWEEP_BUDGET_MS;
    const started = this.#sweptTo.get(tenant) ?? FROM_THE_BEGINNING;
    let [removed, from, wrapped] = [0, started, started === FROM_THE_BEGINNING];
    while (removed < query.limit) {
      const limit = Math.min(SWEEP_ROWS, query.limit - removed);
      const { text, values } = sweepStatement(this.#tables, { limit, now: this.now(), tenant, from });
      const gone = Number((await run.query(text, values))[0]?.c0);
      removed += gone;
      if (gone === limit) continue;
      const next = await this.#nextToSweep(run, from);
      if (next === null && wrapped) {
        from = FROM_THE_BEGINNING;
        break;
      }
      from = next ?? FROM_THE_BEGINNING;
      if (next === null) wrapped = true;
      else if (wrapped && started !== FROM_THE_BEGINNING && from >= started) break;
      if (query.thorough !== true && performance.now() > until) {
        // Past the end of the table, the round that earlier passes began is complete: the next begins at the beginning.
        if (wrapped && started !== FROM_THE_BEGINNING) from = FROM_THE_BEGINNING;
        else query.unfinished?.();
        break;
      }
    }
    this.#sweptTo.set(tenant, from);
    return removed;
  }

  async #nextToSweep(run: Connection, from: number): Promise<number | null> {
    const { text, values } = sweptStatement(this.#tables, { now: this.now(), from });
    const next = (await run.query(text, values))[0]?.c0 ?? null;
    return next === null ? null : Math.max(Number(next), from + 1);
  }

  /** Passes may follow each other closely; claims grow old in a minute. */
  #watchDue(): boolean {
    const now = performance.now();
    if (now - this.#watchedAt < WATCH_EVERY_MS) return false;
    this.#watchedAt = now;
    return true;
  }

  async #watchOldClaims(run: Connection): Promise<void> {
    const until = performance.now() + WATCH_BUDGET_MS;
    for (let more = true; more && performance.now() < until; ) {
      const { text, values } = watchStatement(this.#tables, this.now());
      more = (await run.query(text, values))[0]?.c0 === "true";
    }
  }

  #quarantine(key: string): Promise<Quarantined | null> {
    const decode = (row: Row) => this.#swaps.decode(row);
    const { schema } = this.#settings;
    return this.#do((opened) => checked(opened, () => quarantineRow(opened.driver, { key, schema, decode })));
  }

  within(tx: unknown): TransactionView {
    const connection = transactionConnection(tx);
    return transactionView({
      tx: tx as object,
      connection,
      swaps: this.#swaps,
      clock: this.#clock,
      settings: this.#settings,
      checked: this.#checked,
      ledgerId: async () => this.#opened?.ledgerId ?? null,
      open: async () => (await this.#opening.get()).ledgerId,
      check: () => this.#refuseClosed(),
      wakes: () => this.#opened?.wakes ?? null,
    });
  }

  inspect(): Promise<readonly Finding[]> {
    return this.#do(async (opened) => {
      const waiting = (await opened.wakes?.described()) ?? "polling: the store does not listen";
      const given = { tables: this.#tables, settings: this.#settings, waiting };
      return checked(opened, () => inspectServer(opened.run, given));
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const opened = await this.#opening.opened();
    if (opened === null) return;
    const goodbye = async () => {
      await opened.wakes?.stop();
      await opened.driver.close();
    };
    // Idle connections do not keep a program alive, so that a script that forgets close() still ends. One that waits
    // for close() must not end in the middle of it: the timer keeps it, and bounds the wait.
    await answerWithin(this.#settings.timeoutMs, goodbye(), () => {}).catch((error: unknown) => {
      if (!(error instanceof QueryTimeout)) throw error;
    });
  }

  // ---- how it gets to the server ----

  /** One promise, `finish` included, where the store is open: this is in every call, twice. */
  #do<T>(work: (opened: Opened) => Promise<T>, finish?: (answer: T) => T): Promise<T> {
    try {
      this.#refuseClosed();
      const done = this.#opened === null ? this.#opening.get().then(work) : work(this.#opened);
      return done.then(finish, this.#explain);
    } catch (error) {
      return Promise.reject(this.#explained(error));
    }
  }

  readonly #explain = (error: unknown): never => {
    throw this.#explained(error);
  };

  #explained(error: unknown): unknown {
    return storeError(error, { where: this.name, schema: this.#settings.schema });
  }

  async #connect(): Promise<Opened> {
    const { schema, migrate, rls, tenant, listen } = this.#settings;
    const driver = await openDriver(this.#settings);
    try {
      const { clock, state } = await ready(driver, migrate, {
        schema,
        rls,
        where: this.name,
        supabase: driver.uniform === true,
      });
      this.#clock.observe(clock);
      const ledgerId = state?.ledgerId ?? "";
      const wakes = listen ? new Wakes(driver, `${ledgerId} ${schema}`) : null;
      // Not waited for: until it listens, the engine polls.
      void wakes?.start();
      const own = rls ? [nameTenant(tenant as string)] : [];
      const run = rls ? inTransactions(driver, own) : driver;
      const survey = driver.uniform ? driver : inTransactions(driver, [NO_JIT, ...own]);
      const identity = new PostgresIdentity({ schema, ledgerId, where: this.name });
      this.#opened = { driver, run, survey, ledgerId, identity, wakes };
      return this.#opened;
    } catch (error) {
      await driver.close().catch(() => {});
      throw error;
    }
  }

  #refuseClosed(): void {
    refuseClosed(this.#closed, this.name);
  }

  /** Asking a confined store for another tenant's rows gets none. */
  #ownTenant(asked: string | undefined): { tenant?: string } {
    const { tenant } = this.#settings;
    if (tenant === undefined || asked === tenant) return asked === undefined ? {} : { tenant: asked };
    if (asked !== undefined) throw configError(`this store is confined to the tenant ${JSON.stringify(tenant)}.`);
    return { tenant };
  }
}

/** In the ledger that this program began with: see stores/postgres/identity.ts. */
function checked<T>({ driver, identity }: Opened, work: () => Promise<T>): Promise<T> {
  const check = identity.check(driver);
  return check === null ? work() : check.then(work);
}

/** Records that are leased already are handed out even if the next statement fails: held back, nobody would run them. */
async function andMore(leased: Stored[], more: () => Promise<Stored[]>): Promise<Stored[]> {
  if (leased.length === 0) return more();
  return [...leased, ...(await more().catch(() => []))];
}

function letGo(wakes: Wakes, { record }: Put): void {
  if (record.lease === null) wakes.moved(keyHex(record.key));
  if (ringsBell(record)) for (const bell of bellsOf(record)) wakes.moved(keyHex(bell));
}

// Compiling a statement takes longer (50 to 300 ms) than these take to run; the planner does not know how few rows they see.
const NO_JIT = "SET LOCAL jit = off";

/** Settings for each statement, forgotten with its transaction. */
function inTransactions(driver: Driver, settings: readonly string[]): Connection {
  const setup = settings.join("; ");
  return { query: (text, values) => driver.transaction((connection) => connection.query(text, values), setup) };
}
