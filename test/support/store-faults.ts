/** Stores that misbehave on the way, for the faults no real store shows on demand. */
import type { Put, PutResult, Store } from "nevertwice";
import { onTestFinished } from "vitest";

function passOn(store: Store, changed: Partial<Store>): Store {
  return {
    name: store.name,
    traits: store.traits,
    now: () => store.now(),
    ...(store.instant && { instant: () => store.instant?.() as ReturnType<NonNullable<Store["instant"]>> }),
    ...(store.refuses && { refuses: (policy) => store.refuses?.(policy) ?? Promise.resolve(null) }),
    read: (keys) => store.read(keys),
    write: (puts) => store.write(puts),
    lease: (query) => store.lease(query),
    list: (query) => store.list(query),
    stats: () => store.stats(),
    sweep: (query) => store.sweep(query),
    close: () => store.close(),
    ...changed,
  };
}

export interface Faults {
  /** Commits the writes this says yes to, and loses the reply. */
  loseReply?: (put: Put) => boolean;
  /** Called before a write; may wait, or throw instead of writing. */
  beforeWrite?: (puts: readonly Put[]) => void | Promise<void>;
  /** Called after a write was committed, before its reply. */
  afterWrite?: (puts: readonly Put[], results: readonly PutResult[]) => void | Promise<void>;
  beforeRead?: (keys: readonly string[]) => void | Promise<void>;
  /** Nothing answers. */
  down?: boolean;
}

export function faulty(store: Store, faults: Faults): Store {
  // close() goes on trying while the store is down.
  onTestFinished(() => {
    faults.down = false;
  });
  const refuse = () => {
    if (faults.down) throw new Error("connection to the store lost");
  };
  return passOn(store, {
    async read(keys) {
      refuse();
      await faults.beforeRead?.(keys);
      return store.read(keys);
    },
    async write(puts) {
      refuse();
      await faults.beforeWrite?.(puts);
      const results = await store.write(puts);
      await faults.afterWrite?.(puts, results);
      if (puts.some((put) => faults.loseReply?.(put))) throw new Error("the reply was lost");
      return results;
    },
  });
}

/** True for the first `times` puts into the state, false afterwards. */
export function firstInto(state: Put["record"]["state"], times = 1): (put: Put) => boolean {
  let left = times;
  return (put) => {
    if (put.record.state !== state || left <= 0) return false;
    left -= 1;
    return true;
  };
}
