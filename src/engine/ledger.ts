/**
 * The store as the engine uses it: events go in, compare-and-swap goes out. Concurrent callers share round trips, a
 * store that is down is recognised, and a write whose reply was lost is recognised as our own.
 */
import {
  type DamagedRecord,
  describeDamage,
  isDamagedRecord,
  isOfAllRecords,
  isStoreDown,
} from "../core/damaged-record.ts";
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../core/errors.ts";
import { BLANK_RECORD, type Instant, type LedgerRecord, type Payload } from "../core/record.ts";
import type { Refusal } from "../core/refusal.ts";
import {
  type GuardedPolicy,
  instantOf,
  type LeaseQuery,
  type ListQuery,
  type Page,
  type Put,
  type PutResult,
  type Store,
  type Stored,
  type SweepQuery,
} from "../core/store.ts";
import { type LedgerEvent, transition } from "../core/transition.ts";
import { Breaker } from "./breaker.ts";
import type { Clock } from "./clock.ts";
import { Coalescer, type Waiting } from "./coalescer.ts";
import type { Events } from "./events.ts";

export type Applied =
  | { readonly ok: true; readonly stored: Stored }
  | { readonly ok: false; readonly refusal: Refusal; readonly stored: Stored | null };

/**
 * An event, or how to make one from the record as it stands (a sealed input is bound to the fence it will get). Null:
 * the record turned out to be one this event must not touch.
 */
export type EventSource = LedgerEvent | ((current: LedgerRecord | null) => LedgerEvent | null);

const REFUSED = { ok: false, refusal: "exists" } as const;

/** Whoever waits for an event to be carried out. An object, not two closures: there are two of these in every call. */
export interface Applying {
  applied(applied: Applied): void;
  failed(error: unknown): void;
}

export interface LedgerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
  readonly random: () => number;
  /** Told of every record that cannot be read. */
  readonly damaged?: (damaged: DamagedRecord) => void;
}

// A third of a busy process's callers each: one batch is being written, one waits for its turn, one works (256 callers).
const MAX_WRITE_BATCH = 96;
// Reads are cheap and answered in memory order; smaller batches let the event loop breathe between them.
const MAX_READ_BATCH = 128;
const MAX_IN_FLIGHT = 3;
// A swap that loses this often is not unlucky, it is starved: better an error than an endless loop.
const MAX_SWAPS = 64;
const WRITE_TRIES = 3;
// A server's settings may be changed while the program runs: what a store admitted is asked again after this time.
const ADMITTED_MS = 60_000;
const WRITE_RETRY_MS = 25;

export class Ledger {
  readonly store: Store;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #damaged: (damaged: DamagedRecord) => void;
  readonly #breaker: Breaker;
  /** What the store said, by the error that callers got. */
  readonly #reasons = new WeakMap<object, string>();
  readonly #reads: Coalescer<string, Stored | null>;
  readonly #writes: Coalescer<Put, PutResult>;
  /** When the store last admitted a policy. */
  readonly #admitted = new Map<GuardedPolicy["doubt"], number>();

  constructor({ store, clock, events, random, damaged = () => {} }: LedgerOptions) {
    this.store = store;
    this.#clock = clock;
    this.#random = random;
    this.#damaged = damaged;
    this.#breaker = new Breaker(clock, {
      failures: 5,
      openMs: 500,
      maxOpenMs: 30_000,
      onChange: (state, error) => {
        if (state === "open") events.emit({ type: "store_down", store: store.name, error });
        if (state === "closed") events.emit({ type: "store_up", store: store.name });
      },
    });
    const shared = {
      maxInFlight: MAX_IN_FLIGHT,
      splittable: (error: unknown) => !isOfAllRecords(error),
      culprit: (error: unknown) => (isDamagedRecord(error) ? (error.key ?? null) : null),
      answered: () => this.#breaker.succeeded(),
      unanswered: (error: unknown, size: number) => this.#blamed(error, size),
    };
    this.#reads = new Coalescer({
      ...shared,
      maxBatch: MAX_READ_BATCH,
      flush: (keys) => this.#open(() => store.read(keys)),
    });
    this.#writes = new Coalescer({
      ...shared,
      maxBatch: store.batchRows ?? MAX_WRITE_BATCH,
      ...(store.crowdedBatchRows !== undefined && { mostInCrowd: store.crowdedBatchRows }),
      flush: (puts) => this.#open(() => store.write(puts)),
    });
  }

  instant(): Instant {
    return instantOf(this.store);
  }

  /** Null: the store may guard such actions. Otherwise to be waited for; it rejects with what the store says against it. */
  admits(doubt: GuardedPolicy["doubt"]): Promise<void> | null {
    if (this.store.refuses === undefined) return null;
    const at = this.#admitted.get(doubt);
    return at !== undefined && this.#clock.monotonic() - at < ADMITTED_MS ? null : this.#ask(doubt);
  }

  async #ask(doubt: GuardedPolicy["doubt"]): Promise<void> {
    let refusal: string | null;
    try {
      refusal = await this.#open(async () => (await this.store.refuses?.({ doubt })) ?? null);
      this.#breaker.succeeded();
    } catch (error) {
      throw this.#blamed(error, 1);
    }
    if (refusal !== null) throw configError(`the ledger (${this.store.name}) does not take this action: ${refusal}`);
    this.#admitted.set(doubt, this.#clock.monotonic());
  }

  read(key: string): Promise<Stored | null> {
    return this.#reads.submit(key, key);
  }

  /** Whether the store is back is found out now, and not when its pause is over. Never throws. */
  async askNow(): Promise<void> {
    this.#breaker.tryNow();
    await this.read(NO_KEY).catch(() => {});
  }

  /** One record as it is given, for what is no event of an intent (notes, aliases). Shares the commit of whoever writes. */
  put(put: Put): Promise<PutResult> {
    return this.#writes.submit(put.record.key, put);
  }

  /** Damaged records are reported and passed over. */
  async list(query: ListQuery): Promise<Page> {
    const page = await this.#named(() => this.store.list(query));
    for (const one of page.damaged ?? []) this.#damaged(one);
    return page;
  }

  sweep(query: SweepQuery): Promise<number> {
    return this.#named(() => this.store.sweep(query));
  }

  /** Whatever the store throws, its callers hear of a store that did not answer. */
  async #named<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw isNevertwiceError(error) ? error : this.#unavailable(error, "");
    }
  }

  lease(query: Omit<LeaseQuery, "damaged">): Promise<Stored[]> {
    return this.#named(() => this.store.lease({ ...query, damaged: this.#damaged }));
  }

  /** A record's error that was met outside of a read or a write of this ledger's own: an input that cannot be opened. */
  reportDamage(error: unknown): void {
    if (isDamagedRecord(error)) this.#damaged(describeDamage(error));
  }

  /**
   * Carries an event out on the record as it stands, however often others get in between. `alone`: nobody else is under
   * way in this process.
   */
  apply(seen: Stored | null, source: EventSource, alone = false): Promise<Applied> {
    return new Promise((applied, failed) => this.applyThen(seen, source, { applied, failed }, alone));
  }

  /** The same for a listener: this runs twice in every call, and each promise on the way costs it half a microsecond. */
  applyThen(seen: Stored | null, source: EventSource, listener: Applying, alone = false): void {
    new Swap(this, this.#writes, source, listener, alone).to(seen);
  }

  /** When to write again what got no answer; null: it is over. */
  pauseBefore(tries: number, error: unknown): number | null {
    if (tries >= WRITE_TRIES || !isStoreDown(error) || this.#breaker.state !== "closed") return null;
    return WRITE_RETRY_MS * tries * (0.5 + this.#random());
  }

  after(ms: number, work: () => void): void {
    this.#clock.after(ms, work);
  }

  #open<T>(work: () => Promise<T>): Promise<T> {
    if (this.#breaker.allows()) return work();
    return Promise.reject(new Shut(this.#breaker.lastError));
  }

  /** What a failure says of the store, and what its callers hear. */
  #blamed(error: unknown, size: number): unknown {
    if (error instanceof Shut) return this.#unavailable(error.cause, "; it failed repeatedly and is given a pause");
    // An error the store did not name may be about one row: let the coalescer look for it before blaming the store.
    const named = isNevertwiceError(error) ? error : size > 1 ? null : this.#unavailable(error, "");
    this.reportDamage(named);
    if (isStoreDown(named)) this.#breaker.failed(named);
    else this.#breaker.undecided();
    return named ?? error;
  }

  #unavailable(cause: unknown, more: string): NevertwiceError {
    // The error of the call before this one may be of this method already: its reason is said once.
    const why =
      this.#reasons.get(cause as object) ?? ended(isNevertwiceError(cause) ? cause.message : messageOf(cause));
    const remedy = /nothing (?:is|was|has been) run/i.test(why)
      ? ""
      : " Nothing is run without it. Restore the store and call again.";
    const error = new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the ledger (${this.store.name}) did not answer${more}: ${why}${remedy}`,
      { cause },
    );
    this.#reasons.set(error, why);
    return error;
  }
}

/** What a driver says has often no full stop. */
function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** One event on its way into the store: compared, swapped, and begun again on what others have written meanwhile. */
class Swap implements Waiting<Put, PutResult> {
  readonly #ledger: Ledger;
  readonly #writes: Coalescer<Put, PutResult>;
  readonly #source: EventSource;
  readonly #listener: Applying;
  readonly #alone: boolean;
  #swapsLeft = MAX_SWAPS;
  #tries = 1;
  key = "";
  request: Put = NO_PUT;

  constructor(
    ledger: Ledger,
    writes: Coalescer<Put, PutResult>,
    source: EventSource,
    listener: Applying,
    alone: boolean,
  ) {
    this.#alone = alone;
    this.#ledger = ledger;
    this.#writes = writes;
    this.#source = source;
    this.#listener = listener;
  }

  to(seen: Stored | null): void {
    const source = this.#source;
    const event = typeof source === "function" ? source(seen?.record ?? null) : source;
    const change = event === null ? REFUSED : transition(seen?.record ?? null, event, this.#ledger.instant());
    if (!change.ok) {
      this.#listener.applied({ ok: false, refusal: change.refusal, stored: seen });
      return;
    }
    const { record } = change;
    if (this.#swapsLeft === 0) throw starved(record.key);
    this.#swapsLeft -= 1;
    this.#tries = 1;
    this.key = record.key;
    this.request = { record, expected: seen?.version ?? null, before: seen?.record };
    this.#writes.enter(this, this.#alone);
  }

  resolve(result: PutResult): void {
    const { record } = this.request;
    // What is thrown from here on is no answer of the store, and must not be taken for a write to repeat.
    try {
      if (result.ok) this.#listener.applied({ ok: true, stored: { record, version: result.version } });
      else if (result.current !== null && sameWrite(result.current.record, record))
        this.#listener.applied({ ok: true, stored: result.current });
      else this.to(result.current);
    } catch (error) {
      this.#listener.failed(error);
    }
  }

  /** A write without an answer is written again: if the first one arrived, the conflict shows our own record. */
  reject(error: unknown): void {
    const pauseMs = this.#ledger.pauseBefore(this.#tries, error);
    if (pauseMs === null) {
      this.#listener.failed(error);
      return;
    }
    this.#tries += 1;
    this.#ledger.after(pauseMs, () => this.#writes.enter(this));
  }
}

/** The breaker is open: nobody was asked, and nobody is to blame again. */
class Shut extends Error {
  constructor(cause: unknown) {
    super("the store is given a pause", { cause });
  }
}

/** No record has it. */
const NO_KEY = "nt1_";

const NO_PUT: Put = { record: BLANK_RECORD, expected: null };

function starved(key: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the ledger changed ${MAX_SWAPS} times under one write. Nothing was run by this call; call again.`,
    { key },
  );
}

/** The row in the store is the one we wrote: the reply was lost, not the write. */
function sameWrite(theirs: LedgerRecord, ours: LedgerRecord): boolean {
  return (
    theirs.fence === ours.fence &&
    theirs.holder === ours.holder &&
    theirs.state === ours.state &&
    theirs.attempt === ours.attempt &&
    theirs.updatedAt === ours.updatedAt &&
    theirs.lease?.until === ours.lease?.until &&
    theirs.history.length === ours.history.length &&
    textOf(theirs.result) === textOf(ours.result)
  );
}

function textOf(payload: Payload | null): string | null {
  if (payload === null) return null;
  return "json" in payload ? payload.json : "sealed" in payload ? payload.sealed : payload.omitted;
}
