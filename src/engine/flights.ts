/** Callers of one process with one key: the first runs, the others wait for it without asking the store. */
import { type InputPrint, toFingerprint } from "../core/key/fingerprint.ts";
import type { Outcome } from "../core/outcome.ts";
import { ownCopy } from "../core/own-copy.ts";
import type { Fingerprint } from "../core/record.ts";
import type { Clock } from "./clock.ts";

interface Joined {
  landed(outcome: Outcome<unknown>): void;
  crashed(error: unknown): void;
}

export class Flight {
  readonly key: string;
  readonly #print: InputPrint;
  // Made when somebody joins: almost nobody does, and a promise for it would cost every call one.
  #joined: Set<Joined> | null = null;

  constructor(key: string, print: InputPrint) {
    this.key = key;
    this.#print = print;
  }

  fingerprint(): Fingerprint {
    return toFingerprint(this.#print);
  }

  /** The flight's outcome, or null when it is not over within `waitMs`. */
  join(clock: Clock, waitMs: number): Promise<Outcome<unknown> | null> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        timer.cancel();
        this.#joined?.delete(joined);
      };
      const joined: Joined = {
        // Here, before whoever ran it has the result, and can change it.
        landed: (outcome) => {
          leave();
          resolve(outcome.status === "done" ? { ...outcome, result: ownCopy(outcome.result) } : outcome);
        },
        crashed: (error) => {
          leave();
          reject(error);
        },
      };
      const timer = clock.after(waitMs, () => {
        leave();
        resolve(null);
      });
      this.#waitersOf().add(joined);
    });
  }

  /** However it ends. */
  over(): Promise<void> {
    return new Promise((done) => {
      this.#waitersOf().add({ landed: () => done(), crashed: () => done() });
    });
  }

  landed(outcome: Outcome<unknown>): void {
    for (const joined of [...(this.#joined ?? NOBODY)]) joined.landed(outcome);
  }

  crashed(error: unknown): void {
    for (const joined of [...(this.#joined ?? NOBODY)]) joined.crashed(error);
  }

  #waitersOf(): Set<Joined> {
    this.#joined ??= new Set();
    return this.#joined;
  }
}

const NOBODY: readonly Joined[] = [];

export class Flights {
  // The only one, as long as there is only one: a Map that each comes and goes through alone is made anew every time.
  #only: Flight | null = null;
  readonly #others = new Map<string, Flight>();

  /** There is at most one. */
  get lone(): boolean {
    return this.#others.size === 0;
  }

  get none(): boolean {
    return this.#only === null && this.#others.size === 0;
  }

  get(key: string): Flight | undefined {
    if (this.#only?.key === key) return this.#only;
    return this.#others.size === 0 ? undefined : this.#others.get(key);
  }

  /** Whoever starts it must land it, or crash it. */
  start(key: string, print: InputPrint): Flight {
    const flight = new Flight(key, print);
    if (this.#only === null) this.#only = flight;
    else this.#others.set(key, flight);
    return flight;
  }

  land(flight: Flight, outcome: Outcome<unknown>): void {
    this.#remove(flight);
    flight.landed(outcome);
  }

  crash(flight: Flight, error: unknown): void {
    this.#remove(flight);
    flight.crashed(error);
  }

  async idle(): Promise<void> {
    for (;;) {
      const under = [...(this.#only === null ? [] : [this.#only]), ...this.#others.values()];
      if (under.length === 0) return;
      await Promise.all(under.map((flight) => flight.over()));
    }
  }

  /** First of all: it is gone before anybody hears. */
  #remove(flight: Flight): void {
    if (this.#only === flight) this.#only = null;
    else if (this.#others.get(flight.key) === flight) this.#others.delete(flight.key);
  }
}
