/**
 * A named queue that agents take tasks from, the longest due first, and hand tasks to each other by. A task is an intent
 * like any other: handed over twice it is there once, and whoever hands it over again later learns what it came to.
 *
 * Taking a task is no effect yet: whoever falls silent loses it to the next one. What an agent does outside for a task
 * goes through actions of its own, keyed by the task, so that the second agent to have it does nothing twice.
 */
import { checkAgent } from "../core/agent-name.ts";
import { isOfAllRecords, isStoreDown } from "../core/damaged-record.ts";
import { type Duration, durationMs } from "../core/duration.ts";
import {
  configError,
  isNevertwiceError,
  messageOf,
  NevertwiceError,
  noSuchOption,
  refusedMark,
  rejectedMark,
  unmarked,
} from "../core/errors.ts";
import type { KeyFields, KeyOption } from "../core/key/parts.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { givenUp, nextTry, type RetryOptions } from "../core/retry.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import { type Action, type ActionServices, createAction } from "../engine/action.ts";
import type { CallOptions } from "../engine/call.ts";
import type { Check } from "../engine/check-context.ts";
import { type Definition, defineAction } from "../engine/definition.ts";
import type { Enqueued, EnqueueOptions } from "../engine/enqueue.ts";
import type { Inputs } from "../engine/enqueue-many.ts";
import { by } from "../engine/events.ts";
import { Lanes } from "../engine/lanes.ts";
import { Pulse } from "../engine/lease-keeper.ts";
import { giveBack, leasedTurn, leaveToOthers, parkLeased, staleSince } from "../engine/leased-record.ts";
import { printOf } from "../engine/make-call.ts";
import { isInputMissing, missingInput } from "../engine/missing-input.ts";
import { DEFAULT_LIMITS } from "../engine/payloads.ts";
import { parseInput, type StandardSchema } from "../engine/standard-schema.ts";
import { type TenantChoice, tenantOf } from "../engine/tenancy.ts";
import { lookAgainAt } from "../engine/turn.ts";
import { closedError } from "../engine/under-way.ts";
import { workNews } from "../engine/work-news.ts";
import type { LeasedServices } from "./leased.ts";

/** Of a task whose type nothing declares, no field is known: a list of names would do for `{}`. */
type FieldsOfTask<I> = unknown extends I ? never : KeyFields<I>;

/** `Called`: what callers hand over, where a schema makes another input of it. */
export interface QueueOptions<I, Called = I> {
  /** Any Standard Schema, or type<Task>(), which declares the type and checks nothing. */
  readonly input?: StandardSchema<Called, I>;
  /** What makes two hand-overs the same task: field names, or a function of the task. Without it, every field. */
  readonly key?: readonly (keyof NoInfer<I> & string)[] | ((task: I) => readonly unknown[]) | FieldsOfTask<NoInfer<I>>;
  readonly free?: readonly (NoInfer<I> extends object ? keyof NoInfer<I> & string : string)[];
  /** Runs in add(), before the task is recorded: what it throws leaves no task. Not asked again when the task is taken. */
  readonly check?: Check<I>;
  readonly keep?: Duration | "forever";
  /** How long a holder may be silent before the next one gets its task; heartbeats go out by themselves. "60s". */
  readonly lease?: Duration;
  readonly retry?: RetryOptions;
}

export interface WorkQueue<I, R, Called = I> {
  readonly queueName: string;
  /** Hands a task over. Ten times, one task; `result` where it is done already. */
  add(task: Called, options?: EnqueueOptions): Promise<Enqueued<R>>;
  addMany(tasks: Inputs<Called>, options?: EnqueueOptions): Promise<Enqueued<R>[]>;
  /** The task that has been due the longest, or null: none is, not within `wait` either. */
  take(options?: TakeOptions): Promise<Task<I, R> | null>;
  status(task: Called | { readonly key: string }, options?: CallOptions): Promise<Outcome<R> | Absent>;
}

export interface TakeOptions extends TenantChoice {
  /** How long to wait for a task where none is due; not at all unless given. */
  readonly wait?: Duration;
  /** Who takes it: kept on the record once the task is done or has failed. nevertwice({ agent }) unless given. */
  readonly agent?: string;
}

export interface Task<I, R> {
  readonly key: string;
  /** Whose task it is; "" where it has no tenant. */
  readonly tenant: string;
  readonly input: I;
  readonly attempt: number;
  /** Aborted when the task is lost to another holder, or handed back by close(): stop working on it. */
  readonly signal: AbortSignal;
  /**
   * It is done. If somebody else had it done first, that result stands and comes back as replayed. When the store does not
   * answer, this rejects, the task is still held, and done(), fail() or giveBack() may be called again.
   */
  done(result: R): Promise<Outcome<R>>;
  /** It did not work out: tried again after a pause while there are tries left, otherwise a dead letter. `refused()` and `rejected()` are not tried again. */
  fail(error: unknown, options?: { readonly final?: boolean }): Promise<Outcome<R> | Absent>;
  /** Somebody else may have it: not counted as a try. */
  giveBack(options?: { readonly delay?: Duration }): Promise<void>;
}

const TAKE_OPTIONS = new Set(["wait", "agent", "tenant", "tenants"]);
const OPTIONS = new Set(["input", "key", "free", "check", "keep", "lease", "retry"]);
// Tasks that turn out to be stale, unreadable or not the first of their line, before it says that there is none.
const MOST_PASSED_OVER = 100;
const POLL_MS = 250;

export function createQueue<I, R, Called = I>(
  name: string,
  options: QueueOptions<I, Called>,
  services: ActionServices,
): WorkQueue<I, R, Called> {
  for (const option of Object.keys(options)) {
    if (OPTIONS.has(option)) continue;
    throw noSuchOption(`queue ${JSON.stringify(name)}`, option, OPTIONS);
  }
  return new NamedQueue<I, R>(defineQueue(name, options), services) as unknown as WorkQueue<I, R, Called>;
}

function defineQueue<I, Called>(name: string, options: QueueOptions<I, Called>): Definition {
  return defineAction<I, never, undefined>(name, {
    ...(options as Omit<QueueOptions<I, unknown>, "key"> & { readonly key?: KeyOption<I> }),
    run: () => {
      throw configError(`${name} is a queue: nobody calls it. Take tasks from it with take().`);
    },
  });
}

class NamedQueue<I, R> implements WorkQueue<I, R> {
  readonly queueName: string;
  readonly #definition: Definition;
  readonly #action: Action<I, R>;
  readonly #services: ActionServices;
  readonly #leased: LeasedServices;

  constructor(definition: Definition, services: ActionServices) {
    this.queueName = definition.name;
    this.#definition = definition;
    this.#services = services;
    this.#action = createAction<I, R>(definition, services);
    const { engine, defaults } = services;
    const lanes = new Lanes(engine.services.ledger, defaults.secret);
    this.#leased = { engine, defaults, lanes, mayBegin: () => true };
  }

  add(task: I, options?: EnqueueOptions): Promise<Enqueued<R>> {
    return this.#action.enqueue(task, options);
  }

  addMany(tasks: Inputs<I>, options?: EnqueueOptions): Promise<Enqueued<R>[]> {
    return this.#action.enqueueMany(tasks, options);
  }

  status(task: I | { readonly key: string }, options?: CallOptions): Promise<Outcome<R> | Absent> {
    return this.#action.status(task, options);
  }

  async take(options: TakeOptions = {}): Promise<Task<I, R> | null> {
    for (const option of Object.keys(options)) {
      if (!TAKE_OPTIONS.has(option)) throw noSuchOption(`${this.queueName}.take`, option, TAKE_OPTIONS);
    }
    const { wait = 0 } = options;
    const { wait: _, agent: taker, ...choice } = options;
    if (taker !== undefined) checkAgent(taker, `${this.queueName}.take`);
    const agent = taker ?? this.#services.defaults.agent ?? null;
    const tenant = tenantOf(choice, this.#services.defaults.confinedTo, `${this.queueName}.take`);
    this.#services.used();
    const { clock, ledger } = this.#services.engine.services;
    const admission = ledger.admits(this.#definition.policy.doubt.kind);
    if (admission !== null) await admission;
    const until = clock.monotonic() + durationMs(wait, `${this.queueName}.take: wait`);
    const { underWay } = this.#services.engine.services;
    for (;;) {
      const task = await this.#services.engine.during(() => this.#takeNow(tenant, agent));
      const leftMs = until - clock.monotonic();
      if (task !== null || leftMs <= 0 || underWay.closed) return task;
      await workNews(this.#services.engine.services, { actions: [this.queueName], tenant }, Math.min(leftMs, POLL_MS));
      // Nothing came while it waited, and nothing is taken any more.
      if (underWay.closed) return null;
    }
  }

  async #takeNow(tenant: string | undefined, agent: string | null): Promise<Task<I, R> | null> {
    const { ledger, newHolder, underWay } = this.#services.engine.services;
    const { leaseMs } = this.#definition.policy;
    const own = tenant === undefined ? {} : { tenant };
    const query = { limit: 1, leaseMs, to: "claimed", actions: [this.queueName], ...own } as const;
    for (let passed = 0; passed < MOST_PASSED_OVER; passed += 1) {
      if (underWay.closed) return null;
      const [stored] = await ledger.lease({ ...query, holder: newHolder() });
      if (stored === undefined) return null;
      const task = await this.#open(stored, agent);
      if (task === null) continue;
      if (!underWay.closed) return task.held();
      await task.giveBack();
      return null;
    }
    return null;
  }

  /** Null: not to be worked on now, and out of the way. */
  async #open(leased: Stored, agent: string | null): Promise<TakenTask<I, R> | null> {
    const { engine } = this.#services;
    const { ledger, payloads, heart } = engine.services;
    const stored = await this.#atItsTurn(leased);
    if (stored === null) return null;
    const stale = staleSince(stored.record, ledger.instant().now);
    if (stale !== null) {
      await parkLeased(this.#leased, stored, stale, "expired");
      return null;
    }
    const lacks = payloads.lacks(stored.record);
    if (lacks !== null) {
      await leaveToOthers(this.#leased, stored, lacks);
      return null;
    }
    try {
      const { value, omitted } = payloads.load(stored.record, "input");
      if (omitted !== undefined) throw new NevertwiceError("INVALID_INPUT", `its input cannot be read: ${omitted}`);
      const { schema, name, policy } = this.#definition;
      const input = schema === undefined ? value : await parseInput(schema, value, name);
      const { record } = stored;
      if (record.input === null) {
        const print = printOf(input, this.#definition.free, record.key, this.#services.defaults);
        if (isInputMissing(record, { print }, this.#definition.free)) throw missingInput(record);
      }
      const timeoutMs = Number.POSITIVE_INFINITY;
      const pulse = new Pulse(heart, { leaseMs: policy.leaseMs, timeoutMs, stored });
      return new TakenTask<I, R>(this.#services, { definition: this.#definition, pulse, agent }, input as I);
    } catch (error) {
      if (isOfAllRecords(error)) throw error;
      await parkLeased(this.#leased, stored, error, "unreadable");
      return null;
    }
  }

  /** First of all: what is put aside, as stale or unreadable, also lets the next of its order begin. */
  async #atItsTurn(leased: Stored): Promise<Stored | null> {
    if (leased.record.terms?.line === undefined) return leased;
    const { engine } = this.#services;
    const turn = await leasedTurn(engine, leased);
    if (turn.as === "begin") return turn.stored;
    if (turn.as === "wait")
      await giveBack(this.#leased, turn.stored, lookAgainAt(turn.before, engine.services.ledger.instant()));
    return null;
  }
}

interface Ended {
  readonly how: "done" | "fail" | "giveBack" | "close";
  readonly answer: Promise<unknown>;
}

interface Taking {
  readonly definition: Definition;
  readonly pulse: Pulse;
  readonly agent: string | null;
}

class TakenTask<I, R> implements Task<I, R> {
  readonly key: string;
  readonly tenant: string;
  readonly input: I;
  readonly attempt: number;
  readonly #services: ActionServices;
  readonly #definition: Definition;
  readonly #pulse: Pulse;
  readonly #agent: string | null;
  #ended: Ended | null = null;
  #forget: () => void = () => {};

  constructor(services: ActionServices, { definition, pulse, agent }: Taking, input: I) {
    this.#services = services;
    this.#agent = agent;
    this.#definition = definition;
    this.#pulse = pulse;
    this.input = input;
    this.key = pulse.stored.record.key;
    this.tenant = pulse.stored.record.tenant;
    this.attempt = pulse.stored.record.attempt;
  }

  /** From now on close() hands it back. */
  held(): this {
    this.#forget = this.#services.engine.services.underWay.onClose(() => this.#closed());
    return this;
  }

  get signal(): AbortSignal {
    return this.#pulse.signal;
  }

  done(result: R): Promise<Outcome<R>> {
    return this.#end("done", () => this.#done(result));
  }

  fail(error: unknown, { final = false }: { final?: boolean } = {}): Promise<Outcome<R> | Absent> {
    return this.#end("fail", () => this.#fail(error, final));
  }

  async giveBack({ delay = 0 }: { delay?: Duration } = {}): Promise<void> {
    const delayMs = durationMs(delay, `${this.#definition.name}: giveBack delay`);
    return this.#end("giveBack", () => this.#giveBack(delayMs));
  }

  /**
   * Written once. A repeat joins the write, or gets the answer it had. One that failed has changed nothing for the holder:
   * its lease is kept on, and it may be repeated.
   */
  #end<T>(how: Ended["how"], write: () => Promise<T>): Promise<T> {
    const ended = this.#ended;
    if (ended !== null && ended.how === how) return ended.answer as Promise<T>;
    if (ended !== null) return Promise.reject(this.#endedBefore(ended.how));
    this.#pulse.end();
    const { engine } = this.#services;
    const answer = engine.during(write).catch((error: unknown) => {
      const isOutage = isStoreDown(error) && !engine.services.underWay.closed;
      throw isOutage ? this.#notRecorded(how, error) : error;
    });
    this.#ended = { how, answer };
    answer.then(this.#forget, () => {
      this.#ended = null;
      this.#pulse.resume();
    });
    return answer;
  }

  /** The store speaks of calls, which run nothing while it is down; here the work is done, and only its record is missing. */
  #notRecorded(how: Ended["how"], error: unknown): NevertwiceError {
    const why = messageOf(error).replace(/\s*Nothing was run.*$/s, "");
    const code = isNevertwiceError(error) ? error.code : "STORE_UNAVAILABLE";
    return new NevertwiceError(
      code,
      `${this.#definition.name}: ${how}() of the task ${this.key} was not acknowledged by the ledger: ${why} The task is still held, and its lease is kept as soon as the ledger answers. Call ${how}() again until it returns: a repeat changes nothing that is recorded already.`,
      { key: this.key, cause: error },
    );
  }

  #endedBefore(how: Ended["how"] | "close"): NevertwiceError {
    if (how === "close")
      return closedError(
        ` The task ${this.#definition.name} was handed back to its queue. Finish tasks before close().`,
      );
    return configError(
      `${this.#definition.name}: this task was ended before, by ${how}(). Nothing was changed. End a task in one way.`,
    );
  }

  async #done(result: R): Promise<Outcome<R>> {
    const { ledger, payloads, providerIds, events } = this.#services.engine.services;
    const { tenant, fence, holder } = this.#pulse.stored.record;
    const bound = { tenant, key: this.key, fence };
    const stored = payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, bound);
    const applied = await ledger.apply(this.#pulse.stored, {
      type: "confirm",
      hold: this.#pulse.hold,
      result: stored,
      providerId: providerIds.of(this.#definition, result),
      of: this.#pulse.stored.record,
      agent: this.#agent,
    });
    if (applied.stored === null) throw this.#lost();
    const { record } = applied.stored;
    // Ours already: an earlier done() got no answer, and had arrived.
    const others = record.fence !== fence || record.holder !== holder || record.history.at(-1)?.to === "confirmed";
    const ours = record.state === "confirmed" && !others;
    if (!applied.ok && !ours) return this.#services.engine.describe(record) as Outcome<R>;
    const { attempt, settledAt, updatedAt } = record;
    const about = { action: this.#definition.name, key: this.key, ...by(record) };
    events.emit({ type: "executed", ...about, attempt, ms: 0 });
    // Its input was corrected meanwhile, and the corrected one is being run.
    if (record.state !== "confirmed") events.emit({ type: "duplicate_detected", ...about });
    return { status: "done", key: this.key, result, replayed: false, attempt, at: settledAt ?? updatedAt };
  }

  async #fail(error: unknown, final: boolean): Promise<Outcome<R> | Absent> {
    const { engine } = this.#services;
    const { ledger, random, events } = engine.services;
    const { policy, name } = this.#definition;
    const { record } = this.#pulse.stored;
    const { now } = ledger.instant();
    const isFinal = final || rejectedMark(error) !== undefined;
    const isOver = isFinal || refusedMark(error) !== undefined;
    const next = isOver ? { at: null } : nextTry(policy, record, { now, retryAfterMs: null, random });
    const { at: retryAt, because, ...end } = next;
    const reason = { error: givenUp(toStoredError(unmarked(error)), because), retryAt, final: isFinal, ...end };
    const event = { type: "not-sent", hold: this.#pulse.hold, ...reason, agent: this.#agent } as const;
    const applied = await ledger.apply(this.#pulse.stored, event);
    if (applied.ok) {
      const { attempt } = record;
      events.emit({
        type: "failed",
        action: name,
        key: this.key,
        ...by(applied.stored.record),
        attempt,
        final: isFinal,
      });
    }
    if (applied.stored === null) throw this.#lost();
    return engine.describe(applied.stored.record) as Outcome<R> | Absent;
  }

  async #giveBack(delayMs: number): Promise<void> {
    const { ledger } = this.#services.engine.services;
    const dueAt = ledger.instant().now + delayMs;
    await ledger.apply(this.#pulse.stored, { type: "give-back", hold: this.#pulse.hold, dueAt });
  }

  /** Nobody knows when its holder will be done with it: the next one may have it at once. */
  #closed(): void {
    if (this.#ended !== null) return;
    const { underWay, ledger, untold } = this.#services.engine.services;
    this.#pulse.end();
    this.#ended = { how: "close", answer: Promise.resolve() };
    this.#pulse.abort(this.#endedBefore("close"));
    const later = () => {
      const event = { type: "give-back", hold: this.#pulse.hold, dueAt: ledger.instant().now } as const;
      untold.add({ key: this.key, event, leaseMs: 0 });
    };
    void underWay.during(this.#giveBack(0).catch(later));
  }

  #lost(): NevertwiceError {
    return new NevertwiceError("LEASE_LOST", "the task is gone from the ledger: it was taken over and swept.", {
      key: this.key,
    });
  }
}
