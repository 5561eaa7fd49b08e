/** Facts about ended attempts that the store could not be told yet. Kept until it listens, bounded, flushed on close. */
import type { LedgerEvent } from "../core/transition.ts";
import type { Clock, Timer } from "./clock.ts";
import type { Ledger } from "./ledger.ts";

interface Fact {
  readonly key: string;
  readonly event: Extract<LedgerEvent, { readonly type: "confirm" | "not-sent" | "doubt" | "give-back" }>;
}

// Beyond this the oldest are dropped: they stay visible in the ledger, as `sent` and then as `unknown`.
const MAX_UNTOLD = 10_000;
const RETRY_MS = 1_000;

export class Untold {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  #untold: Fact[] = [];
  #timer: Timer | null = null;

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  get size(): number {
    return this.#untold.length;
  }

  add(fact: Fact): void {
    this.#untold.push(fact);
    if (this.#untold.length > MAX_UNTOLD) this.#untold.shift();
    this.#arm();
  }

  /** Tells what can be told now. */
  async tick(): Promise<void> {
    const batch = this.#untold;
    this.#untold = [];
    await Promise.all(
      batch.map(async (fact) => {
        try {
          await this.#ledger.apply(await this.#ledger.read(fact.key), fact.event);
        } catch {
          this.#untold.push(fact);
        }
      }),
    );
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #arm(): void {
    if (this.#timer !== null) return;
    this.#timer = this.#clock.after(
      RETRY_MS,
      () => {
        this.#timer = null;
        void this.tick().then(() => {
          if (this.#untold.length > 0) this.#arm();
        });
      },
      true,
    );
  }
}
