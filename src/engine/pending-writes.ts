/** Facts about ended attempts that the store could not be told yet. Kept until it listens, bounded, flushed on close. */
import { isStoreUnavailable } from "../core/errors.ts";
import type { LedgerEvent } from "../core/transition.ts";
import { type Clock, noLongerThan, sleep, type Timer } from "./clock.ts";
import type { Warnings } from "./events.ts";
import type { Ledger } from "./ledger.ts";

interface Fact {
  readonly key: string;
  readonly event: Extract<LedgerEvent, { readonly type: "confirm" | "not-sent" | "doubt" | "give-back" }>;
  /**
   * The lease of the attempt. Until it ends nobody else takes the intent over, so the last tries at close() may go on for
   * as long. 0: without this fact nothing runs twice, so close() tries once.
   */
  readonly leaseMs: number;
}

// Beyond this the oldest are dropped: they stay visible in the ledger, as `sent` and then as `unknown`.
const MAX_UNTOLD = 10_000;
const RETRY_MS = 1_000;
// At close(). Below the 30 seconds that Kubernetes gives a process to end.
const LONGEST_LAST_TRIES_MS = 25_000;
const LAST_PAUSE_MS = 100;
const LONGEST_LAST_PAUSE_MS = 1_000;
const MOST_KEYS_NAMED = 10;

export class Untold {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #warnings: Warnings;
  #untold: Fact[] = [];
  /** The facts that are being written. */
  #batch: readonly Fact[] = [];
  #ticking: Promise<void> | null = null;
  /** Whether the last pass found the store down; otherwise another try would end in the same way. */
  #isDown = false;
  #timer: Timer | null = null;

  constructor(ledger: Ledger, clock: Clock, warnings: Warnings) {
    this.#ledger = ledger;
    this.#warnings = warnings;
    this.#clock = clock;
  }

  get size(): number {
    return this.#untold.length + this.#batch.length;
  }

  add(fact: Fact): void {
    this.#untold.push(fact);
    if (this.#untold.length > MAX_UNTOLD) this.#untold.shift();
    this.#arm();
  }

  /** Tells what can be told now. */
  tick(): Promise<void> {
    this.#ticking ??= this.#tellAll().finally(() => {
      this.#ticking = null;
    });
    return this.#ticking;
  }

  async #tellAll(): Promise<void> {
    const batch = this.#untold;
    const failed: Fact[] = [];
    [this.#batch, this.#untold, this.#isDown] = [batch, [], false];
    await Promise.all(
      batch.map(async (fact) => {
        try {
          await this.#ledger.apply(await this.#ledger.read(fact.key), fact.event);
        } catch (error) {
          this.#isDown ||= isStoreUnavailable(error);
          failed.push(fact);
        }
      }),
    );
    this.#batch = [];
    this.#untold.push(...failed);
  }

  /**
   * The last tries before the process ends: what is not written now is known to nobody. Goes on while the store is down, for
   * as long as the lease of an attempt and no longer than 25 seconds. Returns the keys whose facts were not written.
   */
  async writeAll(): Promise<readonly string[]> {
    this.stop();
    const began = this.#clock.monotonic();
    const leftMs = () => {
      const leases = [...this.#untold, ...this.#batch].map(({ leaseMs }) => leaseMs);
      return began + Math.min(Math.max(0, ...leases), LONGEST_LAST_TRIES_MS) - this.#clock.monotonic();
    };
    // A pass that was under way may have begun before the store was back.
    if (this.#ticking !== null) await noLongerThan(this.#clock, this.#ticking, Math.max(0, leftMs()));
    let pauseMs = LAST_PAUSE_MS;
    while (this.size > 0) {
      // A store that was down is asked now, and not when the pause of the breaker is over.
      const pass = this.#ledger.askNow().then(() => this.tick());
      await noLongerThan(this.#clock, pass, Math.max(LONGEST_LAST_PAUSE_MS, leftMs()));
      if (this.size === 0 || !this.#isDown || leftMs() <= 0) break;
      await sleep(this.#clock, Math.min(pauseMs, leftMs()));
      pauseMs = Math.min(pauseMs * 2, LONGEST_LAST_PAUSE_MS);
    }
    return this.#notWritten();
  }

  /** Says what is lost. A give-back is not: its lease ends, and the intent is taken by another. */
  async close(): Promise<void> {
    const keys = await this.writeAll();
    if (keys.length === 0) return;
    const named = keys.slice(0, MOST_KEYS_NAMED).join(", ");
    const others = keys.length > MOST_KEYS_NAMED ? ` and ${keys.length - MOST_KEYS_NAMED} others` : "";
    this.#warnings.warn(
      "FACTS_NOT_WRITTEN",
      "",
      `the store did not answer until close() gave up, and the ends of ${keys.length} attempts are not in the ledger: ${named}${others}. When their leases end they are in doubt, and those that may be retried run again. Restore the store, find out whether they happened, and settle them: nevertwice resolve <key>.`,
    );
  }

  #notWritten(): string[] {
    const facts = [...this.#untold, ...this.#batch].filter(({ event }) => event.type !== "give-back");
    return [...new Set(facts.map(({ key }) => key))];
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
