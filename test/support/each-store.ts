/** Runs a behaviour against the memory store and against SQLite (the built package: the store's thread loads dist). */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type EngineEvent,
  type Instant,
  type LedgerRecord,
  type Nevertwice,
  type NevertwiceOptions,
  nevertwice,
  type Store,
} from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, onTestFinished } from "vitest";

/** The store's clock: real time plus what the test let pass. */
export interface SteeredClock {
  instant(): Instant;
  advance(ms: number): void;
}

export interface Bench {
  readonly nt: Nevertwice;
  readonly clock: SteeredClock;
  /** The data's own store, for looking at records behind the engine's back. */
  readonly store: Store;
  /** What `nt` told its listeners, and its warnings. */
  readonly events: EngineEvent[];
  /** Another nevertwice() on the same data, as another process would have it. */
  another(options?: Omit<NevertwiceOptions, "store"> & { wrap?: (store: Store) => Store }): Nevertwice;
  record(key: string): Promise<LedgerRecord>;
}

export type Open = (options?: Omit<NevertwiceOptions, "store"> & { wrap?: (store: Store) => Store }) => Bench;

export function steeredClock(): SteeredClock {
  let passed = 0;
  return {
    instant: () => ({ now: Date.now() + passed, steady: performance.now() + passed, epoch: "test" }),
    advance: (ms) => {
      passed += ms;
    },
  };
}

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export const openMemory: Open = (options) => {
  const clock = steeredClock();
  const store = memoryStore({ clock });
  return bench(clock, () => store, options);
};

export const openSqlite: Open = (options) => {
  const clock = steeredClock();
  const path = join(temporaryFolder(), "ledger.db");
  return bench(clock, () => sqliteStore({ path, clock }), options);
};

export function eachStore(title: string, body: (open: Open) => void): void {
  describe(`${title} (memory)`, () => body(openMemory));
  describe(`${title} (sqlite)`, () => body(openSqlite));
}

function bench(clock: SteeredClock, connect: () => Store, options: Parameters<Open>[0] = {}): Bench {
  const opened: Nevertwice[] = [];
  const store = connect();
  onTestFinished(async () => {
    for (const one of opened) await one.close();
    // The last: in memory it is the very store of the others, and what they have still to write would wait for it.
    await store.close();
  });
  const another: Bench["another"] = ({ wrap = (store: Store) => store, ...rest } = {}) => {
    const made = nevertwice({ sweep: false, onWarning: () => {}, ...rest, store: wrap(connect()) });
    opened.push(made);
    return made;
  };
  const nt = another(options);
  const events: EngineEvent[] = [];
  nt.on((event) => events.push(event));
  const record = async (key: string) => {
    const [stored] = await store.read([key]);
    if (!stored) throw new Error(`there is no record ${key}`);
    return stored.record;
  };
  return { nt, clock, store, events, another, record };
}

/** The kinds of event, in order, for short assertions. */
export function kinds(events: readonly EngineEvent[]): string[] {
  return events.map((event) => event.type);
}
