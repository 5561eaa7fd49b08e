/**
 * The store port: batches of compare-and-swap. The rules live in core; a store only swaps records.
 * Every method takes a batch, because the engine coalesces concurrent callers into one round trip and one commit.
 */
import type { DamagedRecord } from "./damaged-record.ts";
import type { Instant, LedgerRecord, State } from "./record.ts";

export interface StoreTraits {
  readonly hosts: "one" | "many";
  readonly survives: "power-loss" | "crash" | "best-effort" | "nothing";
  readonly clock: "store" | "client";
  /** Whether due work is found by an index (false: by a scan, fit for modest volume). */
  readonly dueIndex: boolean;
}

/** A record and the store's own revision of its row, which every write must name. */
export interface Stored {
  readonly record: LedgerRecord;
  readonly version: number;
}

/** Swap: `expected` null means "only if there is no row". */
export interface Put {
  readonly record: LedgerRecord;
  readonly expected: number | null;
  /** What the row holds at revision `expected`, where that is known: a store need not write again what is the same. */
  readonly before?: LedgerRecord | undefined;
}

/** A conflict always carries the row as it is now (null: there is none). */
export type PutResult =
  | { readonly ok: true; readonly version: number }
  | { readonly ok: false; readonly current: Stored | null };

export interface LeaseQuery {
  readonly holder: string;
  readonly limit: number;
  readonly leaseMs: number;
  /** claimed: surely not sent yet; sent: straight to the effect. */
  readonly to: "claimed" | "sent";
  readonly actions?: readonly string[];
  readonly tenant?: string;
  /** Called for each due record that cannot be read. It is passed over: the others are handed out. */
  readonly damaged?: (damaged: DamagedRecord) => void;
}

export interface ListQuery {
  readonly limit: number;
  readonly cursor?: string;
  readonly tenant?: string;
  readonly action?: string;
  readonly states?: readonly State[];
  /** Only claimed or sent records whose lease is over. */
  readonly lapsed?: boolean;
  readonly keyPrefix?: string;
  readonly scope?: string;
  /** The agent of the last attempt. */
  readonly agent?: string;
  /** Any of these. No index is needed for it: a store may look at every record. */
  readonly providerIds?: readonly string[];
  /** By creation; "newest" unless told otherwise. */
  readonly order?: "newest" | "oldest";
}

export interface Page {
  readonly items: readonly Stored[];
  /** Hand it back for the next page; null: this was the last. */
  readonly cursor: string | null;
  /** Records that would be here, or may be, and cannot be read. Absent: none was met. */
  readonly damaged?: readonly DamagedRecord[];
}

export interface ActionStats {
  readonly action: string;
  readonly total: number;
  readonly states: Readonly<Record<State, number>>;
}

export interface LedgerStats {
  readonly total: number;
  readonly states: Readonly<Record<State, number>>;
  readonly actions: readonly ActionStats[];
  /** Claimed or sent with a lease that is over. */
  readonly lapsed: number;
  readonly oldestPendingAt: number | null;
  readonly oldestUnknownAt: number | null;
}

export interface StatsQuery {
  /** Only this tenant's records; everybody's unless given. */
  readonly tenant?: string;
  /**
   * Only what waits for somebody has to be right: pending, failed, unknown and lapsed records and their ages. A store that
   * would have to read every record for the rest may leave it out.
   */
  readonly waiting?: boolean;
}

export interface InspectQuery {
  /** Only what takes next to no time on a ledger of any size; without it the whole ledger is checked. */
  readonly quick?: boolean;
}

export interface SweepQuery {
  /** Only this tenant's records; everybody's unless given. */
  readonly tenant?: string;
  /** At most this many records are removed by one call. */
  readonly limit: number;
  /** Look until nothing is left to remove; without it a store may look at a part only, and go on from there next time. */
  readonly thorough?: boolean;
  /**
   * Called where the pass ended with a part of the ledger not looked at yet: there may be more to remove at once. Not
   * called where another process is found to be sweeping the same records.
   */
  readonly unfinished?: () => void;
}

export interface Finding {
  readonly name: string;
  readonly value: string;
  readonly ok: boolean;
  /** What to do, where `ok` is false. */
  readonly advice?: string;
  /** Only a part of the ledger was checked for it, or nothing, because the query was quick. */
  readonly partial?: boolean;
}

/** A damaged record that was set aside. Its bytes are kept, and its key is free: its intent may run again. */
export interface Quarantined {
  readonly key: string;
  /** Where its bytes are now, in words that a person can follow. */
  readonly keptIn: string;
}

/** What a store has to know of an action to say whether it may guard it. */
export interface GuardedPolicy {
  readonly doubt: "hold" | "retry" | "settle";
}

export interface Store {
  readonly name: string;
  readonly traits: StoreTraits;
  /** Epoch ms: the store's clock where it has one. */
  now(): number;
  /** The instant leases are judged by. A store without a steady clock of its own leaves it out: `now()` serves. */
  instant?(): Instant;
  /** Rows a write likes best at once; the engine gathers no more. */
  readonly batchRows?: number;
  /** Rows it takes at once where many more are under way: the engine then gathers half of them, up to here. */
  readonly crowdedBatchRows?: number;
  /**
   * Calls `wake` when the record may have changed hands or been settled by another process, where the store can tell.
   * A hint: it may come late or not at all, so the engine looks now and then in any case. Returns the way to stop.
   */
  watch?(key: string, wake: () => void): () => void;
  /**
   * Why this store must not guard an action with such a policy, and what to do about it; null: it may. Asked before the
   * first claim: a store that has to look at its server first (how it persists, what its clock says) does so here.
   */
  refuses?(policy: GuardedPolicy): Promise<string | null>;
  /**
   * A record that cannot be read is not absent: the call rejects with core's damagedRecord(), which names its key. So do
   * `write` and its conflicts. The caller asks again without it.
   */
  read(keys: readonly string[]): Promise<(Stored | null)[]>;
  /** One result per put, in order. Puts of one batch succeed or conflict each on its own. */
  write(puts: readonly Put[]): Promise<PutResult[]>;
  /** Hands out up to `limit` due queued records, fence and attempt + 1. */
  lease(query: LeaseQuery): Promise<Stored[]>;
  list(query: ListQuery): Promise<Page>;
  stats(query?: StatsQuery): Promise<LedgerStats>;
  /** Removes settled records past their `keep`; returns how many. From a thorough sweep, 0 means that none is left. */
  sweep(query: SweepQuery): Promise<number>;
  /**
   * Sets a damaged record aside, its bytes kept, and frees its key. Null: there is none under this key. A record that can
   * be read is refused.
   */
  quarantine?(key: string): Promise<Quarantined | null>;
  /** What `doctor` shows: where the ledger lies, how it is set up, whether it is sound. */
  inspect?(query?: InspectQuery): Promise<readonly Finding[]>;
  close(): Promise<void>;
}

export interface TransactionalStore<Tx> extends Store {
  /** The same ledger seen through the caller's open transaction. */
  within(tx: Tx): TransactionView;
}

export interface TransactionView extends Pick<Store, "read" | "write"> {
  /** All of the work, or none of it, inside the transaction (a savepoint). */
  atomically?<T>(work: () => Promise<T>): Promise<T>;
}

export function instantOf(store: Store): Instant {
  if (store.instant) return store.instant();
  const now = store.now();
  return { now, steady: now, epoch: "" };
}
