/**
 * The Redis store: many processes on many hosts, Redis 7 or Valkey, one server or a cluster. It is as safe as the server is
 * set up to be, and says so: a server that may forget what it acknowledged refuses actions that hold their doubts.
 */
import { performance } from "node:perf_hooks";
import type { Instant } from "../../core/record.ts";
import type {
  Finding,
  GuardedPolicy,
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
import { refuseClosed } from "../shared/closed.ts";
import { Opening } from "../shared/opening.ts";
import type { ServerClock } from "../shared/server-clock.ts";
import { LAYOUT_NUMBER, Names } from "./buckets.ts";
import { connectTo, type Wire, wireOf } from "./client.ts";
import { redisClock } from "./clock.ts";
import { RedisDue } from "./due.ts";
import { otherLayout, redisError } from "./errors.ts";
import { RedisIdentity } from "./identity.ts";
import { RedisLink, textOf } from "./link.ts";
import { type RedisLocation, type RedisStoreOptions, readLocation } from "./location.ts";
import { RedisPages } from "./pages.ts";
import { RedisRows } from "./rows.ts";
import { LAYOUT } from "./scripts.ts";
import { askServer, findingsOf, holdRefusal, type ServerFacts, survivesOf } from "./server.ts";
import { RedisUpkeep } from "./upkeep.ts";
import { RedisWatch } from "./watch.ts";

export type { RedisClient } from "./client.ts";
export type { RedisStoreOptions } from "./location.ts";

// Somebody may turn eviction on while we run. The engine asks once a minute for each kind of action; the answer serves all of them.
const FACTS_MS = 1_000;

export function redisStore(options: RedisStoreOptions): Store;
/** @internal With a clock that was read before the store was loaded. */
export function redisStore(options: RedisStoreOptions, clock: ServerClock): Store;
export function redisStore(options: RedisStoreOptions, clock = redisClock()): Store {
  return new RedisStore(readLocation(options), clock);
}

/** Everything that needs to know which server it is. */
interface Parts {
  readonly link: RedisLink;
  readonly identity: RedisIdentity;
  readonly rows: RedisRows;
  readonly pages: RedisPages;
  readonly due: RedisDue;
  readonly upkeep: RedisUpkeep;
}

class RedisStore implements Store {
  readonly name: string;
  // Measured at 256 callers: larger batches make the server and the program wait for each other in turns.
  readonly batchRows = 128;
  readonly #options: RedisLocation;
  readonly #names: Names;
  readonly #clock: ServerClock;
  readonly #watch: RedisWatch;
  #parts: Parts | null = null;
  readonly #opening = new Opening(() => this.#connect());
  #factsAt = 0;
  #facts: ServerFacts | null = null;
  #closed = false;

  constructor(options: RedisLocation, clock: ServerClock) {
    this.#options = options;
    this.#clock = clock;
    this.name = options.where;
    this.#names = new Names(options.prefix);
    this.#watch = new RedisWatch(async () => (await this.#open()).link.wire, this.#names);
  }

  get traits(): StoreTraits {
    return { hosts: "many", survives: survivesOf(this.#facts), clock: "store", dueIndex: true };
  }

  now(): number {
    return this.#clock.now();
  }

  instant(): Instant {
    return this.#clock.instant();
  }

  async refuses({ doubt }: GuardedPolicy): Promise<string | null> {
    const { link } = await this.#open();
    if (performance.now() - this.#factsAt > FACTS_MS) await this.#askAgain(link);
    return doubt === "hold" && !this.#options.allowUnsafe ? holdRefusal(this.#facts as ServerFacts) : null;
  }

  async read(keys: readonly string[]): Promise<(Stored | null)[]> {
    const { rows } = this.#parts ?? (await this.#open());
    this.#refuseWhenClosed();
    return keys.length === 0 ? [] : rows.read(keys);
  }

  async write(puts: readonly Put[]): Promise<PutResult[]> {
    const { rows, upkeep } = this.#parts ?? (await this.#open());
    this.#refuseWhenClosed();
    if (puts.length === 0) return [];
    const results = await rows.write(puts);
    upkeep.inserted(puts.filter(({ expected }) => expected === null).length);
    return results;
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    return (await this.#open()).due.lease(query);
  }

  async list(query: ListQuery): Promise<Page> {
    const { pages, identity } = await this.#open();
    const page = await pages.list(query, this.instant());
    await identity.checkAll();
    return page;
  }

  async stats(query: StatsQuery = {}): Promise<LedgerStats> {
    const { upkeep, identity } = await this.#open();
    const stats = await upkeep.stats(query);
    // Read after the counts: what they are counts of was this ledger until now.
    await identity.checkAll();
    return stats;
  }

  async sweep(query: SweepQuery): Promise<number> {
    const { upkeep, identity } = await this.#open();
    await identity.checkAll();
    return upkeep.sweep(query);
  }

  watch(key: string, wake: () => void): () => void {
    return this.#watch.watch(key, wake);
  }

  async inspect(): Promise<readonly Finding[]> {
    const { link, identity } = await this.#open();
    await identity.checkAll();
    const facts = await this.#askAgain(link);
    return findingsOf(facts, `${this.name}, by ${link.wire.driver}`, this.#options.allowUnsafe);
  }

  async quarantine(key: string): Promise<Quarantined | null> {
    const { rows, identity } = await this.#open();
    await identity.checkAll();
    const aside = await rows.quarantine(key);
    return aside === null ? null : { key, keptIn: `the Redis key ${aside}` };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#watch.close();
    const opened = await this.#opening.opened();
    if (this.#options.client === null) await opened?.link.wire.end();
  }

  // ---- finding the server ----

  async #open(): Promise<Parts> {
    this.#refuseWhenClosed();
    this.#parts = await this.#opening.get();
    this.#refuseWhenClosed();
    return this.#parts;
  }

  async #connect(): Promise<Parts> {
    const { client, url } = this.#options;
    if (client !== null) return this.#build(wireOf(client));
    // A URL names one server; only the server knows whether it is part of a cluster.
    const single = await this.#over(connectTo(url, "single"), async (wire) => {
      const info = String(await this.#linkOver(wire).ask("INFO", "cluster"));
      return info.includes("cluster_enabled:1") ? null : this.#build(wire);
    });
    return single ?? ((await this.#over(connectTo(url, "cluster"), (wire) => this.#build(wire))) as Parts);
  }

  /** A connection of our own that nobody uses in the end is closed again. */
  async #over(wire: Wire, work: (wire: Wire) => Promise<Parts | null>): Promise<Parts | null> {
    let parts: Parts | null = null;
    try {
      parts = await work(wire);
      return parts;
    } catch (error) {
      throw redisError(error, this.name);
    } finally {
      if (parts === null) await wire.end();
    }
  }

  async #build(wire: Wire): Promise<Parts> {
    const link = this.#linkOver(wire);
    await this.#askAgain(link);
    // Any answer would do to set the clock by before the first claim; this one also says whether we can read the ledger.
    const [layout] = await link.run(LAYOUT, [this.#names.layout], [LAYOUT_NUMBER]);
    if (textOf(layout) !== LAYOUT_NUMBER) throw otherLayout(this.name, textOf(layout));
    const names = this.#names;
    const identity = await RedisIdentity.establish(link, names);
    const rows = new RedisRows({ link, names, identity, now: () => this.now() });
    const upkeep = new RedisUpkeep(link, names);
    const due = new RedisDue({ link, names, identity, rows, upkeep, instant: () => this.instant() });
    return { link, identity, rows, upkeep, due, pages: new RedisPages(link, names, rows) };
  }

  #linkOver(wire: Wire): RedisLink {
    return new RedisLink({ wire, where: this.name, clock: this.#clock, timeoutMs: this.#options.timeoutMs });
  }

  async #askAgain(link: RedisLink): Promise<ServerFacts> {
    const facts = await askServer(link);
    this.#facts = facts;
    this.#factsAt = performance.now();
    return facts;
  }

  #refuseWhenClosed(): void {
    refuseClosed(this.#closed, this.name);
  }
}
