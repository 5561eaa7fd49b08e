/** What a conformance test is made of: the ledger a store's author brings, and the bench each test gets from it. */
import type { Instant } from "../core/record.ts";
import { instantOf, type Store } from "../core/store.ts";

/** vitest, node:test, jest and mocha all have this shape. */
export interface TestRunner {
  describe(name: string, body: () => void): void;
  it(name: string, body: () => Promise<void> | void): void;
}

export interface ConformanceLedger {
  readonly store: Store;
  /** A second, independent store on the same data, where there can be one (another connection). */
  reopen?(): Promise<Store> | Store;
  /** Moves the store's clock, where the test controls it. */
  advance?(ms: number): Promise<void> | void;
  /** Damages the stored bytes of one record, to show that it is noticed. */
  corrupt?(key: string): Promise<void> | void;
  /** Runs fn(tx) in the caller's own transaction, and rolls back if it throws. */
  transaction?<T>(fn: (tx: unknown) => Promise<T>): Promise<T>;
  dispose(): Promise<void> | void;
}

export const OFFERS = ["reopen", "advance", "corrupt", "transaction"] as const;

export type ConformanceOffer = (typeof OFFERS)[number];

export interface ConformanceOptions {
  readonly name: string;
  /** A new empty ledger for each test. */
  readonly open: () => Promise<ConformanceLedger> | ConformanceLedger;
  readonly runner: TestRunner;
  /**
   * The optional members that `open`'s ledgers have. Tests are registered before a ledger can be opened, so it is said
   * here; a test compares the two, so that none is left out by mistake.
   */
  readonly offers?: readonly ConformanceOffer[];
  /** How many contenders a race has; 20 unless given. */
  readonly races?: number;
  /** How many records of others stand before what a test looks for; 1 000 unless given. */
  readonly backlog?: number;
}

/** What one test works with. */
export interface Bench {
  readonly store: Store;
  readonly ledger: ConformanceLedger;
  readonly offers: readonly ConformanceOffer[];
  readonly races: number;
  readonly backlog: number;
  /** The store's clock when the test began. */
  readonly at: Instant;
  /** Another connection where the ledger offers one, the same store where not. */
  second(): Promise<Store>;
}

export interface Case {
  readonly name: string;
  readonly needs?: ConformanceOffer;
  readonly body: (bench: Bench) => Promise<void>;
}

export async function onFreshLedger(options: ConformanceOptions, body: (bench: Bench) => Promise<void>): Promise<void> {
  const ledger = await options.open();
  const opened: Store[] = [];
  const second = async () => {
    if (ledger.reopen === undefined) return ledger.store;
    const store = await ledger.reopen();
    opened.push(store);
    return store;
  };
  const { offers = [], races = 20, backlog = 1_000 } = options;
  try {
    await body({ ledger, store: ledger.store, offers, races, backlog, at: instantOf(ledger.store), second });
  } finally {
    for (const store of opened) await store.close();
    await ledger.dispose();
  }
}
