/// <reference lib="esnext.disposable" preserve="true" />
/** Puts the engine together over a store: what `nevertwice()` returns. */
import { checkAgent } from "./core/agent-name.ts";
import type { Duration } from "./core/duration.ts";
import { durationMs } from "./core/duration.ts";
import { movesMoney, unfitForMoney, withEffect } from "./core/effect.ts";
import { configError, noSuchOption } from "./core/errors.ts";
import { requireGiven } from "./core/given-option.ts";
import { checkSecret } from "./core/key/key.ts";
import { type PolicyOptions, policyWarnings, shortLease } from "./core/policy.ts";
import { redact } from "./core/redact.ts";
import { sealer } from "./core/seal.ts";
import type { Store } from "./core/store.ts";
import { type Action, type ActionServices, createAction, pastOf } from "./engine/action.ts";
import { withWarnings } from "./engine/action-warnings.ts";
import type { CallDefaults, CallOptions } from "./engine/call.ts";
import { asCheck } from "./engine/check-context.ts";
import { systemClock } from "./engine/clock.ts";
import { type AttemptContext, outside, silentLogger } from "./engine/context.ts";
import { DamageReports } from "./engine/damage-reports.ts";
import {
  type ActionOptions,
  type Definition,
  defineAction,
  type FormerDefinition,
  type Probe,
  requireUsersName,
  runOfContext,
} from "./engine/definition.ts";
import { Engine } from "./engine/engine.ts";
import { type EventListener, Events, Warnings } from "./engine/events.ts";
import { type FindQuery, type Found, findIntents } from "./engine/find.ts";
import { type ForgetOptions, forgetRecord } from "./engine/forget.ts";
import { holderIds } from "./engine/holder-ids.ts";
import { KeyNotes } from "./engine/key-notes.ts";
import { Lanes } from "./engine/lanes.ts";
import { Heart } from "./engine/lease-keeper.ts";
import { Ledger } from "./engine/ledger.ts";
import { listPrevented, type Prevented, type PreventedQuery } from "./engine/list-prevented.ts";
import { requireGivenIn } from "./engine/make-call.ts";
import { decideOnceMore, type OnceMoreAsk, onceMoreRequests, requestOnceMore } from "./engine/once-more.ts";
import { keyIn, type Resolution, resolveDoubt, retryFailed, type Signature, type Target } from "./engine/operate.ts";
import { PAST } from "./engine/past.ts";
import { Payloads } from "./engine/payloads.ts";
import { Untold } from "./engine/pending-writes.ts";
import { PreventedCounts } from "./engine/prevented.ts";
import { ProviderIds } from "./engine/provider-ids.ts";
import { type ResolveFilter, type ResolveReport, resolveAll } from "./engine/resolve-all.ts";
import { type RetryFilter, type RetryReport, retryAll } from "./engine/retry-all.ts";
import { SweepLoop, type SweepWork } from "./engine/sweep-loop.ts";
import { Sweeper, type SweepReport } from "./engine/sweeper.ts";
import { checkTenantChoice, onlyOf, type TenantChoice, tenantOf } from "./engine/tenancy.ts";
import { UnderWay } from "./engine/under-way.ts";
import { UnguardedRuns } from "./engine/unguarded-runs.ts";
import type { Nevertwice, NevertwiceOptions, OnceOptions } from "./nevertwice-api.ts";
import { openStore } from "./open-store.ts";
import { createQueue, type QueueOptions, type WorkQueue } from "./outbox/work-queue.ts";
import { createWorker, type Worker } from "./outbox/worker.ts";
import type { WorkerOptions } from "./outbox/worker-options.ts";
import { type RunId, type RunOptions, type RunServices, startRun } from "./runs/run.ts";
import { createSequence, type Sequence, type SequenceOptions } from "./runs/sequence.ts";
import type { SequenceStep } from "./runs/sequence-list.ts";
import type { Run } from "./runs/steps.ts";
import { createJob, type Job, type JobOptions, type JobServices } from "./schedule/job.ts";

export type { Nevertwice, NevertwiceOptions, OnceOptions } from "./nevertwice-api.ts";

const OPTIONS = new Set("store tenant tenants secret encrypt agent logger onWarning sweep".split(" "));
const SWEEP_OPTIONS = new Set(["tenant", "tenants"]);
const OWNER = Symbol.for("nevertwice.owner");
const DEFAULT_SWEEP = "30s";
// A sweep reads the ledger: more often than this it would be a load of its own.
const SHORTEST_SWEEP_MS = 10;
// A warning, and no secret derived from the encryption key: a rotation would then change every key, and so would
// switching encryption on, after which everything done before would be done again.
const ENCRYPT_WITHOUT_SECRET =
  "encrypt is on and there is no secret: keys are plain digests of their parts, so that whoever reads the store can test a guess at a part (an address, a phone number) against them. Give `secret` too. It changes every key: set it before the first record, or when the old records are past their keep.";
// Names of once(), runs and steps whose options were looked at for warnings.
const MOST_AD_HOC = 1_000;

export function nevertwice<Tx = unknown>(options: NevertwiceOptions<Tx> = {}): Nevertwice<Tx> {
  checkOptions(options);
  return new Instance(options) as Nevertwice<Tx>;
}

const services = new WeakMap<Nevertwice, ActionServices>();

/** The engine behind an instance, for the command: its service makes attempts for programs outside of this process. */
export function servicesOf(nt: Nevertwice): ActionServices {
  return services.get(nt) as ActionServices;
}

function checkOptions(options: NevertwiceOptions): void {
  for (const option of Object.keys(options)) {
    if (!OPTIONS.has(option)) {
      throw noSuchOption("nevertwice()", option, OPTIONS);
    }
  }
  requireGiven("nevertwice()", options, ["store", "encrypt", "secret"]);
  if ("agent" in options) checkAgent(options.agent, "nevertwice()");
  if (options.secret !== undefined) checkSecret(options.secret);
  checkTenantChoice(options, "nevertwice()");
}

class Instance implements Nevertwice {
  readonly store: Store;
  readonly tenant: string | undefined;
  readonly #engine: Engine;
  readonly #defaults: CallDefaults;
  readonly #definitions = new Map<string, Definition>();
  /** Names of before, and the action that has each now: it looks after their queued work and their doubts. */
  readonly #formerNames = new Map<string, string>();
  readonly #keyNotes: KeyNotes;
  readonly #adHoc = new Set<string>();
  /** Payments for which the store was looked at. */
  readonly #lookedAt = new Set<string>();
  readonly #sweeper: Sweeper;
  readonly #loop: SweepLoop | null;
  readonly #services;
  readonly #loops: { stop(): Promise<void> }[] = [];
  readonly #queues = new Set<string>();
  readonly #workers = new Set<Worker>();
  #closing: Promise<void> | null = null;

  constructor(options: NevertwiceOptions) {
    this.store = openStore(options.store);
    const { tenant, tenants, secret } = options;
    const seals = options.encrypt === undefined ? null : sealer(options.encrypt);
    const payloads = new Payloads(seals);
    this.#defaults = {
      tenant: tenant ?? "",
      confinedTo: tenants === "all" ? undefined : tenant,
      secret,
      agent: options.agent ?? agentOfEnvironment(),
      ...(seals !== null && { digestKeys: seals.digestKeys }),
      payloads,
    };
    this.tenant = this.#defaults.confinedTo;
    const events = new Events();
    const clock = systemClock;
    const random = Math.random;
    const warnings = new Warnings(events, options.onWarning);
    const damage = new DamageReports(events, warnings);
    const ledger = new Ledger({
      store: this.store,
      clock,
      events,
      random,
      damaged: (found) => damage.report(found),
    });
    const providerIds = new ProviderIds(this.#definitions, seals?.digestKeys, warnings);
    const untold = new Untold(ledger, clock, warnings);
    this.#engine = new Engine({
      ledger,
      clock,
      random,
      events,
      payloads,
      providerIds,
      warnings,
      logger: options.logger ?? silentLogger,
      untold,
      unguarded: new UnguardedRuns({ ledger, clock, events, payloads, providerIds, warnings, untold }),
      heart: new Heart(ledger, clock, (action, times) => {
        const message = shortLease(action, { ...times, because: "the event loop was blocked" });
        if (message !== null) warnings.warn("LEASE_SHORT", action, message);
      }),
      newHolder: holderIds(),
      underWay: new UnderWay(),
      prevented: new PreventedCounts(ledger),
      lanes: new Lanes(ledger, secret),
    });
    this.#keyNotes = new KeyNotes(ledger, warnings, this.#defaults);
    if (seals !== null && options.secret === undefined) {
      this.#engine.services.warnings.warn("ENCRYPT_WITHOUT_SECRET", "", ENCRYPT_WITHOUT_SECRET);
    }
    this.#sweeper = new Sweeper(this.#engine, this.#definitions, this.#defaults);
    const everyMs = options.sweep === false ? null : sweepInterval(options.sweep ?? DEFAULT_SWEEP);
    const onError = (error: unknown) =>
      this.#engine.services.logger.warn(`nevertwice: a sweep failed: ${redact(String(error))}`);
    this.#loop = everyMs === null ? null : new SweepLoop({ work: this.#sweepWork(), clock, everyMs, random, onError });
    this.#services = { engine: this.#engine, defaults: this.#defaults, used: () => this.#used() };
    services.set(this, this.#services);
  }

  #sweepWork(): SweepWork {
    return {
      lapse: async () => {
        const pass = await this.#sweeper.lapse();
        await this.#engine.services.prevented.flush();
        return pass;
      },
      settle: () => this.#sweeper.settle(),
      remove: async (times) => {
        await this.#keyNotes.flush();
        return this.#sweeper.remove(times);
      },
    };
  }

  #used(): void {
    this.#engine.requireOpen();
    this.#loop?.start();
  }

  // The types of define-action.ts are for the compiler alone; behind them is one plain function.
  readonly action = (<I, R, D>(name: string, options: ActionOptions<I, R, D>) => {
    requireUsersName(name, "action", options);
    return this.#define(name, options, { ...this.#services, keyNotes: this.#keyNotes });
  }) as Nevertwice["action"];

  #define<I, R, D>(
    name: string,
    options: ActionOptions<I, R, D>,
    services: ActionServices = this.#services,
  ): Action<I, R> {
    const definition = defineAction(name, options);
    this.#requireFreeName(name);
    for (const former of definition.formerly) this.#requireNotInUse(name, former.name);
    this.#definitions.set(name, definition);
    for (const former of definition.formerly) this.#serveFormer(definition, former);
    this.#warnOf(definition);
    const used = () => {
      this.#used();
      this.#lookAtStore(definition);
    };
    const own = movesMoney(definition.policy.effect) ? { ...services, used } : services;
    const action = withEffect(createAction<I, R>(definition, own), definition.policy.effect);
    // So that the command, given an action, finds the instance it belongs to.
    Object.defineProperty(action, OWNER, { value: this });
    Object.defineProperty(action, PAST, { value: pastOf(definition, this.#services) });
    const { warnings } = this.#engine.services;
    return withWarnings(action, { warn: (code, message) => warnings.warn(code, name, message) });
  }

  /** What was recorded under a former name has that name still: workers and sweeps go on with it. */
  #serveFormer(definition: Definition, { name, key }: FormerDefinition): void {
    if (this.#definitions.has(name)) return;
    this.#formerNames.set(name, definition.name);
    this.#definitions.set(name, { ...definition, name, key, formerly: [], successor: definition });
  }

  /** A former name: with two actions that have it, a record under it could be of either. */
  #requireNotInUse(name: string, former: string): void {
    const owner = this.#formerNames.get(former);
    if (former === name) return;
    if (owner !== undefined) throw formerNameTwice(former, `the actions ${named(owner)} and ${named(name)} both give`);
    if (this.#definitions.has(former) || this.#queues.has(former)) throw formerNameInUse(name, former);
  }

  #requireFreeName(name: string): void {
    const owner = this.#formerNames.get(name);
    if (owner !== undefined) throw formerNameInUse(owner, name);
    if (!this.#definitions.has(name) && !this.#queues.has(name)) return;
    throw configError(
      `action ${JSON.stringify(name)} is defined twice. Its name is part of every key: two kinds of effect under one name would take each other for repeats. Define it once, in a module that others import; or give the second another name.`,
    );
  }

  async once<R>(
    name: string,
    parts: readonly unknown[],
    run: (context: AttemptContext) => R | Promise<R>,
    options: OnceOptions = {},
  ): Promise<R> {
    requireUsersName(name, "once", options);
    return this.#once(name, parts, run, options);
  }

  async #once<R>(
    name: string,
    parts: readonly unknown[],
    run: (context: AttemptContext) => R | Promise<R>,
    options: OnceOptions = {},
  ): Promise<R> {
    if (typeof run !== "function")
      throw configError(
        `once(${JSON.stringify(name)}, …): the third argument must be the function that performs the effect.`,
      );
    if (!Array.isArray(parts))
      throw configError(
        `once(${JSON.stringify(name)}, …): the second argument takes a list of parts, which are its key: once(${JSON.stringify(name)}, [${typeof parts === "string" || typeof parts === "number" ? JSON.stringify(parts) : "…"}], run).`,
      );
    requireGivenIn(options, `once(${JSON.stringify(name)}, …)`);
    const { scope, version, tenant, agent, wait, tx, check, ...policy } = options;
    const definition = defineAction<undefined, R, undefined>(name, {
      ...(policy as PolicyOptions<Probe<undefined, R>>),
      key: () => parts,
      ...(check !== undefined && { check: asCheck(check) }),
      run: runOfContext(run),
    });
    this.#warnOnce(definition);
    const given = { scope, version, tenant, agent, wait, tx };
    const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
    return createAction<undefined, R>(definition, this.#services)(undefined, set as CallOptions);
  }

  job<R, P = undefined>(name: string, options: JobOptions<R, P>): Job<R> {
    const { loop, ...job } = createJob(name, options, this.#jobServices());
    this.#loops.push(loop);
    return job;
  }

  run<R>(name: string, id: RunId, body: (run: Run) => R | Promise<R>, options?: RunOptions): Promise<R> {
    return startRun(this.#runServices(), name, id, body, options);
  }

  sequence<I = undefined, R = unknown>(
    name: string,
    steps: readonly SequenceStep[],
    options: SequenceOptions<I, R>,
  ): Sequence<I, R> {
    return createSequence(name, steps, options, {
      ...this.#services,
      action: (action, given) => this.#define(action, given),
    });
  }

  #runServices(): RunServices {
    return {
      ...this.#services,
      adHoc: (action, options) => {
        const definition = defineAction(action, options);
        this.#warnOnce(definition);
        return createAction(definition, this.#services);
      },
    };
  }

  #jobServices(): JobServices {
    const { clock, logger, payloads, warnings } = this.#engine.services;
    return {
      store: this.store,
      clock,
      logger,
      payloads,
      tenant: this.#defaults.tenant,
      secret: this.#defaults.secret,
      warn: (code, action, message, about) => warnings.warn(code, action, message, about),
      action: (action, options) => this.#define(action, options),
      retain: (key, keepMs) => this.#engine.retain(key, keepMs),
      requireOpen: () => this.#engine.requireOpen(),
      once: (action, parts, run, options) => this.#once(action, parts, run, options),
    };
  }

  async status(target: { readonly key: string }) {
    return this.#engine.status(keyIn(target, "status"), this.#defaults.confinedTo);
  }

  find(query: FindQuery): Promise<readonly Found[]> {
    return findIntents(this.#engine, query, this.#defaults);
  }

  prevented(query: PreventedQuery = {}): Promise<Prevented> {
    return listPrevented(this.#engine, query, this.#defaults);
  }

  async requestOnceMore(target: { readonly key: string }, ask: OnceMoreAsk) {
    return requestOnceMore(this.#engine, this.#targetOf(target, "requestOnceMore"), ask);
  }

  async onceMoreRequests(choice: TenantChoice = {}) {
    return onceMoreRequests(this.#engine, choice, this.#defaults);
  }

  async grantOnceMore(target: { readonly key: string }, signature: Signature) {
    return decideOnceMore(this.#engine, this.#targetOf(target, "grantOnceMore"), "granted", signature);
  }

  async denyOnceMore(target: { readonly key: string }, signature: Signature) {
    return decideOnceMore(this.#engine, this.#targetOf(target, "denyOnceMore"), "denied", signature);
  }

  async resolve(target: { readonly key: string }, resolution: Resolution<unknown>) {
    return resolveDoubt(this.#engine, this.#targetOf(target, "resolve"), resolution);
  }

  async retry(target: { readonly key: string }, signature: Signature) {
    return retryFailed(this.#engine, this.#targetOf(target, "retry"), signature);
  }

  async forget(target: { readonly key: string }, options: ForgetOptions) {
    return forgetRecord(this.#engine, this.#targetOf(target, "forget"), options);
  }

  #targetOf(target: { readonly key: string }, where: string): Target {
    return { key: keyIn(target, where), tenant: this.#defaults.confinedTo ?? "" };
  }

  resolveAll(filter: ResolveFilter, resolution: Omit<Resolution<never>, "result">): Promise<ResolveReport> {
    return resolveAll(this.#engine, filter, resolution, this.#defaults.confinedTo);
  }

  retryAll(filter: RetryFilter, signature: Signature): Promise<RetryReport> {
    return retryAll(this.#engine, filter, signature, this.#defaults.confinedTo);
  }

  queue<I, R = unknown, Called = I>(name: string, options: QueueOptions<I, Called> = {}): WorkQueue<I, R, Called> {
    requireUsersName(name, "queue");
    this.#requireFreeName(name);
    this.#queues.add(name);
    return createQueue<I, R, Called>(name, options, this.#services);
  }

  worker(options: WorkerOptions = {}): Worker {
    return createWorker(options, { ...this.#services, definitions: this.#definitions, active: this.#workers });
  }

  async sweep(options: TenantChoice = {}): Promise<SweepReport> {
    for (const option of Object.keys(options)) {
      if (!SWEEP_OPTIONS.has(option)) throw noSuchOption("sweep()", option, SWEEP_OPTIONS);
    }
    const of = onlyOf(tenantOf(options, this.#defaults.confinedTo, "sweep()"));
    return this.#engine.during(async () => {
      await this.#engine.services.prevented.flush();
      return this.#sweeper.tick(of);
    });
  }

  on(listener: EventListener): () => void {
    return this.#engine.services.events.on(listener);
  }

  close(): Promise<void> {
    this.#closing ??= outside(() => this.#close());
    if (!this.#engine.services.underWay.inside) return this.#closing;
    this.#closing.catch((error: unknown) =>
      process.emitWarning(`nevertwice: close() failed: ${String(error)}`, { type: "NevertwiceWarning" }),
    );
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { underWay, untold, unguarded, ledger, clock } = this.#engine.services;
    underWay.close();
    const loops = [...this.#loops, ...this.#workers, ...(this.#loop === null ? [] : [this.#loop])];
    await Promise.allSettled(loops.map((loop) => loop.stop()));
    await this.#engine.idle();
    await underWay.release();
    await underWay.lateAnswers(clock);
    await this.#engine.idle();
    await this.#engine.services.lanes.settled();
    await untold.close();
    await this.#engine.delivered.flush();
    // The last occasion: a store that was down is asked now, and not when its pause is over.
    if (unguarded.size > 0) await ledger.askNow();
    await unguarded.close();
    // A program that ends before its first sweep. Without a background sweep nothing is written that nobody asked for.
    if (this.#loop !== null) {
      await this.#keyNotes.flush();
      await this.#engine.services.prevented.flush();
    }
    await this.store.close();
  }

  /** Names may be made at call time: only so many are remembered, and no action with them. */
  #warnOnce(definition: Definition): void {
    if (this.#adHoc.has(definition.name)) return;
    if (this.#adHoc.size >= MOST_AD_HOC) this.#adHoc.clear();
    this.#adHoc.add(definition.name);
    this.#warnOf(definition);
    if (movesMoney(definition.policy.effect)) this.#lookAtStore(definition);
  }

  #warnOf({ policy, name }: Definition): void {
    for (const { code, message } of policyWarnings(policy, name))
      this.#engine.services.warnings.warn(code, name, message);
  }

  /** At the first use, since some stores have to ask their server. One that does not answer says so to the call itself. */
  #lookAtStore({ name }: Definition): void {
    if (this.#lookedAt.has(name)) return;
    this.#lookedAt.add(name);
    const warn = (refusal: string | null) => {
      const message = unfitForMoney(this.store, refusal, name);
      if (message !== null) this.#engine.services.warnings.warn("STORE_UNFIT_FOR_MONEY", name, message);
    };
    if (this.store.refuses === undefined) warn(null);
    else this.store.refuses({ doubt: "hold" }).then(warn, () => this.#lookedAt.delete(name));
  }
}

function agentOfEnvironment(): string | null {
  const agent = process.env.NEVERTWICE_AGENT;
  if (agent === undefined || agent === "") return null;
  checkAgent(agent, "$NEVERTWICE_AGENT");
  return agent;
}

const named = (name: string) => JSON.stringify(name);

function formerNameInUse(name: string, former: string): Error {
  return configError(
    `action ${named(name)}: formerly names ${named(former)}, and this program also has an action or a queue of that name. Their records and queued work could not be told apart. Remove the one that was renamed, or, if ${named(former)} is another action, leave the name out of formerly: { key: … }.`,
  );
}

function formerNameTwice(former: string, who: string): Error {
  return configError(
    `formerly: ${who} the name ${named(former)}. Work that is queued under it could be of either. Give it to one of them, or keep one action for both.`,
  );
}

function sweepInterval(every: Duration): number {
  const ms = durationMs(every, "nevertwice(): sweep");
  if (ms >= SHORTEST_SWEEP_MS) return ms;
  throw configError(
    `nevertwice(): sweep is ${ms}ms; give at least ${SHORTEST_SWEEP_MS}ms, or false to sweep only when sweep() is called.`,
  );
}
