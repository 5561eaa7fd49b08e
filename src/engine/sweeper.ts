/**
 * One pass over what nobody is looking at: holders that fell silent become visible as doubts (G4), doubts are settled
 * where their action's policy may, and settled records past their `keep` are removed.
 */
import { isDamagedRecord } from "../core/damaged-record.ts";
import { isNevertwiceError } from "../core/errors.ts";
import { ALIAS_AGENT, aliasTarget, retiredAlias } from "../core/key/formerly.ts";
import { nextStep } from "../core/plan.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { ListQuery, Page, Stored } from "../core/store.ts";
import { type Call, type CallDefaults, OF_TOOL } from "./call.ts";
import type { Definition } from "./definition.ts";
import type { Engine } from "./engine.ts";
import { by } from "./events.ts";
import type { Ledger } from "./ledger.ts";
import { makeCall, rekeyed } from "./make-call.ts";
import { isInputMissing, missingInput } from "./missing-input.ts";
import { parseInput } from "./standard-schema.ts";
import type { Pass } from "./sweep-loop.ts";
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

// Bounded work per pass. The loop goes on with the next pass while there is more.
const LAPSED_A_PASS = 500;
const DOUBTS_A_PASS = 100;
const REMOVED_A_PASS = 1_000;
const ALIASES_A_PASS = 200;
// Beyond this many actions and tenants, passes begin anew.
const MOST_CURSORS = 10_000;

interface Of {
  readonly tenant?: string;
}

const NOTHING: Pass = { changed: 0, more: false };

export class Sweeper {
  readonly #engine: Engine;
  readonly #definitions: ReadonlyMap<string, Definition>;
  readonly #defaults: CallDefaults;
  // Where the last pass over a list (of one tenant, or of all) ended, so that records that cannot be changed do not block those behind them.
  readonly #cursors = new Map<string, string>();
  /** The keys of the damaged records that the present pass has met. */
  #damaged = new Set<string>();

  constructor(engine: Engine, definitions: ReadonlyMap<string, Definition>, defaults: CallDefaults) {
    this.#engine = engine;
    this.#definitions = definitions;
    this.#defaults = defaults;
  }

  /** One pass of each kind. `of`: whose records; those of the tenant that this program keeps to, unless given. */
  async tick(of: Of = this.#own()): Promise<SweepReport> {
    this.#damaged = new Set();
    const lapsed = await this.lapse(of);
    const settled = await this.settle(of);
    const removed = await this.remove(1, of);
    return { lapsed: lapsed.changed, settled: settled.changed, removed: removed.changed, damaged: this.#damaged.size };
  }

  /** Holders that fell silent become `unknown`. */
  async lapse(of: Of = this.#own()): Promise<Pass> {
    const { ledger, events, underWay } = this.#engine.services;
    if (underWay.closed) return NOTHING;
    const { items, more } = await this.#nextPage("lapsed", {
      limit: LAPSED_A_PASS,
      states: ["sent"],
      lapsed: true,
      order: "oldest",
      ...of,
    });
    const applied = await Promise.all(
      items.map((stored) => this.#unlessDamaged(() => ledger.apply(stored, { type: "lapse" }))),
    );
    let changed = 0;
    for (const one of applied) {
      if (!one?.ok) continue;
      changed += 1;
      const { action, key, attempt, why } = one.stored.record;
      events.emit({ type: "unknown", action, key, ...by(one.stored.record), attempt, why: why ?? "" });
    }
    // A store may show only a part of very many: once more, until none is found.
    return { changed, more: more || changed > 0 };
  }

  /** Doubts are settled where their action's policy allows it: a page of each action. */
  async settle(of: Of = this.#own()): Promise<Pass> {
    const { underWay } = this.#engine.services;
    let [changed, more] = [0, false];
    for (const definition of this.#definitions.values()) {
      if (definition.policy.doubt.kind === "hold" || underWay.closed) continue;
      const pass = await this.#settleAll(definition, of);
      changed += pass.changed;
      more ||= pass.more;
    }
    return { changed, more };
  }

  /** Aliases of former keys are kept as long as what they stand for: a page of them, where an action has former keys. */
  async #retireAliases(of: Of): Promise<void> {
    const { ledger } = this.#engine.services;
    if (![...this.#definitions.values()].some(({ formerly }) => formerly.length > 0)) return;
    const query = { limit: ALIASES_A_PASS, states: ["confirmed"], agent: ALIAS_AGENT, order: "oldest", ...of } as const;
    const { items } = await this.#nextPage("aliases", query);
    await Promise.all(items.map((stored) => this.#unlessDamaged(() => retireAlias(ledger, stored))));
  }

  /** Settled records past their `keep` are removed. `times`: how many times as much as a first pass removes. */
  async remove(times = 1, of: Of = this.#own()): Promise<Pass> {
    const { ledger, underWay } = this.#engine.services;
    // What is left of it is for the next one to sweep.
    if (underWay.closed) return NOTHING;
    await this.#retireAliases(of);
    let more = false;
    const unfinished = () => {
      more = true;
    };
    const limit = REMOVED_A_PASS * times;
    const changed = await ledger.sweep({ limit, unfinished, ...of });
    return { changed, more: more || changed >= limit };
  }

  #own(): Of {
    return onlyOf(this.#defaults.confinedTo);
  }

  /** The page behind the one of the last pass; from the first again after the last. */
  async #nextPage(what: string, query: ListQuery): Promise<{ items: readonly Stored[]; more: boolean }> {
    const name = JSON.stringify([what, query.action ?? null, query.tenant ?? null]);
    const cursor = this.#cursors.get(name);
    const page = await this.#engine.services.ledger.list({ ...query, ...(cursor !== undefined && { cursor }) });
    if (page.cursor === null) this.#cursors.delete(name);
    else {
      if (this.#cursors.size >= MOST_CURSORS) this.#cursors.clear();
      this.#cursors.set(name, page.cursor);
    }
    return { items: this.#readable(page), more: page.cursor !== null };
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

  async #settleAll(definition: Definition, of: Of): Promise<Pass> {
    const { items, more } = await this.#nextPage("doubts", {
      limit: DOUBTS_A_PASS,
      states: ["unknown"],
      action: definition.name,
      order: "oldest",
      ...of,
    });
    const ends = await Promise.all(items.map((stored) => this.#settleOne(definition, stored)));
    return { changed: ends.filter(Boolean).length, more };
  }

  /** The call that this record is of: under its own key, a former one, or one that its own is an alias of. Null: of none. */
  async #callOf(call: Call, record: LedgerRecord): Promise<Call | null> {
    if (call.key === record.key) return call;
    if (call.former?.some(({ key }) => key === record.key)) return rekeyed(call, record, record);
    const { call: found } = await this.#engine.peek(call);
    return found.key === record.key ? found : null;
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
      // On behalf of whoever made the attempt in doubt.
      const make = (ordinal: number) => {
        const asked = ordinal === 1 ? options : { ...options, [OF_TOOL]: { ordinal } };
        return { ...makeCall(definition, input.value, parsed, asked, this.#defaults), agent: record.agent };
      };
      const own = (await this.#callOf(make(1), record)) ?? repeatOf(definition, record, make);
      if (own === null || underWay.closed) return false;
      if (isInputMissing(record, own, definition.free)) throw missingInput(record);
      const outcome = await this.#engine.settle(own, stored);
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

// Identical calls of one turn have an ordinal in their keys, which is nowhere else.
const MOST_ORDINALS = 100;

function repeatOf({ writtenAs }: Definition, { key }: LedgerRecord, make: (ordinal: number) => Call): Call | null {
  if (writtenAs !== "tool") return null;
  for (let ordinal = 2; ordinal <= MOST_ORDINALS; ordinal += 1) {
    const call = make(ordinal);
    if (call.key === key) return call;
  }
  return null;
}

async function retireAlias(ledger: Ledger, { record: alias, version }: Stored): Promise<void> {
  const at = ledger.instant();
  const target = aliasTarget(alias, at.now);
  if (target === null) return;
  const record = retiredAlias(alias, (await ledger.read(target.key))?.record ?? null, at);
  // Changed by others meanwhile: the next pass looks again.
  if (record !== null) await ledger.put({ record, expected: version });
}
