/**
 * One pass over what nobody is looking at: holders that fell silent become visible as doubts (G4), doubts are settled
 * where their action's policy may, and settled records past their `keep` are removed.
 */
import { isDamagedRecord } from "../core/damaged-record.ts";
import { isNevertwiceError } from "../core/errors.ts";
import { nextStep } from "../core/plan.ts";
import { expired } from "../core/record.ts";
import type { Page, Stored } from "../core/store.ts";
import { type CallDefaults, makeCall } from "./call.ts";
import type { Clock, Timer } from "./clock.ts";
import type { Definition } from "./definition.ts";
import type { Engine } from "./engine.ts";
import { isInputMissing, missingInput } from "./missing-input.ts";
import { parseInput } from "./standard-schema.ts";
import { onlyOf } from "./tenancy.ts";

export interface SweepReport {
  /** Holders that fell silent: now `unknown`. */
  readonly lapsed: number;
  /** Doubts settled by their policy. */
  readonly settled: number;
  /** Settled records past their `keep`, removed. */
  readonly removed: number;
  /** Records that were met and cannot be read: reported, passed over, left as they are. */
  readonly damaged: number;
}

// Bounded work per pass: a large backlog is worked off over several.
const LAPSED_A_PASS = 500;
const DOUBTS_A_PASS = 100;
const REMOVED_A_PASS = 1_000;
// Beyond this many actions and tenants, passes begin anew.
const MOST_CURSORS = 10_000;

export class Sweeper {
  readonly #engine: Engine;
  readonly #definitions: ReadonlyMap<string, Definition>;
  readonly #defaults: CallDefaults;
  // Where the last pass over an action's doubts (of one tenant, or of all) ended, so that unsettleable ones do not block those behind them.
  readonly #cursors = new Map<string, string>();
  /** The keys of the damaged records that the present pass has met. */
  #damaged = new Set<string>();

  constructor(engine: Engine, definitions: ReadonlyMap<string, Definition>, defaults: CallDefaults) {
    this.#engine = engine;
    this.#definitions = definitions;
    this.#defaults = defaults;
  }

  /** `of`: whose records; those of the tenant that this program keeps to, unless given. */
  async tick(of: { readonly tenant?: string } = onlyOf(this.#defaults.confinedTo)): Promise<SweepReport> {
    this.#damaged = new Set();
    const lapsed = await this.#lapse(of);
    let settled = 0;
    const { underWay } = this.#engine.services;
    for (const definition of this.#definitions.values()) {
      if (definition.policy.doubt.kind !== "hold" && !underWay.closed) settled += await this.#settleAll(definition, of);
    }
    // What is left of it is for the next one to sweep.
    const removed = underWay.closed ? 0 : await this.#engine.services.ledger.sweep({ limit: REMOVED_A_PASS, ...of });
    return { lapsed, settled, removed, damaged: this.#damaged.size };
  }

  async #lapse(of: { readonly tenant?: string }): Promise<number> {
    const { ledger, events } = this.#engine.services;
    const page = await ledger.list({
      limit: LAPSED_A_PASS,
      states: ["sent"],
      lapsed: true,
      order: "oldest",
      ...of,
    });
    const items = this.#readable(page);
    const applied = await Promise.all(
      items.map((stored) => this.#unlessDamaged(() => ledger.apply(stored, { type: "lapse" }))),
    );
    let lapsed = 0;
    for (const one of applied) {
      if (!one?.ok) continue;
      lapsed += 1;
      const { action, key, attempt, why } = one.stored.record;
      events.emit({ type: "unknown", action, key, attempt, why: why ?? "" });
    }
    return lapsed;
  }

  #readable({ items, damaged = [] }: Page): readonly Stored[] {
    for (const { key } of damaged) this.#damaged.add(key);
    return items;
  }

  /** Null: the record is damaged. It is counted, and the pass goes on. */
  async #unlessDamaged<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (!isDamagedRecord(error)) throw error;
      this.#noteDamage(error);
      return null;
    }
  }

  #noteDamage(error: unknown): void {
    if (isDamagedRecord(error) && error.key !== undefined) this.#damaged.add(error.key);
    this.#engine.services.ledger.reportDamage(error);
  }

  async #settleAll(definition: Definition, of: { readonly tenant?: string }): Promise<number> {
    const { ledger } = this.#engine.services;
    const pass = JSON.stringify([definition.name, of.tenant ?? null]);
    const cursor = this.#cursors.get(pass);
    const page = await ledger.list({
      limit: DOUBTS_A_PASS,
      states: ["unknown"],
      action: definition.name,
      order: "oldest",
      ...of,
      ...(cursor !== undefined && { cursor }),
    });
    if (page.cursor === null) this.#cursors.delete(pass);
    else {
      if (this.#cursors.size >= MOST_CURSORS) this.#cursors.clear();
      this.#cursors.set(pass, page.cursor);
    }
    const ends = await Promise.all(this.#readable(page).map((stored) => this.#settleOne(definition, stored)));
    return ends.filter(Boolean).length;
  }

  async #settleOne(definition: Definition, stored: Stored): Promise<boolean> {
    const { ledger, payloads, warnings, underWay } = this.#engine.services;
    const { record } = stored;
    if (underWay.closed || expired(record, ledger.instant().now)) return false;
    // From here on everything may fail for this one record: its input may not open, its schema or key function throw.
    try {
      const input = payloads.load(record, "input");
      const sameBytes = input.omitted === undefined && !(record.draft !== null && "omitted" in record.draft);
      const step = nextStep(record, { policy: definition.policy, at: ledger.instant(), newRound: false, sameBytes });
      if ((step.do !== "resend" && step.do !== "probe") || input.omitted !== undefined) return false;
      const parsed =
        definition.schema === undefined
          ? input.value
          : await parseInput(definition.schema, input.value, definition.name);
      const { version, tenant, scope } = record;
      // wait 0: one step per pass; what is left is for the next.
      const options = { version, tenant, wait: 0, ...(scope !== null && { scope }) };
      const call = makeCall(definition, input.value, parsed, options, this.#defaults);
      if (call.key !== record.key || underWay.closed) return false;
      if (isInputMissing(record, call, definition.free)) throw missingInput(record);
      const outcome = await this.#engine.settle(call, stored);
      return outcome.status !== "unknown";
    } catch (error) {
      this.#noteDamage(error);
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
