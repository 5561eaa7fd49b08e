/**
 * One attempt, from its claim to its settlement: (prepare → mark) → run → settle. What ends here is always written to
 * the ledger before the caller hears of it.
 */
import { formatDuration } from "../core/duration.ts";
import {
  configError,
  isNevertwiceError,
  isStoreUnavailable,
  NevertwiceError,
  type PutOff,
  putOffMark,
  rejectedMark,
} from "../core/errors.ts";
import type { LedgerRecord } from "../core/record.ts";
import { givenUp, type NextTry, nextTry } from "../core/retry.ts";
import { ReturnedError, returnedError } from "../core/returned-error.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import { type Hold, type LedgerEvent, transition } from "../core/transition.ts";
import type { Claimed, End, Ending } from "./attempt-end.ts";
import type { Call } from "./call.ts";
import type { Clock } from "./clock.ts";
import { type AttemptContext, type Context, contextOf, type Logger } from "./context.ts";
import { withFence } from "./delivered.ts";
import { by, type Events, type Warnings } from "./events.ts";
import { runOrExists } from "./exists.ts";
import { settlesLate } from "./late-settling.ts";
import { tellLate } from "./late-success.ts";
import { type Ended, type Heart, type Interruption, Pulse, type Watcher } from "./lease-keeper.ts";
import type { Applied, Applying, Ledger } from "./ledger.ts";
import type { LimitServices } from "./limited.ts";
import { DEFAULT_LIMITS, type Payloads } from "./payloads.ts";
import type { Untold } from "./pending-writes.ts";
import type { ProviderIds } from "./provider-ids.ts";
import { forgetRequests, requestsOf, watchRequests } from "./requests-seen.ts";
import { failureIn, warnOfLostResult, warnOfOddResult } from "./result-warnings.ts";
import { sameEffect } from "./same-effect.ts";
import type { UnderWay } from "./under-way.ts";
import type { UnguardedRuns } from "./unguarded-runs.ts";
import { verdictOn, warnOfUnclassified } from "./verdict.ts";
import { begin, NO_WORK, timeoutError } from "./work.ts";

type NotSent = Extract<LedgerEvent, { readonly type: "not-sent" }>;
type Failure = Pick<NotSent, "retryAt" | "final" | "givesUpAt"> & Pick<NextTry, "because">;

export type { Claimed, End, Ending } from "./attempt-end.ts";

export interface ExecutionServices extends LimitServices {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly payloads: Payloads;
  readonly providerIds: ProviderIds;
  readonly events: Events;
  readonly warnings: Warnings;
  readonly logger: Logger;
  readonly untold: Untold;
  readonly unguarded: UnguardedRuns;
  readonly heart: Heart;
  readonly underWay: UnderWay;
}

/** For a listener: the plain way goes from callback to callback, since each promise between them would cost every call one. */
export function executeThen(services: ExecutionServices, claimed: Claimed, ending: Ending): void {
  const { leaseMs, timeoutMs } = claimed.call.definition.policy;
  const pulse = new Pulse(services.heart, { leaseMs, timeoutMs, stored: claimed.stored });
  new Execution(services, claimed, pulse, ending).run();
}

export function execute(services: ExecutionServices, claimed: Claimed): Promise<End> {
  return new Promise((ended, crashed) => executeThen(services, claimed, { ended, crashed }));
}

class Execution implements Watcher<unknown>, Applying {
  readonly #services: ExecutionServices;
  readonly #call: Call;
  readonly #pulse: Pulse;
  readonly #input: unknown;
  #marking: Promise<void> | null = null;
  readonly #ending: Ending;
  #work: Promise<unknown> = NO_WORK;
  #value: unknown;
  #told: Extract<LedgerEvent, { readonly type: "confirm" }> | null = null;
  /** The attempt has ended as far as its caller knows: what still runs may not begin to send. */
  #over = false;
  #running: Context | null = null;

  constructor(services: ExecutionServices, { call, input }: Claimed, pulse: Pulse, ending: Ending) {
    this.#services = services;
    this.#call = call;
    this.#pulse = pulse;
    this.#input = input;
    this.#ending = ending;
  }

  /** The plain way (nothing to prepare, no time lost) goes straight to the effect: it is in every call. */
  run(): void {
    const at = this.#services.ledger.instant();
    if (this.#record.state === "sent" && this.#record.draft === null && this.#hasRoom(at)) this.#effect(undefined, at);
    else this.#later(this.#roundabout());
  }

  /** Null: the effect has begun, and will end by itself. */
  async #roundabout(): Promise<End | null> {
    try {
      const { prepare, policy } = this.#call.definition;
      const kept = this.#services.payloads.loadDraft(this.#record, prepare !== undefined);
      let draft = kept.value;
      // A draft that could not be stored is made again; the plan lets only those resend it who asked to run it again.
      if (prepare && (this.#record.state === "claimed" || kept.omitted !== undefined)) {
        const prepared = await this.#prepare(prepare);
        if ("end" in prepared) return this.#ended(prepared.end);
        draft = prepared.draft;
      }
      if (!this.#hasRoom() && !(await this.#pulse.renew())) {
        return this.#ended(await (prepare === undefined && this.#record.queued ? this.#notBegun() : this.#tooLate()));
      }
      this.#pulse.limit(policy.timeoutMs);
      this.#effect(draft);
      return null;
    } catch (error) {
      this.#pulse.end();
      throw error;
    }
  }

  #ended(end: End): End {
    this.#pulse.end();
    return end;
  }

  #later(end: Promise<End | null>): void {
    end.then(
      (known) => known !== null && this.#ending.ended(known),
      (error) => this.#ending.crashed(error),
    );
  }

  get #record(): LedgerRecord {
    return this.#pulse.stored.record;
  }

  async #prepare(
    prepare: (input: unknown, context: AttemptContext) => unknown,
  ): Promise<{ draft: unknown } | { end: End }> {
    const { timeoutMs } = this.#call.definition.policy;
    this.#pulse.limit(timeoutMs);
    const context = this.#context();
    const ended = await this.#pulse.race(begin(context, prepare, this.#input, context));
    if (ended.kind === "threw") return { end: await this.#beforeMark(ended.error) };
    if (ended.kind === "timeout") return { end: await this.#notSent(timeoutError("prepare", timeoutMs), null) };
    if (ended.kind === "lease-lost") return { end: await this.#tooLate() };
    // The time of the mark is not the time of prepare: a slow store must not cut an effect that has not begun.
    this.#pulse.limit(Number.POSITIVE_INFINITY);
    const marked = this.#mayHaveLeft() || (await this.#mark(ended.value));
    return marked ? { draft: ended.value } : { end: await this.#tooLate() };
  }

  /** Durable before the first byte leaves. */
  async #mark(draft: unknown): Promise<boolean> {
    const { policy } = this.#call.definition;
    const { record } = this.#pulse.stored;
    const bound = { tenant: record.tenant, key: record.key, fence: record.fence };
    const applied = await this.#services.ledger.apply(this.#pulse.stored, {
      type: "mark",
      hold: this.#pulse.hold,
      leaseMs: policy.leaseMs,
      timeoutMs: policy.roomMs,
      draft: this.#services.payloads.store(draft, "draft", DEFAULT_LIMITS.inputBytes, bound),
    });
    if (applied.ok) this.#pulse.stored = applied.stored;
    return applied.ok;
  }

  /** F16: an event loop that stood still may have slept through its lease; then nothing may be sent any more. */
  #hasRoom(at = this.#services.ledger.instant()): boolean {
    const { lease } = this.#record;
    return lease !== null && lease.epoch === at.epoch && lease.until - at.steady >= this.#call.definition.policy.roomMs;
  }

  /**
   * The lease is gone and nothing was sent under it. While the record is still ours that is a fact worth telling: the
   * attempt counts, and the next one waits its turn. Taken over meanwhile: the fact is refused, and the record is looked at again.
   */
  async #tooLate(): Promise<End> {
    this.#leaseLost();
    return this.#notSent(this.#stoodStill(), null);
  }

  /** None of the action's code has run: that says nothing about it, so a worker's work is due again at once, uncounted. */
  async #notBegun(): Promise<End> {
    this.#leaseLost();
    return this.#putOff(this.#stoodStill(), { until: this.#services.ledger.instant().now, yieldsPlace: false });
  }

  #stoodStill(): NevertwiceError {
    const { key } = this.#call;
    return new NevertwiceError("LEASE_LOST", "the process stood still past its lease; nothing was sent.", { key });
  }

  #effect(draft: unknown, at = this.#services.ledger.instant()): void {
    const { run, exists } = this.#call.definition;
    const context = this.#context(at);
    this.#running = context;
    watchRequests();
    this.#work = begin(context, exists === undefined ? run : runOrExists(run, exists), this.#input, context, draft);
    this.#pulse.watch(this.#work, this);
  }

  returned(value: unknown): void {
    const failure = failureIn(this.#services.warnings, this.#call.definition, value, this.#running);
    if (failure !== null) {
      this.threw(failure);
      return;
    }
    this.#stop();
    if (this.#call.definition.manual || !this.#mayHaveLeft()) this.#later(this.#conclude({ kind: "returned", value }));
    else this.#confirm(value);
  }

  threw(error: unknown): void {
    this.#stop();
    this.#later(this.#conclude({ kind: "threw", error }));
  }

  cut(why: Interruption): void {
    this.#stop();
    this.#later(this.#conclude(why));
  }

  #stop(): void {
    this.#pulse.end();
    this.#over = true;
  }

  async #conclude(ended: Ended<unknown>): Promise<End | null> {
    // Whether the effect may have left is known only when a send mark under way has its answer; no other is begun.
    if (this.#marking !== null) await this.#marking.catch(() => {});
    if (ended.kind === "returned") {
      const unmarked = this.#call.definition.manual && this.#marking === null;
      if (unmarked || !this.#mayHaveLeft()) return this.#returnedWithoutMark();
      this.#confirm(ended.value);
      return null;
    }
    if (ended.kind === "threw")
      return this.#mayHaveLeft() ? this.#afterMark(ended.error) : this.#beforeMark(ended.error);
    return this.#interrupted(ended);
  }

  async #interrupted(why: Interruption): Promise<End> {
    this.#welcomeLateSuccess(this.#work);
    if (!this.#mayHaveLeft()) {
      return why.kind === "timeout"
        ? this.#notSent(timeoutError("run", this.#call.definition.policy.timeoutMs), null)
        : this.#tooLate();
    }
    if (why.kind === "timeout") {
      return this.#doubt(`no answer within ${formatDuration(this.#call.definition.policy.timeoutMs)}`, null);
    }
    this.#leaseLost();
    return this.#doubt("its lease was lost while it ran", null);
  }

  #mayHaveLeft(): boolean {
    return this.#record.state === "sent";
  }

  #confirm(value: unknown): void {
    try {
      warnOfOddResult(this.#services.warnings, this.#call.definition.name, value);
      this.#value = value;
      this.#told = { type: "confirm", hold: this.#pulse.hold, ...this.#evidence(value) };
      const { ledger, heart } = this.#services;
      // With no other attempt under way there is nobody to share the commit with.
      ledger.applyThen(this.#pulse.stored, this.#told, this, heart.still);
    } catch (error) {
      this.#ending.crashed(error);
    }
  }

  /** The confirmation has its answer. */
  applied(applied: Applied): void {
    if (!applied.ok) {
      this.#ending.ended(this.#secondSuccess(this.#value, applied.stored));
      return;
    }
    const { events, clock } = this.#services;
    if (events.watched) {
      const { attempt } = this.#record;
      const ms = clock.monotonic() - this.#pulse.beganAt;
      events.emit({ type: "executed", ...this.#about, attempt, ms });
    }
    const { record } = applied.stored;
    this.#known(record);
    // Its input was corrected meanwhile, and the corrected one is being run: two effects.
    const isKept = record.state === "confirmed";
    if (!isKept) events.emit({ type: "duplicate_detected", ...this.#about });
    this.#ending.ended(this.#done(this.#value, record.settledAt ?? record.updatedAt, isKept ? applied.stored : null));
  }

  /** It happened, and that is what the caller must hear. The ledger is told as soon as it listens again. */
  failed(error: unknown): void {
    const { ledger, events, untold } = this.#services;
    const { key } = this.#call;
    if (!isStoreUnavailable(error) || this.#told === null) {
      this.#ending.crashed(error);
      return;
    }
    events.emit({ type: "confirm_delayed", ...this.#about });
    untold.add({ key, event: this.#told, leaseMs: this.#call.definition.policy.leaseMs });
    const change = transition(this.#record, this.#told, ledger.instant());
    if (change.ok) this.#remember(change.record, this.#value);
    this.#ending.ended(this.#done(this.#value, ledger.instant().now, null));
  }

  #done(result: unknown, at: number, stored: Stored | null): End {
    const { attempt, fence } = this.#record;
    const outcome = { status: "done", key: this.#call.key, result, replayed: false, attempt, at } as const;
    return { kind: "done", outcome: withFence(outcome, this.#call.definition.policy, fence), stored };
  }

  /** What its events begin with. */
  get #about() {
    return { action: this.#call.definition.name, key: this.#call.key, ...by(this.#record) };
  }

  /** What is kept of a result. */
  #evidence(value: unknown) {
    const { tenant, key, fence } = this.#record;
    const { payloads, providerIds, warnings } = this.#services;
    const { definition } = this.#call;
    const result = payloads.store(value, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence });
    if (result !== null && "omitted" in result) warnOfLostResult(warnings, definition.name, result.omitted);
    return { result, providerId: providerIds.of(definition, value), of: this.#record };
  }

  /** Somebody else's success is on record already: one effect seen twice, or two effects. */
  #secondSuccess(value: unknown, stored: Stored | null): End {
    const { events, payloads } = this.#services;
    const { key } = this.#call;
    const record = stored?.record;
    const first = record ? payloads.load(record, "result").value : undefined;
    if (record?.state === "confirmed" && !sameEffect(first, value)) {
      events.emit({ type: "duplicate_detected", ...this.#about });
    }
    const at = record?.settledAt ?? this.#services.ledger.instant().now;
    const known = record?.state === "confirmed";
    const outcome = {
      status: "done",
      key,
      // Settled without a result, by a person or with one that could not be stored: ours is as true.
      result: known && first !== undefined ? first : value,
      replayed: known,
      attempt: this.#record.attempt,
      at,
    } as const;
    return { kind: "done", outcome, stored };
  }

  async #returnedWithoutMark(): Promise<End> {
    try {
      if (this.#mayHaveLeft() || (await this.#mark(undefined)))
        await this.#doubt("run returned without ctx.sent(), so the effect may have happened unmarked", null);
    } catch (error) {
      // Not to be taken for a store that was down before the effect, which an action may answer by running it.
      if (!isStoreUnavailable(error)) throw error;
    }
    throw configError(
      `${this.#call.definition.name}: mark is "manual" and run returned without ctx.sent(). Call \`await ctx.sent()\` right before the effect; this attempt (${this.#call.key}) is held as unknown until somebody resolves it.`,
    );
  }

  async #afterMark(error: unknown): Promise<End> {
    const verdict = this.#verdict(error);
    switch (verdict.kind) {
      case "doubt":
        return this.#doubt(verdict.why, error);
      case "rejected":
        return this.#settleFailed(verdict.cause, { retryAt: null, final: true });
      case "refused":
        return this.#settleFailed(verdict.cause, { retryAt: null, final: false });
      case "not-sent":
        return this.#notSent(verdict.cause, verdict.retryAfterMs);
    }
  }

  /** Whatever it is, it was thrown before the send mark: surely nothing happened. */
  async #beforeMark(error: unknown): Promise<End> {
    if (isNevertwiceError(error) && error.code === "LEASE_LOST") return this.#tooLate();
    const early = putOffMark(error);
    if (early !== undefined) return this.#putOff(error, early);
    const verdict = this.#verdict(error);
    if (verdict.kind === "rejected" || rejectedMark(error)) {
      return this.#settleFailed(verdict.kind === "rejected" ? verdict.cause : error, { retryAt: null, final: true });
    }
    if (verdict.kind === "refused") return this.#settleFailed(verdict.cause, { retryAt: null, final: false });
    return verdict.kind === "not-sent"
      ? this.#notSent(verdict.cause, verdict.retryAfterMs)
      : this.#notSent(error, null);
  }

  #verdict(error: unknown) {
    return verdictOn(this.#call.definition, error, this.#services, requestsOf(this.#running));
  }

  async #putOff(error: unknown, { until, yieldsPlace }: PutOff): Promise<End> {
    const stored = await this.#tell({ type: "give-back", hold: this.#pulse.hold, dueAt: until, yieldsPlace });
    if ("moved" in stored) return { kind: "moved", stored: stored.moved };
    return { kind: "failed", stored, error, final: false, retryAt: until };
  }

  #notSent(error: unknown, retryAfterMs: number | null): Promise<End> {
    const { ledger, random } = this.#services;
    const { now } = ledger.instant();
    // Where the caller decides about the next try there is no pause but the provider's own.
    const chance = this.#call.atOnce ? NO_PAUSE : random;
    const { at, ...next } = nextTry(this.#call.definition.policy, this.#record, { now, retryAfterMs, random: chance });
    return this.#settleFailed(error, { retryAt: at, final: false, ...next });
  }

  async #settleFailed(error: unknown, { because, ...how }: Failure): Promise<End> {
    const { retryAt, final } = how;
    const shown = givenUp(toStoredError(error), because);
    const event = { type: "not-sent", hold: this.#pulse.hold, error: shown, ...how } as const;
    const stored = await this.#tell(event);
    if ("moved" in stored) return { kind: "moved", stored: stored.moved };
    if (stored.record.state === "unknown") return { kind: "unknown", stored, error };
    this.#services.events.emit({ type: "failed", ...this.#about, attempt: this.#record.attempt, final });
    return { kind: "failed", stored, error, final, retryAt };
  }

  async #doubt(why: string, error: unknown): Promise<End> {
    const stored = await this.#tell({
      type: "doubt",
      hold: this.#pulse.hold,
      why,
      error: error === null ? null : toStoredError(error),
    });
    if ("moved" in stored) return { kind: "moved", stored: stored.moved };
    this.#services.events.emit({ type: "unknown", ...this.#about, attempt: this.#record.attempt, why });
    warnOfUnclassified(this.#services.warnings, this.#call.definition, why);
    return { kind: "unknown", stored, error };
  }

  /** A store that is down now is told later; the caller hears the same truth meanwhile. */
  async #tell(
    event: NotSent | Extract<LedgerEvent, { readonly type: "doubt" | "give-back" }>,
  ): Promise<Stored | { moved: Stored | null }> {
    const { ledger, untold } = this.#services;
    try {
      const applied = await ledger.apply(this.#pulse.stored, event);
      if (!applied.ok) return { moved: applied.stored };
      this.#known(applied.stored.record);
      return applied.stored;
    } catch (error) {
      if (!isStoreUnavailable(error)) throw error;
      const leaseMs = event.type === "give-back" ? 0 : this.#call.definition.policy.leaseMs;
      untold.add({ key: this.#call.key, event, leaseMs });
      const change = transition(this.#record, event, ledger.instant());
      if (!change.ok) return { moved: this.#pulse.stored };
      this.#remember(change.record);
      return { record: change.record, version: this.#pulse.stored.version };
    }
  }

  /** Where the next call would run without the ledger, it has to know of this one. */
  #remember(record: LedgerRecord, value?: unknown): void {
    if (!this.#call.definition.policy.failOpen) return;
    this.#services.unguarded.remember({ call: this.#call, record, value, claimed: true });
  }

  #known(record: LedgerRecord): void {
    if (this.#call.definition.policy.failOpen) this.#services.unguarded.settled(record);
  }

  #leaseLost(): void {
    this.#services.events.emit({ type: "lease_lost", ...this.#about, attempt: this.#record.attempt });
  }

  /** F26: the caller has gone, the answer came after all. */
  #welcomeLateSuccess(work: Promise<unknown>): void {
    const { ledger, underWay } = this.#services;
    const { key } = this.#call;
    const hold: Hold = this.#pulse.hold;
    const tell = async (value: unknown) => {
      if (returnedError(value) instanceof ReturnedError) return;
      const event = { type: "confirm", hold, ...this.#evidence(value) } as const;
      await tellLate(this.#services, await ledger.read(key), event, value, this.#about);
    };
    // A late failure proves nothing, and a store that is down leaves the doubt standing, where a person sees it.
    underWay.late(settlesLate(this.#running, work.then(tell)));
  }

  #context(at = this.#services.ledger.instant()) {
    const { policy, manual } = this.#call.definition;
    return contextOf({
      attempt: this.#record,
      deadline: at.now + policy.timeoutMs,
      log: this.#services.logger,
      pulse: this.#pulse,
      sent: manual ? () => this.#markedByHand() : marked,
      owner: this.#services.underWay,
    });
  }

  #markedByHand(): Promise<void> {
    this.#marking ??= this.#markOrThrow();
    return this.#marking;
  }

  async #markOrThrow(): Promise<void> {
    // A resend was marked as it was claimed.
    const marked = !this.#over && (this.#mayHaveLeft() || (await this.#mark(undefined)));
    // F16: the loop may have stood still while the mark was written. A permission that comes after the lease is none.
    if (marked && (this.#hasRoom() || (await this.#pulse.renew()))) {
      if (this.#running !== null) forgetRequests(this.#running);
      return;
    }
    throw new NevertwiceError(
      "LEASE_LOST",
      "the send mark was refused or came too late: this attempt no longer holds its lease. Nothing may be sent.",
      { key: this.#call.key },
    );
  }
}

const NO_PAUSE = () => 0;

/** Without `mark: "manual"` the claim was the mark. */
async function marked(): Promise<void> {}
