/** Callers of one process with one key: the first runs, the others wait for it without asking the store. */
import { type InputPrint, toFingerprint } from "../core/fingerprint.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Fingerprint } from "../core/record.ts";
import type { Clock } from "./clock.ts";

export class Flight {
  readonly #print: InputPrint;
  readonly promise: Promise<Outcome<unknown>>;

  constructor(print: InputPrint, promise: Promise<Outcome<unknown>>) {
    this.#print = print;
    this.promise = promise;
  }

  fingerprint(): Fingerprint {
    return toFingerprint(this.#print);
  }

  /** The flight's outcome, or null when it is not over within `waitMs`. */
  join(clock: Clock, waitMs: number): Promise<Outcome<unknown> | null> {
    return new Promise((resolve, reject) => {
      const timer = clock.after(waitMs, () => resolve(null));
      this.promise.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}

export class Flights {
  readonly #flights = new Map<string, Flight>();

  get(key: string): Flight | undefined {
    return this.#flights.get(key);
  }

  start(key: string, print: InputPrint, work: () => Promise<Outcome<unknown>>): Promise<Outcome<unknown>> {
    const promise = work();
    const flight = new Flight(print, promise);
    this.#flights.set(key, flight);
    const land = () => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    // `then` twice, not `finally`, which costs every call two promises more. First in line: gone before anybody hears.
    promise.then(land, land);
    return promise;
  }

  async idle(): Promise<void> {
    while (this.#flights.size > 0) {
      await Promise.allSettled([...this.#flights.values()].map((flight) => flight.promise));
    }
  }
}
