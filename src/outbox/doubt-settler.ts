/** A doubt that its policy can settle is not left to the next sweep: asked about, or sent again, after a pause. */

import { quietInMs } from "../core/doubt-time.ts";
import { backoffMs, retryOf } from "../core/retry.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "../engine/call.ts";
import type { Timer } from "../engine/clock.ts";
import type { Engine } from "../engine/engine.ts";

export class DoubtSettler {
  readonly #engine: Engine;
  readonly #most: number;
  readonly #settled: () => void;
  readonly #waiting = new Set<Timer>();
  readonly #running = new Set<Promise<void>>();
  #stopped = false;

  /** `most`: beyond this many at once, doubts are the sweeper's. `settled`: something may be due again. */
  constructor(engine: Engine, most: number, settled: () => void) {
    this.#engine = engine;
    this.#most = most;
    this.#settled = settled;
  }

  add(call: Call, stored: Stored, rounds = 1): void {
    const { policy } = call.definition;
    if (this.#stopped || policy.doubt.kind === "hold" || rounds > retryOf(policy, stored.record).inDoubt) return;
    if (this.#waiting.size + this.#running.size >= this.#most) return;
    const { clock, random, ledger } = this.#engine.services;
    const probe = policy.doubt.kind === "settle" && policy.doubt.resendWithinMs === null ? policy.doubt.probe : null;
    const quietMs = probe === null ? 0 : quietInMs(stored.record, probe.quietForMs, ledger.instant());
    const timer = clock.after(
      // The pauses of a direct call: a doubt is no outage, and the sooner it is settled the more of its window is left.
      Math.max(quietMs, backoffMs(policy, rounds, null, random)),
      () => {
        this.#waiting.delete(timer);
        const run = this.#settle(call, stored, rounds).finally(() => this.#running.delete(run));
        this.#running.add(run);
      },
      true,
    );
    this.#waiting.add(timer);
  }

  async #settle(call: Call, stored: Stored, rounds: number): Promise<void> {
    try {
      const outcome = await this.#engine.settle(call, stored);
      if (outcome.status === "unknown") this.add(call, stored, rounds + 1);
      else this.#settled();
    } catch {
      // The doubt stands, where people and the sweeper see it.
    }
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#waiting) timer.cancel();
    this.#waiting.clear();
  }

  async ended(): Promise<void> {
    await Promise.allSettled(this.#running);
  }
}
