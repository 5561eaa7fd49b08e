/**
 * From a call to its outcome: look, claim, run, settle, and wait where another attempt holds the intent. What to do next
 * is decided by core's plan; this file only carries it out, inside the caller's wait budget.
 */
import { isStoreDown } from "../core/damaged-record.ts";
import { NevertwiceError } from "../core/errors.ts";
import { differing } from "../core/key/fingerprint.ts";
import { isDone } from "../core/key/formerly.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { nextStep, type Step } from "../core/plan.ts";
import type { LedgerRecord } from "../core/record.ts";
import { backoffMs, mayResend } from "../core/retry.ts";
import type { Stored } from "../core/store.ts";
import type { ResendPermit } from "../core/transition.ts";
import { Answers } from "./answers.ts";
import { type Call, hasFormer, type Outside } from "./call.ts";
import { stoppedByCheck, stoppedUnrecorded } from "./check.ts";
import { claimOf } from "./claim.ts";
import { Delivered } from "./delivered.ts";
import { type Asked, asItIs, Drive, type Driven, type Finish, type Standing, type Turned } from "./drive.ts";
import { withCause } from "./error-memory.ts";
import { unknownEvent } from "./events.ts";
import { type End, type ExecutionServices, execute, executeThen } from "./execution.ts";
import { type Flight, Flights } from "./flights.ts";
import { aliasSwapsOf, asFirstRecorded, followKey, type Located, locate, peek, whereItIs } from "./formerly.ts";
import { withNote } from "./holder-ids.ts";
import type { Applied } from "./ledger.ts";
import { queueAgainOf, rekeyed } from "./make-call.ts";
import { isClaimedBefore } from "./outside.ts";
import { settleByProbe } from "./probe.ts";
import { ReplayCache } from "./replay-cache.ts";
import { hasSameBytes, inputToResend, withStoredInput } from "./resend-input.ts";
import { isCorrected } from "./same-input.ts";
import { swapsOf, turnOf } from "./turn.ts";
import { runUnguarded } from "./unguarded.ts";
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
  readonly replays = new ReplayCache();
  readonly delivered: Delivered;
  readonly #answers: Answers;
  /** The share of repeats among the last calls that had to ask the ledger. */
  #repeats = 0;

  constructor(services: EngineServices) {
    this.services = services;
    this.#answers = new Answers(services, this.replays);
    this.delivered = new Delivered(services.ledger, services.clock);
  }

  /** Until nothing is under way any more. What ends may have begun something else meanwhile. */
  async idle(): Promise<void> {
    const { underWay } = this.services;
    do {
      await this.#flights.idle();
      await underWay.ended();
    } while (!underWay.idle || !this.#flights.none);
  }

  requireOpen(): void {
    this.services.underWay.requireOpen();
  }

  /** What close() waits for, besides calls. */
  during<T>(work: () => Promise<T>): Promise<T> {
    try {
      this.requireOpen();
    } catch (error) {
      return Promise.reject(error);
    }
    return this.services.underWay.during(work());
  }

  /** Runs the intent, or joins whoever runs it in this process. `finish` makes of the outcome what the caller gets. */
  outcome<T>(call: Call, finish: Finish<T>): T | Promise<T> {
    const flight = this.#flights.get(call.key);
    if (flight !== undefined) return this.#join(call, flight).then(finish);
    this.requireOpen();
    if (this.services.unguarded.of(call) !== null) return this.#afterOutage(call).then(finish);
    const known = this.replays.has(call.key) ? this.replays.get(call.key, this.services.ledger.instant().now) : null;
    // Confirmed never changes: nothing to wait for, and nothing to ask.
    if (known !== null) {
      const own = rekeyed(call, known.record, known.record);
      // Under a former key the record's own input may have to be compared, and the cache has none: the ledger is asked.
      const other = this.#answers.otherInput(own, known);
      if (own === call || other === null)
        return finish(this.#answers.conflictWith(own, other) ?? this.#answers.of(own, known.record));
    }
    return new Promise((resolve, reject) => {
      const drive = new Drive(this.#flights, this.#flights.start(call.key, call.print), { finish, resolve, reject });
      this.#drive(call, drive);
    });
  }

  /** For an attempt that is made outside of this process: `call.outside` gets the claim, if this call gets one. */
  claim(call: Call & { readonly outside: Outside }): Promise<Outcome<unknown>> {
    return this.during(async () => {
      const { holder, mayAskAgain } = call.outside;
      const budget = this.#budget(call, { at: this.services.clock.monotonic(), inside: false });
      const seen = mayAskAgain ? await followKey(aliasSwapsOf(this.services.ledger), call.key) : null;
      const first = seen?.record.key === call.key ? seen : null;
      return this.#turns(call, first, seen?.record.holder !== holder, budget);
    });
  }

  async #join(call: Call, flight: Flight): Promise<Outcome<unknown>> {
    const differs = differing(flight.fingerprint(), call.print, call.definition.free);
    if (differs.guarded.length > 0) return this.#besideOther(call, differs.guarded);
    const { clock } = this.services;
    const startedAt = clock.monotonic();
    const joined = await flight.join(clock, call.waitMs);
    const waitMs = call.waitMs - (clock.monotonic() - startedAt);
    // The flight itself only waited for another process, and ran out of patience before this caller does.
    if (joined?.status === "in_flight" && waitMs > 0) return this.outcome({ ...call, waitMs }, asItIs);
    if (joined !== null) return this.#answers.joined(call, joined, differs.free);
    this.#answers.stillUnderWay(call);
    return this.#inFlightNow(call);
  }

  /** A call of this process is at it with another input: a conflict, unless what is on record is in doubt. */
  async #besideOther(call: Call, differs: readonly string[]): Promise<Outcome<unknown>> {
    try {
      const { call: own, stored } = await this.peek(call);
      if (this.#answers.otherInput(own, stored)?.meets === "in-doubt")
        return this.#answers.of(own, (stored as Stored).record);
    } catch (error) {
      if (!isStoreDown(error)) throw error;
    }
    return this.#answers.conflict(call, differs);
  }

  /** Changes how long a record is kept, and nothing else of it. */
  async retain(key: string, keepMs: number | null): Promise<void> {
    const { ledger } = this.services;
    const stored = await ledger.read(key);
    if (stored === null) return;
    await ledger.apply(stored, { type: "retain", keepMs });
    this.replays.delete(key);
  }

  /** What the ledger says, without touching anything. */
  async status(key: string, tenant = "", call?: Call): Promise<Outcome<unknown> | Absent> {
    const stored = await this.during(() => this.find(key, tenant));
    return stored === null ? { status: "absent", key } : this.describe(stored.record, call);
  }

  /** Another tenant's record is a miss: a key that got about opens nothing. Who has no tenant (""), sees all. */
  async find(key: string, tenant: string): Promise<Stored | null> {
    const { unguarded, ledger } = this.services;
    if (unguarded.has(key)) await unguarded.write(key);
    const stored = await followKey(aliasSwapsOf(ledger), key);
    return stored !== null && tenant !== "" && stored.record.tenant !== tenant ? null : stored;
  }

  /** The record of a call as it is now, under whichever of its keys. Nothing is written. */
  peek(call: Call): Promise<Located> {
    return peek(aliasSwapsOf(this.services.ledger), call);
  }

  describe(record: LedgerRecord, call?: Call): Outcome<unknown> | Absent {
    return this.#answers.describe(record, call);
  }

  /** Settles a doubt from the ledger alone, as the sweeper does: with the stored input, and only as the policy allows. */
  async settle(call: Call, stored: Stored): Promise<Outcome<unknown>> {
    this.requireOpen();
    // A caller of this process is at it already, with patience of its own.
    if (this.#flights.get(call.key) !== undefined) return this.describe(stored.record) as Outcome<unknown>;
    return this.#flying(call, () => this.#turns(call, stored, false, new WaitBudget(this.services, 0), true));
  }

  /** This process has run it while the store was down: the ledger is told before it is asked. */
  #afterOutage(call: Call): Promise<Outcome<unknown>> {
    return this.#flying(call, async () => {
      const { unguarded, ledger, clock, underWay } = this.services;
      const budget = this.#budget(call, { at: clock.monotonic(), inside: underWay.inside });
      try {
        await unguarded.writeOf(call);
      } catch (error) {
        if (!call.definition.policy.failOpen || !isStoreDown(error)) throw error;
        return this.#duringOutage(call, this.services.newHolder());
      }
      if (hasFormer(call)) return this.#underFormerKeys(call, budget);
      return this.#turns(call, await ledger.read(call.key), !call.paced, budget);
    });
  }

  /** By the same rules as with the ledger, as far as this process knows. */
  #duringOutage(asked: Call, holder: string): Outcome<unknown> | Promise<Outcome<unknown>> {
    const { unguarded, ledger } = this.services;
    const record = unguarded.knownOf(asked);
    if (record === null) return runUnguarded(this.services, asFirstRecorded(asked), holder);
    const call = rekeyed(asked, record, record);
    const other = this.#answers.otherInput(call, { record, version: 0 });
    const conflict = this.#answers.conflictWith(call, other);
    if (conflict !== null) return conflict;
    const sameBytes = record.state === "unknown" && hasSameBytes(this.services, call, record);
    const situation = {
      policy: call.definition.policy,
      at: ledger.instant(),
      newRound: true,
      sameBytes,
      otherInput: other !== null,
    };
    const step = nextStep(record, situation).do;
    if (step === "claim" || step === "resend") return runUnguarded(this.services, call, holder);
    return this.#answers.of(call, record);
  }

  async #flying(call: Call, work: () => Promise<Outcome<unknown>>): Promise<Outcome<unknown>> {
    return new Promise((resolve, reject) => {
      const drive = new Drive(this.#flights, this.#flights.start(call.key, call.print), {
        finish: asItIs,
        resolve,
        reject,
      });
      work().then(drive.landed, drive.crashed);
    });
  }

  #drive(call: Call, drive: Driven): void {
    try {
      // Here, in the caller's own async context: what runs below may go on in another one.
      const asked = { at: this.services.clock.monotonic(), inside: this.services.underWay.inside };
      if (hasFormer(call)) this.#learn(this.#underFormerKeys(call, this.#budget(call, asked)), drive);
      else if (call.paced || call.checking !== undefined || this.#mostlyRepeats() || this.delivered.has(call.key))
        this.#learn(this.#lookFirst(call, this.#budget(call, asked)), drive);
      else if (call.definition.policy.failOpen)
        this.#learn(this.#turns(call, null, true, this.#budget(call, asked)), drive);
      else this.#plainly(call, asked, drive);
    } catch (error) {
      drive.crashed(error);
    }
  }

  /** Before anything is claimed, all keys of the intent lead to one record: processes with the old definition hold that one. */
  async #underFormerKeys(call: Call, budget: WaitBudget): Promise<Outcome<unknown>> {
    const swaps = aliasSwapsOf(this.services.ledger);
    const stopped = await stoppedUnrecorded(this.services, call);
    if (stopped !== null) return stopped;
    let located: Located;
    try {
      located = await locate(swaps, call);
    } catch (error) {
      if (call.definition.policy.failOpen && isStoreDown(error))
        return this.#duringOutage(call, this.services.newHolder());
      throw error;
    }
    const outcome = await this.#turns(located.call, located.stored, !call.paced, budget);
    // Settled for good: how long the alias is kept is known now.
    if (outcome.status === "done" && !outcome.replayed)
      void this.services.underWay.during(locate(swaps, call).catch(() => null));
    return outcome;
  }

  /**
   * The plain way of a first call, without the detours of a turn: claim, run, settle. The claim is waited for by a
   * promise of the caller's, so that the effect runs in the caller's own async context; the rest are callbacks.
   */
  #plainly(call: Call, asked: Asked, drive: Driven): void {
    this.#applyClaim(call, null, true).then((applied) => {
      const ended = (end: End | null) => {
        if (end?.kind !== "done") return this.#learn(this.#goOn(call, applied, end, this.#budget(call, asked)), drive);
        this.#repeats -= REPEAT_WEIGHT * this.#repeats;
        drive.landed(end.outcome);
      };
      try {
        if (applied.ok)
          executeThen(
            this.services,
            { call, stored: applied.stored, input: call.input },
            { ended, crashed: drive.crashed },
          );
        else ended(null);
      } catch (error) {
        drive.crashed(error);
      }
    }, drive.crashed);
  }

  /** What was no plain way after all. */
  async #goOn(call: Call, claimed: Applied, end: End | null, budget: WaitBudget): Promise<Outcome<unknown>> {
    if (end === null) return this.#turns(call, claimed.stored, true, budget);
    const turned = await this.#after(call, end, budget);
    return "outcome" in turned ? turned.outcome : this.#turns(call, turned.stored, turned.fresh, budget);
  }

  #learn(outcome: Promise<Outcome<unknown>>, drive: Driven): void {
    outcome.then((known) => {
      const repeat = known.status === "done" && known.replayed ? 1 : 0;
      this.#repeats += REPEAT_WEIGHT * (repeat - this.#repeats);
      drive.landed(known);
    }, drive.crashed);
  }

  /** The patience of a call that was asked for then; most calls end without needing any. */
  #budget(call: Call, { at, inside }: Asked): WaitBudget {
    const { clock, random, underWay } = this.services;
    return new WaitBudget(
      { clock, random, underWay: inside ? undefined : underWay },
      at + call.waitMs - clock.monotonic(),
    );
  }

  async #lookFirst(call: Call, budget: WaitBudget): Promise<Outcome<unknown>> {
    let seen: Stored | null = null;
    try {
      seen = this.delivered.seen(await this.services.ledger.read(call.key));
    } catch (error) {
      // Down: the claim that follows says so, or runs unguarded where the action asked for that.
      if (!isStoreDown(error)) throw error;
    }
    // The plain way of a repeat.
    if (seen !== null && isDone(seen.record, this.services.ledger.instant().now))
      return (
        this.#answers.conflictWith(call, this.#answers.otherInput(call, seen)) ?? this.#answers.of(call, seen.record)
      );
    return this.#turns(call, seen, !call.paced, budget);
  }

  #holderFor({ outside, definition }: Call): string {
    return outside?.holder ?? withNote(this.services.newHolder(), definition.holderNote?.());
  }

  /** Whether the store may guard such an action is asked first; once it may, there is nothing to wait for. */
  #applyClaim(call: Call, stored: Stored | null, newRound: boolean, holder = this.#holderFor(call)): Promise<Applied> {
    const { ledger } = this.services;
    const admission = ledger.admits(call.definition.policy.doubt.kind);
    // By flights, not by attempts under way: of a burst in one tick no attempt has begun yet.
    const claim = claimOf(this.services, call, { stored, newRound, holder });
    if (admission === null) return ledger.apply(stored, claim, this.#flights.lone);
    return admission.then(() => ledger.apply(stored, claim));
  }

  /** `settling`: only end the doubt. What turns out not to have happened is left to the next call. */
  async #turns(
    asked: Call,
    seen: Stored | null,
    newRound: boolean,
    budget: WaitBudget,
    settling = false,
  ): Promise<Outcome<unknown>> {
    let call = asked;
    let stored = seen;
    let fresh = newRound;
    for (let turn = 0; turn < MAX_TURNS; turn += 1) {
      const moved = whereItIs(this.services.ledger, call, stored, turn);
      if (moved !== null) ({ call, stored } = await moved);
      stored = this.delivered.seen(stored);
      const other = this.#answers.otherInput(call, stored);
      const conflict = this.#answers.conflictWith(call, other);
      if (conflict !== null) return conflict;
      // The tries so far were another input's.
      if (turn === 0 && other?.meets === "new-round") fresh = true;
      if (settling && stored && stored.record.state !== "unknown") return this.#answers.of(call, stored.record, false);
      if (stored !== null && call.outside !== undefined && (await isClaimedBefore(this.services, call, stored)))
        return this.describe(stored.record) as Outcome<unknown>;
      if (turn > 0 && stored !== null && (budget.closed || call.outside?.gone()))
        return this.#answers.of(call, stored.record, fresh);
      const turned = await this.#turn(call, stored, { fresh, other }, budget);
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

  async #turn(call: Call, stored: Stored | null, { fresh, other }: Standing, budget: WaitBudget): Promise<Turned> {
    const at = this.services.ledger.instant();
    const inDoubt = stored?.record.state === "unknown" ? stored.record : null;
    const sameBytes = inDoubt !== null && hasSameBytes(this.services, call, inDoubt);
    const step: Step = nextStep(stored?.record ?? null, {
      policy: call.definition.policy,
      at,
      newRound: fresh,
      paced: call.paced === true,
      otherInput: other !== null,
      sameBytes,
    });
    switch (step.do) {
      case "answer":
        return { outcome: this.#answers.of(call, (stored as Stored).record, fresh) };
      case "claim":
        return this.#claim(call, stored, fresh, budget);
      case "take-turn":
        return this.#takeTurn(call, stored as Stored, { fresh, other }, budget);
      case "resend":
        return this.#resend(call, stored as Stored, step.permit, fresh, budget);
      case "lapse": {
        const applied = await this.services.ledger.apply(stored, { type: "lapse" });
        if (applied.ok) this.services.events.emit(unknownEvent(applied.stored.record));
        return { stored: applied.stored, fresh };
      }
      case "probe":
        return this.#probe(call, stored as Stored, step.quietForMs, { fresh, other });
      case "wait-for-holder":
        if (!(await budget.change(this.services.ledger, call.key)))
          return { outcome: this.#answers.of(call, (stored as Stored).record, fresh) };
        return { stored: await this.services.ledger.read(call.key), fresh };
      case "wait":
        if (!(await budget.pause(step.ms)))
          return { outcome: this.#answers.of(call, (stored as Stored).record, fresh) };
        return { stored: await this.services.ledger.read(call.key), fresh };
    }
  }

  /** A record of an order begins when nothing stands before it, whoever begins it. Until then it is a worker's. */
  async #takeTurn(call: Call, seen: Stored, { fresh, other }: Standing, budget: WaitBudget): Promise<Turned> {
    const { ledger, payloads } = this.services;
    if (seen.record.state === "failed") {
      if (!fresh && other === null) return { outcome: this.#answers.of(call, seen.record, fresh) };
      const stopped = await stoppedByCheck(this.services, call);
      if (stopped !== null) return { outcome: stopped };
      // A dead letter of an order goes back into it, at the end.
      const applied = await ledger.apply(seen, (current) =>
        queueAgainOf(call, current, payloads, ledger.instant(), isCorrected(call, current, ledger.instant())),
      );
      return { stored: applied.stored, fresh: false };
    }
    const { stored, before } = await turnOf(swapsOf(ledger), seen);
    if (stored === null || before === null) return this.#claim(call, stored, fresh, budget);
    if (!(await budget.change(ledger, before.key))) return { outcome: this.#answers.of(call, stored.record, fresh) };
    return { stored: await ledger.read(call.key), fresh };
  }

  async #claim(call: Call, stored: Stored | null, fresh: boolean, budget: WaitBudget): Promise<Turned> {
    const stopped = await stoppedByCheck(this.services, call);
    if (stopped !== null) return { outcome: stopped };
    const holder = this.#holderFor(call);
    try {
      const applied = await this.#applyClaim(call, stored, fresh, holder);
      if (!applied.ok) return { stored: applied.stored, fresh };
      return await this.#attempt(call, applied.stored, call.input, budget);
    } catch (error) {
      if (call.definition.policy.failOpen && isStoreDown(error))
        return { outcome: await this.#duringOutage(call, holder) };
      throw error;
    }
  }

  async #resend(call: Call, stored: Stored, permit: ResendPermit, fresh: boolean, budget: WaitBudget): Promise<Turned> {
    const { ledger } = this.services;
    const { leaseMs } = call.definition.policy;
    // Leased and lost before its turn came: it may be in doubt while others before it are still under way.
    const before = stored.record.terms?.line === undefined ? null : (await turnOf(swapsOf(ledger), stored)).before;
    if (before !== null) {
      if (!(await budget.change(ledger, before.key))) return { outcome: this.#answers.of(call, stored.record, fresh) };
      return { stored: await ledger.read(call.key), fresh };
    }
    const applied = await ledger.apply(stored, {
      type: "resend",
      permit,
      holder: this.#holderFor(call),
      leaseMs,
      newRound: fresh,
      agent: call.agent,
    });
    if (!applied.ok) return { stored: applied.stored, fresh };
    const input =
      permit.because === "provider-key" ? await inputToResend(this.services, call, applied.stored) : call.input;
    return this.#attempt(call, applied.stored, input, budget);
  }

  /** Made here, or by somebody outside, who settles it later. */
  async #attempt(call: Call, stored: Stored, input: unknown, budget: WaitBudget): Promise<Turned> {
    if (call.outside === undefined)
      return this.#after(call, await execute(this.services, { call, stored, input }), budget);
    call.outside.claimed({ stored, input, again: false });
    return { outcome: this.describe(stored.record) as Outcome<unknown> };
  }

  /** What follows from an attempt's end: an outcome, or another turn inside the budget. */
  async #after(call: Call, end: End, budget: WaitBudget): Promise<Turned> {
    const { policy } = call.definition;
    switch (end.kind) {
      case "done":
        return { outcome: end.outcome };
      case "moved":
        return { stored: end.stored, fresh: false };
      case "failed": {
        const pauseMs = end.retryAt === null ? null : end.retryAt - this.services.ledger.instant().now;
        if (pauseMs !== null && !call.atOnce && (await budget.pause(pauseMs)))
          return { stored: end.stored, fresh: false };
        const { error, final } = end;
        const retryAt = call.atOnce && (pauseMs ?? 0) <= 0 ? null : end.retryAt;
        return { outcome: { status: "failed", key: call.key, error, final, ...(retryAt !== null && { retryAt }) } };
      }
      case "unknown": {
        const { tries } = end.stored.record;
        const pauseMs = backoffMs(policy, tries, null, this.services.random);
        const settling = policy.doubt.kind !== "hold" && mayResend(policy, end.stored.record);
        if (settling && (await budget.pause(pauseMs))) return { stored: end.stored, fresh: false };
        return { outcome: withCause(this.describe(end.stored.record) as Outcome<unknown>, end.error) };
      }
    }
  }

  /** About what may have been sent: with another input than this call's, where that differs. */
  async #probe(call: Call, stored: Stored, quietForMs: number, { fresh, other }: Standing): Promise<Turned> {
    const about = other === null ? call : await withStoredInput(this.services, call, stored.record);
    const applied = about && (await settleByProbe(this.services, about, stored, { quietForMs, fresh }));
    if (applied === null) return { outcome: this.#answers.of(call, stored.record, fresh) };
    return { stored: applied.stored, fresh };
  }

  async #inFlightNow(call: Call): Promise<Outcome<unknown>> {
    const outcome = await this.status(call.key);
    if (outcome.status !== "absent") return outcome;
    // Not in the ledger yet: the claim itself is still on its way.
    const { now } = this.services.ledger.instant();
    return { status: "in_flight", key: call.key, since: now, until: now + call.definition.policy.leaseMs };
  }
}
