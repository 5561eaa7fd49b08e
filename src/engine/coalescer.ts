/**
 * Callers of the same tick share one round trip and one commit. A lone caller pays exactly one round trip: no timer is
 * held to wait for company. A batch that fails for the sake of one row is split, so that its neighbours succeed.
 */
import { performance } from "node:perf_hooks";
import { nextTick, setImmediate } from "./real-timers.ts";

/** A request and whoever waits for its answer. */
export interface Waiting<Request, Response> {
  readonly request: Request;
  readonly key: string;
  resolve(response: Response): void;
  reject(error: unknown): void;
}

export interface CoalescerOptions<Request, Response> {
  readonly flush: (batch: readonly Request[]) => Promise<readonly Response[]>;
  readonly maxBatch: number;
  /** How far a batch may grow beyond that: it holds half of the requests that were lately under way at once, up to here. */
  readonly mostInCrowd?: number;
  /** Batches under way at once: they keep the store busy while the next one gathers. */
  readonly maxInFlight: number;
  /** Whether a failed batch may succeed in halves; false for a store that is down altogether. */
  readonly splittable: (error: unknown) => boolean;
  /** The key of the one request that a batch failed for, where the error names it: the others are sent again without it. */
  readonly culprit?: (error: unknown) => string | null;
  /** Told of every answer, before those who wait for it. Here, and not around `flush`: a promise more for every batch. */
  readonly answered?: () => void;
  /** Told of every batch without one, and what is to be told to those who wait. */
  readonly unanswered?: (error: unknown, size: number) => unknown;
}

// How long batches may go out without the event loop having turned: timers and sockets get their time.
const LONGEST_ALONE_MS = 4;
const LONGEST_IN_COMPANY_MS = 8;
// So many lone batches in a row make a lone caller.
const SURELY_ALONE = 16;
// How much of a crowd is still counted on at the next batch: a few dozen batches later it is forgotten.
const CROWD_STAYS = 63 / 64;

export class Coalescer<Request, Response> {
  readonly #options: CoalescerOptions<Request, Response>;
  #waiting: Waiting<Request, Response>[] = [];
  #inFlight = 0;
  #underWay = 0;
  #crowd = 0;
  #scheduled = false;
  /** How many batches in a row held one request, with nobody waiting: up to SURELY_ALONE. */
  #aloneFor = 1;
  #turnedAt = 0;

  constructor(options: CoalescerOptions<Request, Response>) {
    this.#options = options;
  }

  submit(key: string, request: Request): Promise<Response> {
    return new Promise((resolve, reject) => this.enter({ request, key, resolve, reject }));
  }

  /**
   * The same with callbacks, for what is in every call: a promise more or less shows there. `alone`: its caller knows of
   * nobody else under way. If nobody has come along for a while either, it does not wait for the end of the tick; should
   * somebody come after all, that is one round trip more, once in a while.
   */
  enter(waiting: Waiting<Request, Response>, alone = false): void {
    this.#waiting.push(waiting);
    if (alone && this.#aloneFor >= SURELY_ALONE && this.#isIdle() && this.#mayGoOn()) this.#flush();
    else this.#schedule();
  }

  #isIdle(): boolean {
    return this.#waiting.length === 1 && this.#inFlight === 0 && !this.#scheduled;
  }

  /** Whether another batch may go out before the event loop turns. */
  #mayGoOn(): boolean {
    const sinceTurn = performance.now() - this.#turnedAt;
    if (this.#aloneFor > 0) return this.#inFlight === 0 && sinceTurn < LONGEST_ALONE_MS;
    return sinceTurn < LONGEST_IN_COMPANY_MS;
  }

  #schedule(): void {
    if (this.#scheduled || this.#waiting.length === 0 || this.#inFlight >= this.#options.maxInFlight) return;
    this.#scheduled = true;
    // When every promise callback that is ready now has added its request. Not a turn of the event loop later: that would
    // cost a lone caller more than it saves, and in company the answers to the next batch may be in by then too, while
    // the store stands idle. Somebody who comes alone while a batch is under way can as well wait for company.
    if (this.#mayGoOn()) nextTick(this.#flushNow);
    else setImmediate(this.#flushAfterTurn);
  }

  readonly #flushNow = (): void => this.#flush();

  readonly #flushAfterTurn = (): void => {
    this.#turnedAt = performance.now();
    this.#flush();
  };

  #flush(): void {
    this.#scheduled = false;
    if (this.#inFlight >= this.#options.maxInFlight) return;
    const batch = this.#nextBatch();
    const alone = batch.length === 1 && this.#waiting.length === 0;
    this.#aloneFor = alone ? Math.min(this.#aloneFor + 1, SURELY_ALONE) : 0;
    this.#send(batch);
  }

  /** Sorted by key (so that no two batches lock rows in opposite order); a key appears once in a batch. */
  #nextBatch(): Waiting<Request, Response>[] {
    const maxBatch = this.#roomInBatch();
    if (this.#waiting.length <= 1) {
      const all = this.#waiting;
      this.#waiting = [];
      return all;
    }
    const batch: Waiting<Request, Response>[] = [];
    const later: Waiting<Request, Response>[] = [];
    const keys = new Set<string>();
    for (const one of this.#waiting) {
      if (batch.length >= maxBatch || keys.has(one.key)) later.push(one);
      else {
        keys.add(one.key);
        batch.push(one);
      }
    }
    this.#waiting = later;
    return batch.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  }

  /** Half of a crowd: one half is with the store while the other works. */
  #roomInBatch(): number {
    const { maxBatch, mostInCrowd = maxBatch } = this.#options;
    this.#crowd = Math.max(this.#crowd * CROWD_STAYS, this.#waiting.length + this.#underWay);
    return Math.min(mostInCrowd, Math.max(maxBatch, Math.floor(this.#crowd / 2)));
  }

  // Callbacks, not an async function: a lone caller's batches are many, and each would cost it a promise more.
  #send(batch: Waiting<Request, Response>[]): void {
    this.#inFlight += 1;
    this.#underWay += batch.length;
    this.#schedule();
    this.#flushed(batch).then(
      (responses) => {
        this.#answered(batch, responses);
        this.#back(batch.length);
      },
      (error) => {
        const back = () => this.#back(batch.length);
        this.#failed(batch, error).then(back, back);
      },
    );
  }

  #flushed(batch: Waiting<Request, Response>[]): Promise<readonly Response[]> {
    try {
      return this.#options.flush(requestsOf(batch));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #answered(batch: readonly Waiting<Request, Response>[], responses: readonly Response[]): void {
    this.#options.answered?.();
    for (let i = 0; i < batch.length; i += 1) answer(batch[i] as Waiting<Request, Response>, responses[i] as Response);
  }

  #back(size: number): void {
    this.#inFlight -= 1;
    this.#underWay -= size;
    this.#schedule();
  }

  async #failed(batch: Waiting<Request, Response>[], cause: unknown): Promise<void> {
    const { unanswered, splittable } = this.#options;
    const error = unanswered === undefined ? cause : unanswered(cause, batch.length);
    if (batch.length === 1 || !splittable(error)) {
      for (const one of batch) one.reject(error);
      return;
    }
    const culprit = this.#options.culprit?.(error) ?? null;
    const others = culprit === null ? batch : batch.filter(({ key }) => key !== culprit);
    if (others.length < batch.length) {
      for (const one of batch) if (one.key === culprit) one.reject(error);
      await this.#again(others);
      return;
    }
    const middle = batch.length >> 1;
    for (const half of [batch.slice(0, middle), batch.slice(middle)]) await this.#again(half);
  }

  async #again(part: Waiting<Request, Response>[]): Promise<void> {
    try {
      this.#answered(part, await this.#flushed(part));
    } catch (again) {
      await this.#failed(part, again);
    }
  }
}

function requestsOf<Request, Response>(batch: readonly Waiting<Request, Response>[]): Request[] {
  return batch.map((one) => one.request);
}

/** What a callback throws is its own caller's: the neighbours in the batch still get their answers. */
function answer<Request, Response>(one: Waiting<Request, Response>, response: Response): void {
  try {
    one.resolve(response);
  } catch (error) {
    one.reject(error);
  }
}
