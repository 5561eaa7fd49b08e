/**
 * From a call to its outcome: look, claim, run, settle, and wait where another attempt holds the intent. What to do next
 * is decided by core's plan; this file only carries it out, inside the caller's wait budget.
 */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { differing, isComparable } from "../core/fingerprint.ts";
import { type Absent, type Outcome, outcomeOfRecord } from "../core/outcome.ts";
import { nextStep, type Step } from "../core/plan.ts";
import { backoffMs } from "../core/policy.ts";
import { providerKey } from "../core/provider-key.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { ResendPermit } from "../core/transition.ts";
import { type Call, intentOf } from "./call.ts";
import { type AttemptContext, runAs } from "./context.ts";
import { rememberedError, withCause } from "./error-memory.ts";
import { type End, type ExecutionServices, execute } from "./execution.ts";
import { type Flight, Flights } from "./flights.ts";
import { askProbe } from "./probe.ts";
import { ReplayCache } from "./replay-cache.ts";
import { parseInput } from "./standard-schema.ts";
import { WaitBudget } from "./wait-budget.ts";

export interface EngineServices extends ExecutionServices {
  readonly newHolder: () => string;
}

// Every turn of the loop changes the record, waits or returns; a call that turns this often is being starved.
const MAX_TURNS = 10_000;
// About the last forty calls count.
const REPEAT_WEIGHT = 0.05;
const MOSTLY_REPEATS = 0.5;

export class Engine {
  readonly services: EngineServices;
  readonly #flights = new Flights();
  readonly #replays = new ReplayCache();
  /** The share of repeats among the last calls that had to ask the ledger. */
  #repeats = 0;

  constructor(services: EngineServices) {
    this.services = services;
  }

  /** The calls under way, for a graceful close. */
  idle(): Promise<void> {
    return this.#flights.idle();
  }

  /** Runs the intent, or joins whoever runs it in this process. */
  outcome(call: Call): Promise<Outcome<unknown>> {
    const flight = this.#flights.get(call.key);
    if (flight !== undefined) return this.#join(call, flight);
    return this.#flights.start(call.key, call.print, () => this.#drive(call));
  }

  async #join(call: Call, flight: Flight): Promise<Outcome<unknown>> {
    const differs = differing(flight.fingerprint(), call.print, call.definition.free);
    if (differs.guarded.length > 0) return this.#conflict(call, differs.guarded);
    const { clock } = this.services;
    const startedAt = clock.monotonic();
    const joined = await flight.join(clock, call.waitMs);
    const waitMs = call.waitMs - (clock.monotonic() - startedAt);
    // The flight itself only waited for another process, and ran out of patience before this caller does.
    if (joined?.status === "in_flight" && waitMs > 0) return this.outcome({ ...call, waitMs });
    if (joined !== null) return this.#joined(call, joined, differs.free);
    this.services.events.emit({ type: "in_flight", action: call.definition.name, key: call.key });
    return this.#inFlightNow(call);
  }

  /** What the ledger says, without touching anything. */
  async status(key: string): Promise<Outcome<unknown> | Absent> {
    const stored = await this.services.ledger.read(key);
    return stored === null ? { status: "absent", key } : this.describe(stored.record);
  }

  describe(record: LedgerRecord): Outcome<unknown> | Absent {
    return outcomeOfRecord<unknown>(record, this.services.ledger.instant(), {
      result: (of) => this.services.payloads.load(of, "result"),
      error: (of) => rememberedError(of),
    });
  }

  /** Settles a doubt from the ledger alone, as the sweeper does: with the stored input, and only as the policy allows. */
  async settle(call: Call, stored: Stored): Promise<Outcome<unknown>> {
    // A caller of this process is at it already, with patience of its own.
    if (this.#flights.get(call.key) !== undefined) return this.describe(stored.record) as Outcome<unknown>;
    return this.#flights.start(call.key, call.print, () => this.#turns(call, stored, false, true));
  }

  async #drive(call: Call): Promise<Outcome<unknown>> {
    const known = this.#replays.get(call.key, this.services.ledger.instant().now);
    if (known !== null) return this.#turns(call, known, true);
    const outcome = await this.#turns(
      call,
      this.#mostlyRepeats() ? await this.services.ledger.read(call.key) : null,
      true,
    );
    this.#learn(outcome.status === "done" && outcome.replayed);
    return outcome;
  }

  /** `settling`: only end the doubt. What turns out not to have happened is left to the next call. */
  async #turns(call: Call, seen: Stored | null, newRound: boolean, settling = false): Promise<Outcome<unknown>> {
    const budget = new WaitBudget(this.services, call.waitMs);
    let stored = seen;
    let fresh = newRound;
    for (let turn = 0; turn < MAX_TURNS; turn += 1) {
      const conflict = this.#conflictWith(call, stored);
      if (conflict !== null) return conflict;
      if (settling && stored && stored.record.state !== "unknown") return this.#answer(call, stored.record);
      const turned = await this.#turn(call, stored, fresh, budget);
      if ("outcome" in turned) return turned.outcome;
      stored = turned.stored;
      fresh = turned.fresh;
    }
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `${call.definition.name}: its record kept changing under this call. Call again.`,
      { key: call.key },
    );
  }

  /**
   * A first call is best claimed blindly: one write. A repeat is best read: no write at all. Which of the two calls are
   * is learned from the last few.
   */
  #mostlyRepeats(): boolean {
    return this.#repeats > MOSTLY_REPEATS;
  }

  #learn(repeat: boolean): void {
    this.#repeats += REPEAT_WEIGHT * ((repeat ? 1 : 0) - this.#repeats);
  }

  async #turn(call: Call, stored: Stored | null, fresh: boolean, budget: WaitBudget): Promise<Turned> {
    const at = this.services.ledger.instant();
    const sameBytes = stored?.record.state === "unknown" && this.#sameBytes(call, stored.record);
    const step: Step = nextStep(stored?.record ?? null, {
      policy: call.definition.policy,
      at,
      newRound: fresh,
      sameBytes,
    });
    switch (step.do) {
      case "answer":
        return { outcome: this.#answer(call, (stored as Stored).record) };
      case "claim":
        return this.#claim(call, stored, fresh, budget);
      case "resend":
        return this.#resend(call, stored as Stored, step.permit, fresh, budget);
      case "lapse": {
        const applied = await this.services.ledger.apply(stored, { type: "lapse" });
        if (applied.ok) this.#emitUnknown(applied.stored.record);
        return { stored: applied.stored, fresh };
      }
      case "probe":
        return this.#probe(call, stored as Stored, step.quietForMs, fresh);
      case "wait-for-holder":
        if (!(await budget.change(this.services.ledger, call.key)))
          return { outcome: this.#answer(call, (stored as Stored).record) };
        return { stored: await this.services.ledger.read(call.key), fresh };
      case "wait":
        if (!(await budget.pause(step.ms))) return { outcome: this.#answer(call, (stored as Stored).record) };
        return { stored: await this.services.ledger.read(call.key), fresh };
    }
  }

  async #claim(call: Call, stored: Stored | null, fresh: boolean, budget: WaitBudget): Promise<Turned> {
    const { ledger, payloads, newHolder } = this.services;
    const { definition } = call;
    const holder = newHolder();
    try {
      const admission = ledger.admits(definition.policy.doubt.kind);
      if (admission !== null) await admission;
      const applied = await ledger.apply(stored, (current) => {
        // Another input got in between: its record is not ours to claim, and the next turn reports the conflict.
        if (current !== null && this.#differsFrom(call, current) !== null) return null;
        return {
          type: "claim",
          intent: intentOf(call, current, payloads),
          to: definition.manual || definition.prepare ? "claimed" : "sent",
          holder,
          leaseMs: definition.policy.leaseMs,
          newRound: fresh,
          ...(call.resend ?? {}),
        };
      });
      if (!applied.ok) return { stored: applied.stored, fresh };
      return this.#after(call, await execute(this.services, call, applied.stored, call.input), budget);
    } catch (error) {
      if (definition.policy.failOpen && isStoreDown(error)) return { outcome: await this.#bypass(call) };
      throw error;
    }
  }

  async #resend(call: Call, stored: Stored, permit: ResendPermit, fresh: boolean, budget: WaitBudget): Promise<Turned> {
    const { ledger, newHolder } = this.services;
    const { leaseMs } = call.definition.policy;
    const applied = await ledger.apply(stored, {
      type: "resend",
      permit,
      holder: newHolder(),
      leaseMs,
      newRound: fresh,
    });
    if (!applied.ok) return { stored: applied.stored, fresh };
    const input =
      permit.because === "provider-key" ? await this.#originalInput(call, applied.stored.record) : call.input;
    return this.#after(call, await execute(this.services, call, applied.stored, input), budget);
  }

  /** What follows from an attempt's end: an outcome, or another turn inside the budget. */
  async #after(call: Call, end: End, budget: WaitBudget): Promise<Turned> {
    const { policy } = call.definition;
    switch (end.kind) {
      case "done":
        if (end.stored) this.#replays.put(end.stored);
        return { outcome: end.outcome };
      case "moved":
        return { stored: end.stored, fresh: false };
      case "failed": {
        const pauseMs = end.retryAt === null ? null : end.retryAt - this.services.ledger.instant().now;
        if (pauseMs !== null && (await budget.pause(pauseMs))) return { stored: end.stored, fresh: false };
        const { error, final, retryAt } = end;
        return { outcome: { status: "failed", key: call.key, error, final, ...(retryAt !== null && { retryAt }) } };
      }
      case "unknown": {
        const { tries } = end.stored.record;
        const pauseMs = backoffMs(policy, tries, null, this.services.random);
        const settling = policy.doubt.kind !== "hold" && tries < policy.attempts;
        if (settling && (await budget.pause(pauseMs))) return { stored: end.stored, fresh: false };
        return { outcome: withCause(this.describe(end.stored.record) as Outcome<unknown>, end.error) };
      }
    }
  }

  async #probe(call: Call, stored: Stored, quietForMs: number, fresh: boolean): Promise<Turned> {
    const { ledger, payloads, events } = this.services;
    const { record } = stored;
    const answer = await askProbe(this.services, call, record);
    if (answer.as === "unknown") return { outcome: this.#answer(call, record) };
    const bound = { tenant: record.tenant, key: record.key, fence: record.fence };
    const fact =
      answer.as === "done"
        ? { as: "done" as const, result: payloads.store(answer.result, "result", 1 << 20, bound) }
        : answer;
    const applied = await ledger.apply(stored, { type: "probed", fence: record.fence, quietForMs, answer: fact });
    if (applied.ok)
      events.emit({ type: "settled", action: record.action, key: record.key, as: answer.as, how: "probe" });
    return { stored: applied.stored, fresh };
  }

  #answer(call: Call, record: LedgerRecord): Outcome<unknown> {
    const outcome = this.describe(record) as Outcome<unknown>;
    const { events } = this.services;
    const action = call.definition.name;
    if (outcome.status === "done") {
      this.#replays.put({ record, version: 0 });
      events.emit({ type: "replayed", action, key: call.key, attempt: record.attempt });
      const { free } = differing(record.fingerprint, call.print, call.definition.free);
      return free.length > 0 ? { ...outcome, differs: free } : outcome;
    }
    if (outcome.status === "in_flight") events.emit({ type: "in_flight", action, key: call.key });
    return outcome;
  }

  #joined(call: Call, outcome: Outcome<unknown>, freeDiffers: readonly string[]): Outcome<unknown> {
    if (outcome.status !== "done") return outcome;
    this.services.events.emit({
      type: "replayed",
      action: call.definition.name,
      key: call.key,
      attempt: outcome.attempt,
    });
    return { ...outcome, replayed: true, ...(freeDiffers.length > 0 && { differs: freeDiffers }) };
  }

  async #inFlightNow(call: Call): Promise<Outcome<unknown>> {
    const outcome = await this.status(call.key);
    if (outcome.status !== "absent") return outcome;
    // Not in the ledger yet: the claim itself is still on its way.
    const { now } = this.services.ledger.instant();
    return { status: "in_flight", key: call.key, since: now, until: now + call.definition.policy.leaseMs };
  }

  #conflictWith(call: Call, stored: Stored | null): Outcome<unknown> | null {
    const differs = stored === null ? null : this.#differsFrom(call, stored.record);
    return differs === null ? null : this.#conflict(call, differs);
  }

  /** The guarded fields that make the record another input's; null: it is ours to go on with. */
  #differsFrom(call: Call, record: LedgerRecord): readonly string[] | null {
    if (expired(record, this.services.ledger.instant().now)) return null;
    const { guarded } = differing(record.fingerprint, call.print, call.definition.free);
    // Known not to have happened, and nobody is at it: the corrected input may go ahead.
    if (guarded.length === 0 || (record.state === "failed" && !record.final)) return null;
    return guarded;
  }

  #conflict(call: Call, differs: readonly string[]): Outcome<unknown> {
    this.services.events.emit({ type: "conflict", action: call.definition.name, key: call.key, differs });
    return { status: "conflict", key: call.key, differs };
  }

  /** A resend under the provider's key must carry the bytes of the first send, reworded free fields or not. */
  #sameBytes(call: Call, record: LedgerRecord): boolean {
    const { payloads } = this.services;
    if (call.definition.prepare && payloads.load(record, "draft").omitted !== undefined) return false;
    if (payloads.load(record, "input").omitted === undefined) return true;
    // Not stored, or sealed for others: only this call's own input is left, and it must be known to be the same.
    return (
      isComparable(record.fingerprint) &&
      differing(record.fingerprint, call.print, call.definition.free).free.length === 0
    );
  }

  async #originalInput(call: Call, record: LedgerRecord): Promise<unknown> {
    if (differing(record.fingerprint, call.print, call.definition.free).free.length === 0) return call.input;
    const given = this.services.payloads.load(record, "input").value;
    const { schema, name } = call.definition;
    return schema === undefined ? given : parseInput(schema, given, name);
  }

  /** O10: the store is down, and this action would rather run unguarded than not at all. */
  async #bypass(call: Call): Promise<Outcome<unknown>> {
    const { events, ledger, logger } = this.services;
    const { definition, key, input } = call;
    events.emit({ type: "bypassed", action: definition.name, key });
    const abort = new AbortController();
    const deadline = ledger.instant().now + definition.policy.timeoutMs;
    const context: AttemptContext = {
      key,
      attempt: 1,
      fence: 0,
      signal: abort.signal,
      providerKey: (format) => providerKey(key, format),
      deadline,
      sent: async () => {},
      log: logger,
    };
    try {
      const result = await runAs(context, async () => {
        const draft = definition.prepare ? await definition.prepare(input, context) : undefined;
        return definition.run(input, context, draft);
      });
      return { status: "done", key, result, replayed: false, attempt: 1, at: ledger.instant().now };
    } catch (error) {
      const since = ledger.instant().now;
      return withCause(
        {
          status: "unknown",
          key,
          since,
          attempt: 1,
          why: "it failed while the ledger was down, and nothing was recorded",
        },
        error,
      );
    }
  }

  #emitUnknown(record: LedgerRecord): void {
    const { action, key, attempt, why } = record;
    this.services.events.emit({ type: "unknown", action, key, attempt, why: why ?? "" });
  }
}

type Turned = { readonly outcome: Outcome<unknown> } | { readonly stored: Stored | null; readonly fresh: boolean };

function isStoreDown(error: unknown): boolean {
  return isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE";
}
