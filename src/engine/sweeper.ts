/**
 * One pass over what nobody is looking at: holders that fell silent become visible as doubts (G4), doubts are settled
 * where their action's policy may, and settled records past their `keep` are removed.
 */
import { isNevertwiceError } from "../core/errors.ts";
import { nextStep } from "../core/plan.ts";
import { expired } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { type CallDefaults, makeCall } from "./call.ts";
import type { Clock, Timer } from "./clock.ts";
import type { Definition } from "./definition.ts";
import type { Engine } from "./engine.ts";
import { parseInput } from "./standard-schema.ts";

export interface SweepReport {
  /** Holders that fell silent: now `unknown`. */
  readonly lapsed: number;
  /** Doubts settled by their policy. */
  readonly settled: number;
  /** Settled records past their `keep`, removed. */
  readonly removed: number;
}

// Bounded work per pass: a large backlog is worked off over several.
const LAPSED_A_PASS = 500;
const DOUBTS_A_PASS = 100;
const REMOVED_A_PASS = 1_000;

export class Sweeper {
  readonly #engine: Engine;
  readonly #definitions: ReadonlyMap<string, Definition>;
  readonly #defaults: CallDefaults;
  // Where the last pass over an action's doubts ended, so that unsettleable ones do not block those behind them.
  readonly #cursors = new Map<string, string>();

  constructor(engine: Engine, definitions: ReadonlyMap<string, Definition>, defaults: CallDefaults) {
    this.#engine = engine;
    this.#definitions = definitions;
    this.#defaults = defaults;
  }

  async tick(): Promise<SweepReport> {
    const lapsed = await this.#lapse();
    let settled = 0;
    const { underWay } = this.#engine.services;
    for (const definition of this.#definitions.values()) {
      if (definition.policy.doubt.kind !== "hold" && !underWay.closed) settled += await this.#settleAll(definition);
    }
    // What is left of it is for the next one to sweep.
    if (underWay.closed) return { lapsed, settled, removed: 0 };
    const removed = await this.#engine.services.ledger.store.sweep({ limit: REMOVED_A_PASS });
    return { lapsed, settled, removed };
  }

  async #lapse(): Promise<number> {
    const { ledger, events } = this.#engine.services;
    const { items } = await ledger.store.list({
      limit: LAPSED_A_PASS,
      states: ["sent"],
      lapsed: true,
      order: "oldest",
    });
    const applied = await Promise.all(items.map((stored) => ledger.apply(stored, { type: "lapse" })));
    let lapsed = 0;
    for (const one of applied) {
      if (!one.ok) continue;
      lapsed += 1;
      const { action, key, attempt, why } = one.stored.record;
      events.emit({ type: "unknown", action, key, attempt, why: why ?? "" });
    }
    return lapsed;
  }

  async #settleAll(definition: Definition): Promise<number> {
    const { store } = this.#engine.services.ledger;
    const cursor = this.#cursors.get(definition.name);
    const page = await store.list({
      limit: DOUBTS_A_PASS,
      states: ["unknown"],
      action: definition.name,
      order: "oldest",
      ...(cursor !== undefined && { cursor }),
    });
    if (page.cursor === null) this.#cursors.delete(definition.name);
    else this.#cursors.set(definition.name, page.cursor);
    const ends = await Promise.all(page.items.map((stored) => this.#settleOne(definition, stored)));
    return ends.filter(Boolean).length;
  }

  async #settleOne(definition: Definition, stored: Stored): Promise<boolean> {
    const { ledger, payloads, warnings, underWay } = this.#engine.services;
    const { record } = stored;
    if (underWay.closed || expired(record, ledger.instant().now)) return false;
    const input = payloads.load(record, "input");
    const sameBytes = input.omitted === undefined && !(record.draft !== null && "omitted" in record.draft);
    const step = nextStep(record, { policy: definition.policy, at: ledger.instant(), newRound: false, sameBytes });
    if ((step.do !== "resend" && step.do !== "probe") || input.omitted !== undefined) return false;
    try {
      const parsed =
        definition.schema === undefined
          ? input.value
          : await parseInput(definition.schema, input.value, definition.name);
      const { version, tenant, scope } = record;
      // wait 0: one step per pass; what is left is for the next.
      const options = { version, tenant, wait: 0, ...(scope !== null && { scope }) };
      const call = makeCall(definition, input.value, parsed, options, this.#defaults);
      if (call.key !== record.key || underWay.closed) return false;
      const outcome = await this.#engine.settle(call, stored);
      return outcome.status !== "unknown";
    } catch (error) {
      warnings.warn(
        "SETTLE_FAILED",
        definition.name,
        `action ${definition.name}: a doubt could not be settled: ${isNevertwiceError(error) ? error.message : "an error outside of nevertwice."} It stays unknown.`,
      );
      return false;
    }
  }
}

/** Calls `tick` now and then, without keeping the process alive. */
export class SweepLoop {
  readonly #sweeper: Sweeper;
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #random: () => number;
  readonly #onError: (error: unknown) => void;
  #timer: Timer | null = null;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: {
    sweeper: Sweeper;
    clock: Clock;
    everyMs: number;
    random: () => number;
    onError: (error: unknown) => void;
  }) {
    this.#sweeper = options.sweeper;
    this.#clock = options.clock;
    this.#everyMs = options.everyMs;
    this.#random = options.random;
    this.#onError = options.onError;
  }

  start(): void {
    if (this.#timer !== null || this.#stopped) return;
    // Spread out, so that many processes started together do not sweep together.
    this.#arm(this.#everyMs * (0.1 + 0.4 * this.#random()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#running;
  }

  #arm(ms: number): void {
    this.#timer = this.#clock.after(ms, () => this.#run(), true);
  }

  #run(): void {
    this.#running = this.#sweeper
      .tick()
      .then(() => {}, this.#onError)
      .then(() => {
        if (!this.#stopped) this.#arm(this.#everyMs * (0.8 + 0.4 * this.#random()));
      });
  }
}
