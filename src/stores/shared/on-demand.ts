/**
 * A store that was given by its name, before its code is loaded. What the engine asks for at once (its name, its traits, its
 * clock) is known from the name; everything else loads the store, at the first call, and is passed on to it.
 */
import { messageOf, NevertwiceError } from "../../core/errors.ts";
import type { Instant } from "../../core/record.ts";
import type { Store, StoreTraits, TransactionalStore, TransactionView } from "../../core/store.ts";
import { Opening } from "./opening.ts";

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
  const { name, clock, has } = known;
  let store: Store | null = null;
  const opening = new Opening(async () => {
    store = await load().catch((error: unknown) => {
      throw notLoaded(name, error);
    });
    return store;
  });
  const loaded = () => opening.get();
  /** Passes a call on: at once where the store is loaded. */
  const on = <T>(call: (store: Store) => Promise<T>): Promise<T> =>
    store === null ? loaded().then(call) : call(store);
  const { batchRows, crowdedBatchRows } = known;
  return {
    name,
    get traits() {
      return store?.traits ?? known.traits;
    },
    ...(batchRows !== undefined && { batchRows }),
    ...(crowdedBatchRows !== undefined && { crowdedBatchRows }),
    now: () => clock.instant().now,
    instant: () => clock.instant(),
    read: (keys) => on((its) => its.read(keys)),
    write: (puts) => on((its) => its.write(puts)),
    lease: (query) => on((its) => its.lease(query)),
    list: (query) => on((its) => its.list(query)),
    stats: (query) => on((its) => its.stats(query)),
    sweep: (query) => on((its) => its.sweep(query)),
    quarantine: (key) => on(async (its) => its.quarantine?.(key) ?? null),
    inspect: (query) => on(async (its) => its.inspect?.(query) ?? []),
    // Loads it even then: calls after close() are refused in the store's own words.
    close: () => on((its) => its.close()),
    ...(has.includes("refuses") && { refuses: (policy) => on(async (its) => its.refuses?.(policy) ?? null) }),
    ...(has.includes("watch") && {
      watch: (key, wake) =>
        store === null ? watchLater(loaded(), key, wake) : (store.watch?.(key, wake) ?? (() => {})),
    }),
    ...(has.includes("within") && {
      within: (tx: unknown) =>
        store === null ? viewLater(loaded, tx) : (store as TransactionalStore<unknown>).within(tx),
    }),
  } satisfies Store & Partial<TransactionalStore<unknown>>;
}

/** A hint only: where the store cannot be loaded, the calls themselves say so. */
function watchLater(loading: Promise<Store>, key: string, wake: () => void): () => void {
  let stop: (() => void) | null = () => {};
  loading.then(
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

function viewLater(loaded: () => Promise<Store>, tx: unknown): TransactionView {
  let view: Promise<TransactionView> | null = null;
  const its = () => {
    view ??= loaded().then((store) => (store as TransactionalStore<unknown>).within(tx));
    return view;
  };
  return {
    read: async (keys) => (await its()).read(keys),
    write: async (puts) => (await its()).write(puts),
    atomically: async (work) => {
      const { atomically = (alone) => alone() } = await its();
      return atomically(work);
    },
  };
}

function notLoaded(name: string, error: unknown): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the code of the store ${name} could not be loaded: ${messageOf(error)}. Nothing was run by this call. Install nevertwice again, or pass the store itself: import its factory and give what it returns as store.`,
  );
}
