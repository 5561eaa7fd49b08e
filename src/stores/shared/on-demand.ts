/**
 * A store that was given by its name, before its code is loaded. What the engine asks for at once (its name, its traits, its
 * clock) is known from the name; everything else loads the store, at the first call, and is passed on to it.
 */
import { messageOf, NevertwiceError } from "../../core/errors.ts";
import type { Instant } from "../../core/record.ts";
import type {
  Finding,
  GuardedPolicy,
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
  TransactionalStore,
  TransactionView,
} from "../../core/store.ts";

export interface KnownFromName {
  readonly name: string;
  /** Until the store is loaded: then its own. */
  readonly traits: StoreTraits;
  /** The store's own clock, made before it and handed to it. */
  readonly clock: { instant(): Instant };
  readonly batchRows?: number;
  readonly crowdedBatchRows?: number;
  /** Members of the port that not every store has, and this one does. */
  readonly has: readonly ("watch" | "refuses" | "within")[];
}

/** `load` is called once, or again after it failed. */
export function storeOnDemand(known: KnownFromName, load: () => Promise<Store>): Store {
  return new StoreOnDemand(known, load);
}

class StoreOnDemand implements Store {
  readonly name: string;
  readonly batchRows?: number;
  readonly crowdedBatchRows?: number;
  readonly watch?: (key: string, wake: () => void) => () => void;
  readonly refuses?: (policy: GuardedPolicy) => Promise<string | null>;
  readonly within?: (tx: unknown) => TransactionView;
  readonly #known: KnownFromName;
  readonly #load: () => Promise<Store>;
  #loading: Promise<Store> | null = null;
  #store: Store | null = null;

  constructor(known: KnownFromName, load: () => Promise<Store>) {
    this.#known = known;
    this.#load = load;
    this.name = known.name;
    if (known.batchRows !== undefined) this.batchRows = known.batchRows;
    if (known.crowdedBatchRows !== undefined) this.crowdedBatchRows = known.crowdedBatchRows;
    if (known.has.includes("watch")) this.watch = (key, wake) => this.#watch(key, wake);
    if (known.has.includes("refuses"))
      this.refuses = async (policy) => (await this.#loaded()).refuses?.(policy) ?? null;
    if (known.has.includes("within")) this.within = (tx) => this.#within(tx);
  }

  get traits(): StoreTraits {
    return this.#store?.traits ?? this.#known.traits;
  }

  now(): number {
    return this.#known.clock.instant().now;
  }

  instant(): Instant {
    return this.#known.clock.instant();
  }

  read(keys: readonly string[]): Promise<(Stored | null)[]> {
    return this.#store === null ? this.#loaded().then((store) => store.read(keys)) : this.#store.read(keys);
  }

  write(puts: readonly Put[]): Promise<PutResult[]> {
    return this.#store === null ? this.#loaded().then((store) => store.write(puts)) : this.#store.write(puts);
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    return (await this.#loaded()).lease(query);
  }

  async list(query: ListQuery): Promise<Page> {
    return (await this.#loaded()).list(query);
  }

  async stats(query?: StatsQuery): Promise<LedgerStats> {
    return (await this.#loaded()).stats(query);
  }

  async sweep(query: SweepQuery): Promise<number> {
    return (await this.#loaded()).sweep(query);
  }

  async quarantine(key: string): Promise<Quarantined | null> {
    return (await this.#loaded()).quarantine?.(key) ?? null;
  }

  async inspect(query?: InspectQuery): Promise<readonly Finding[]> {
    return (await this.#loaded()).inspect?.(query) ?? [];
  }

  /** Loads it even then: calls after close() are refused in the store's own words. */
  async close(): Promise<void> {
    await (await this.#loaded()).close();
  }

  #watch(key: string, wake: () => void): () => void {
    if (this.#store !== null) return this.#store.watch?.(key, wake) ?? (() => {});
    let stop: (() => void) | null = () => {};
    // A hint only: where the store cannot be loaded, the calls themselves say so.
    this.#loaded().then(
      (store) => {
        if (stop !== null) stop = store.watch?.(key, wake) ?? stop;
      },
      () => {},
    );
    return () => {
      stop?.();
      stop = null;
    };
  }

  #within(tx: unknown): TransactionView {
    const inside = (store: Store) => (store as TransactionalStore<unknown>).within(tx);
    if (this.#store !== null) return inside(this.#store);
    let view: Promise<TransactionView> | null = null;
    const loaded = () => {
      view ??= this.#loaded().then(inside);
      return view;
    };
    return {
      read: async (keys) => (await loaded()).read(keys),
      write: async (puts) => (await loaded()).write(puts),
      atomically: async (work) => {
        const its = await loaded();
        return its.atomically === undefined ? work() : its.atomically(work);
      },
    };
  }

  #loaded(): Promise<Store> {
    this.#loading ??= this.#load().then(
      (store) => {
        this.#store = store;
        return store;
      },
      (error: unknown) => {
        this.#loading = null;
        throw new NevertwiceError(
          "STORE_UNAVAILABLE",
          `the code of the store ${this.name} could not be loaded: ${messageOf(error)}. Nothing was run by this call. Install nevertwice again, or pass the store itself: import its factory and give what it returns as store.`,
        );
      },
    );
    return this.#loading;
  }
}
