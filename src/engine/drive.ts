/** A call on its way to its outcome, and whoever waits for it. */
import type { Outcome } from "../core/outcome.ts";
import type { Stored } from "../core/store.ts";
import type { Flight, Flights } from "./flights.ts";
import type { Other } from "./same-input.ts";

/** When a call was made, and whether inside an attempt of this instance. */
export interface Asked {
  readonly at: number;
  readonly inside: boolean;
}

/** What a turn of a call came to: its outcome, or another turn with the record as it is then. */
export type Turned =
  | { readonly outcome: Outcome<unknown> }
  | { readonly stored: Stored | null; readonly fresh: boolean };

/** Whether the call begins a round of tries, and in what its input differs from the one on record. */
export interface Standing {
  readonly fresh: boolean;
  readonly other: Other | null;
}

/** An outcome as it is. */
export function asItIs(outcome: Outcome<unknown>): Outcome<unknown> {
  return outcome;
}

/** Makes of an outcome what the caller gets. */
export type Finish<T> = (outcome: Outcome<unknown>) => T;

export interface Driven {
  readonly landed: (outcome: Outcome<unknown>) => void;
  readonly crashed: (error: unknown) => void;
}

/** One call on its way, and those who wait for it. */
export class Drive<T> implements Driven {
  readonly #flights: Flights;
  readonly #flight: Flight;
  readonly #caller: Caller<T>;

  constructor(flights: Flights, flight: Flight, caller: Caller<T>) {
    this.#flights = flights;
    this.#flight = flight;
    this.#caller = caller;
  }

  readonly landed = (outcome: Outcome<unknown>): void => {
    this.#flights.land(this.#flight, outcome);
    const { finish, resolve, reject } = this.#caller;
    try {
      resolve(finish(outcome));
    } catch (error) {
      reject(error);
    }
  };

  readonly crashed = (error: unknown): void => {
    this.#flights.crash(this.#flight, error);
    this.#caller.reject(error);
  };
}

interface Caller<T> {
  readonly finish: Finish<T>;
  readonly resolve: (finished: T) => void;
  readonly reject: (error: unknown) => void;
}
