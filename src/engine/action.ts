/** What `nt.action()` hands out: a function that runs once, and the ways to look at it and to settle it. */
import { configError, isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import { checkTenant, isKey } from "../core/key/key.ts";
import { type Absent, errorForOutcome, type Outcome } from "../core/outcome.ts";
import { expired } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Tally } from "./call.ts";
import { type Call, type CallDefaults, type CallOptions, OF_TOOL, type ToolCallOptions } from "./call.ts";
import type { Definition } from "./definition.ts";
import { withDelivered } from "./delivered.ts";
import { asItIs, type Finish } from "./drive.ts";
import { type EachOptions, runEach } from "./each.ts";
import type { EachReport } from "./each-tally.ts";
import type { Engine } from "./engine.ts";
import { type Enqueued, type EnqueueOptions, enqueue, readTerms, stoppedEnqueue } from "./enqueue.ts";
import { type Inputs, inChunks, oneByOneOrTogether, sharingStatements } from "./enqueue-many.ts";
import { causeOf, isRemembered } from "./error-memory.ts";
import { attemptGranted } from "./granted.ts";
import type { KeyNotes } from "./key-notes.ts";
import { warnOfKeyParts, warnOfNearKeys, warnOfShortKeep } from "./key-warnings.ts";
import { makeCall, requireGivenIn } from "./make-call.ts";
import { checkSignature, type LookedFor, type Resolution, resolveDoubt } from "./operate.ts";
import { type PastAccess, pastAccess } from "./past.ts";
import { parseInput } from "./standard-schema.ts";
import { runInTransaction, statusInTransaction, viewOf } from "./transactional.ts";

export interface ResendOptions extends CallOptions {
  /**
   * The version that was seen by whoever asks: the next one is sent, once, however often it is asked for. Left out, each call
   * is one more version, apart from calls at the same moment. `version: 3` says the same as `after: 2`.
   */
  readonly after?: number;
  /** Who sends it again, and why: kept in the record's history. */
  readonly by: string;
  readonly reason: string;
}

/** `Tx`: the transactions that its calls take. */
export interface Action<I, R, Tx = unknown> {
  /**
   * Runs once; a repeat returns the first result. Throws where `attempt` would return anything but `done`, and where it is done
   * and the result was not kept (RESULT_UNAVAILABLE).
   */
  (input: I, options?: CallOptions<Tx>): Promise<R>;
  readonly actionName: string;
  /** The same, but an expected outcome never throws. */
  attempt(input: I, options?: CallOptions<Tx>): Promise<Outcome<R>>;
  /** Into the outbox, for a worker to run: in the caller's own transaction where `tx` is given. Ten calls, one record. */
  enqueue(input: I, options?: EnqueueOptions): Promise<Enqueued<R>>;
  /** The same for many, a statement for hundreds; results in the order of the inputs. */
  enqueueMany(inputs: Inputs<I>, options?: EnqueueOptions): Promise<Enqueued<R>[]>;
  /** Runs each input here, so many at a time. Interrupted and started again, it sends only what is missing. */
  each(inputs: Inputs<I>, options?: EachOptions<I>): Promise<EachReport<I>>;
  /** What the ledger says, and to another input than the record's what an attempt with it would be told; never runs anything. */
  status(target: I | { readonly key: string }, options?: CallOptions): Promise<Outcome<R> | Absent>;
  /** On purpose once more: the next version of the intent. Refused while the latest version is in flight or in doubt. */
  resend(input: I, options: ResendOptions): Promise<R>;
  /** Settles a doubt by a named person or program. */
  resolve(target: I | { readonly key: string }, resolution: Resolution<R>, options?: CallOptions): Promise<Outcome<R>>;
  /** The key this input has; of its record, where that is under a former key. */
  keyOf(input: I, options?: CallOptions): Promise<string>;
}

export interface ActionServices {
  readonly engine: Engine;
  readonly defaults: CallDefaults;
  /** Called at the first use, so that a program that only imports actions opens nothing. */
  readonly used: () => void;
  /** Whether the key is still the one that the ledger knows. Absent: not looked after (once, jobs, runs, sequences, queues). */
  readonly keyNotes?: KeyNotes;
}

const NO_OPTIONS: CallOptions = {};

export function createAction<I, R>(definition: Definition, services: ActionServices): Action<I, R> {
  const { engine, keyNotes } = services;
  const calls = new Calls(definition, services);

  const finishFor = <T>(call: Call, { tx }: CallOptions, finish: Finish<T>): T | Promise<T> => {
    if (keyNotes?.isChecked(definition) === false) checkKeyNote(services, call, tx !== undefined);
    return tx === undefined ? engine.outcome(call, finish) : runInTransaction(engine, call, tx).then(finish);
  };

  // No async function: one around every call costs it a generator and two promises.
  const begin = <T>(input: I, options: ToolCallOptions, finish: Finish<T>): Promise<T> => {
    try {
      services.used();
      const made = calls.make(input, options);
      const finished =
        made instanceof Promise
          ? made.then((call) => finishFor(call, options, finish))
          : finishFor(made, options, finish);
      return finished instanceof Promise ? finished : Promise.resolve(finished);
    } catch (error) {
      return Promise.reject(error);
    }
  };

  const attempt = (input: I, options: ToolCallOptions = NO_OPTIONS): Promise<Outcome<R>> =>
    options[OF_TOOL] === undefined
      ? begin(input, options, asItIs as Finish<Outcome<R>>)
      : attemptOfTool(input, options);

  const attemptOfTool = async (input: I, options: ToolCallOptions): Promise<Outcome<R>> => {
    const { [OF_TOOL]: ofTool = {}, tenant = services.defaults.tenant } = options;
    const tally: Tally = { cause: null };
    const outcome = await attemptGranted(engine, {
      attempt: (version, resend) => {
        tally.cause = null;
        return begin<Outcome<unknown>>(input, { ...options, version, [OF_TOOL]: { ...ofTool, resend, tally } }, asItIs);
      },
      keyOf: (version) => calls.keyOf(input, { ...options, version }),
    });
    if (tally.cause !== null)
      engine.services.prevented.count({ definition, tenant, key: outcome.key, ofTool }, tally.cause);
    return outcome as Outcome<R>;
  };

  const unwrap = (outcome: Outcome<unknown>): R => resultOrThrow(outcome as Outcome<R>, definition);

  const run = (input: I, options: CallOptions = NO_OPTIONS): Promise<R> => begin(input, options, unwrap);

  const watch = {
    keepMs: definition.policy.keepMs,
    now: () => engine.services.ledger.instant().now,
    monotonic: () => engine.services.clock.monotonic(),
    warn: (code: string, message: string) => engine.services.warnings.warn(code, definition.name, message),
  };
  const methods = {
    actionName: definition.name,
    attempt,
    ...queueing<I, R>(definition, services, calls),
    each: (inputs: Inputs<I>, options: EachOptions<I> = {}) =>
      runEach<I, R>({ inputs, options, action: definition.name, attempt, watch }),
    async status(target: I | { readonly key: string }, options: CallOptions = {}) {
      requireGivenIn(options, `${definition.name}.status`);
      const { tx, ...asked } = options;
      const found = await calls.targetOf(target, asked);
      const known =
        tx === undefined
          ? engine.status(found.key, found.tenant, found.call)
          : statusInTransaction(engine, definition.name, found, tx);
      return (await known) as Outcome<R> | Absent;
    },
    async resend(input: I, signed: ResendOptions) {
      services.used();
      checkSignature(signed, `${definition.name}.resend`);
      const { by, reason, after, version, ...options } = signed;
      if (options.tx !== undefined) {
        throw configError(
          `${definition.name}.resend: it takes no tx. To run a new version inside a transaction, call the action with { version, tx }.`,
        );
      }
      const send = async (call: Call) => engine.outcome({ ...call, resend: { by, reason } }, asItIs);
      requireGiven(`${definition.name}.resend`, signed, ["after", "version"], NO_AFTER);
      const next = versionToSend(`${definition.name}.resend`, after, version);
      const outcome =
        next === null
          ? await calls.resendOnce(input, options, send)
          : await send(await calls.resendOf(input, options, next));
      return resultOrThrow(outcome as Outcome<R>, definition);
    },
    async resolve(target: I | { readonly key: string }, resolution: Resolution<R>, options: CallOptions = {}) {
      if (options.tx !== undefined) {
        throw configError(
          `${definition.name}.resolve: it takes no tx. A decision about a doubt is committed by itself; leave tx out.`,
        );
      }
      return (await resolveDoubt(engine, await calls.targetOf(target, options), resolution)) as Outcome<R>;
    },
    keyOf: (input: I, options: CallOptions = {}) => calls.keyOf(input, options),
  };
  // `name` of a function is not writable, but it is configurable: stack traces and logs then show the action.
  Object.defineProperty(run, "name", { value: definition.name });
  const action = Object.assign(run, methods);
  return definition.policy.untilDelivered === true ? withDelivered(action, engine.delivered) : action;
}

/** Beside the claim; close() waits for it. */
function checkKeyNote({ engine, keyNotes }: ActionServices, call: Call, inTransaction: boolean): void {
  if (inTransaction) keyNotes?.later(call);
  else if (keyNotes !== undefined) engine.during(() => keyNotes.check(call)).catch(() => {});
}

/** Not made with every action: `once` makes one for each call. */
export function pastOf(definition: Definition, services: ActionServices): PastAccess {
  return pastAccess(definition, services.engine, (one) => {
    const calls = new Calls(one, services);
    return (input, options) => calls.make(input, options);
  });
}

function queueing<I, R>(definition: Definition, services: ActionServices, calls: Calls) {
  const { engine, defaults } = services;
  const into = (options: EnqueueOptions, share: boolean) => {
    services.used();
    const terms = readTerms(options, definition.name);
    requireGivenIn(options, `${definition.name}.enqueue`);
    const { scope, version, tenant, agent, tx } = options;
    const identity: CallOptions = {
      ...(scope !== undefined && { scope }),
      ...(version !== undefined && { version }),
      ...(tenant !== undefined && { tenant }),
      ...(agent !== undefined && { agent }),
    };
    const plain = tx === undefined ? null : viewOf(engine, definition.name, tx);
    const view = plain !== null && share ? sharingStatements(plain) : plain;
    const put = (call: Call) => {
      if (services.keyNotes?.isChecked(definition) === false) checkKeyNote(services, call, tx !== undefined);
      return engine.during(() => enqueue(engine, call, terms, { view, secret: defaults.secret }));
    };
    const check = async (call: Call) => {
      if (definition.check === undefined) return;
      const asked = { view, secret: defaults.secret, tx };
      const stopped = await engine.during(() => stoppedEnqueue(engine, call, terms, asked));
      if (stopped !== null) resultOrThrow(stopped, definition);
    };
    return { put, check, make: (input: I) => calls.make(input, identity), inLine: terms.orderKey !== null };
  };
  return {
    async enqueue(input: I, options: EnqueueOptions = {}): Promise<Enqueued<R>> {
      const { make, check, put } = into(options, false);
      const made = make(input);
      const call = made instanceof Promise ? await made : made;
      if (definition.check !== undefined) await check(call);
      return (await put(call)) as Enqueued<R>;
    },
    async enqueueMany(inputs: Inputs<I>, options: EnqueueOptions = {}): Promise<Enqueued<R>[]> {
      const { make, check, put, inLine } = into(options, true);
      return inChunks(inputs, `${definition.name}.enqueueMany`, async (chunk) => {
        const made = await Promise.all(chunk.map(make));
        // All of a chunk before the first of it is recorded, like their schema.
        if (definition.check !== undefined) await Promise.all(made.map(check));
        return (await oneByOneOrTogether(made, inLine, put)) as Enqueued<R>[];
      });
    },
  };
}

function resultOrThrow<R>(outcome: Outcome<R>, { name, policy: { doubt } }: Definition): R {
  if (outcome.status === "done" && outcome.resultOmitted === undefined) return outcome.result;
  const cause = outcome.status === "failed" ? outcome.error : causeOf(outcome);
  // A failure of this very call carries the user's own error: thrown as it came. A remembered one is ours to describe.
  if (outcome.status === "failed" && !isRemembered(cause)) {
    rememberOutcome(cause, outcome);
    throw cause;
  }
  throw errorForOutcome(outcome, name, cause, doubt.kind === "hold" ? doubt.forMs : undefined);
}

const outcomes = new WeakMap<object, Outcome<unknown>>();

function rememberOutcome(error: unknown, outcome: Outcome<unknown>): void {
  if (typeof error === "object" && error !== null) outcomes.set(error, outcome);
}

/** The outcome behind an error that an action threw, the user's own errors included. */
export function outcomeOf(error: unknown): Outcome<unknown> | undefined {
  if (isNevertwiceError(error)) return error.outcome as Outcome<unknown> | undefined;
  return typeof error === "object" && error !== null ? outcomes.get(error) : undefined;
}

const NO_AFTER = "The variable it comes from may not be set, and without it each call would be one more resend.";

// A resend looks for the latest version in steps of this many, and never further than the last.
const VERSIONS_A_LOOK = 16;
const MAX_VERSIONS = 10_000;

class Calls {
  readonly #definition: Definition;
  readonly #services: ActionServices;
  /** The versions that resends under way in this process have got, by the key of the first. */
  readonly #resends = new Map<string, Promise<number>>();

  constructor(definition: Definition, services: ActionServices) {
    this.#definition = definition;
    this.#services = services;
  }

  /** At once where there is no schema to ask: the hot path. */
  make(given: unknown, options: CallOptions): Call | Promise<Call> {
    const { schema, name } = this.#definition;
    requireGivenIn(options, name);
    if (schema === undefined) return this.#make(given, given, options);
    return parseInput(schema, given, name).then((input) => this.#make(given, input, options));
  }

  #make(given: unknown, input: unknown, options: CallOptions): Call {
    const { warnings, ledger } = this.#services.engine.services;
    const call = makeCall(this.#definition, given, input, options, this.#services.defaults);
    warnOfKeyParts(this.#definition, input, ledger, warnings);
    warnOfNearKeys(call, warnings);
    warnOfShortKeep(call, warnings);
    return call;
  }

  async targetOf(target: unknown, options: CallOptions): Promise<LookedFor> {
    const { confinedTo } = this.#services.defaults;
    requireGivenIn(options, this.#definition.name);
    const tenant = options.tenant ?? confinedTo ?? "";
    checkTenant(tenant);
    const key = (target as { key?: unknown } | null)?.key;
    if (typeof key === "string" && isKey(key) && Object.keys(target as object).length === 1) return { key, tenant };
    const call = await this.make(target, options);
    return { key: await this.#keyOf(call), tenant, call };
  }

  /** Of its record, where the intent was recorded under a former key. */
  async keyOf(given: unknown, options: CallOptions): Promise<string> {
    return this.#keyOf(await this.make(given, options));
  }

  async #keyOf(call: Call): Promise<string> {
    if (call.former === undefined || call.former.length === 0) return call.key;
    return (await this.#services.engine.peek(call)).call.key;
  }

  /** Clicks at the same instant are one resend: they get the same version, and the engine joins them. */
  async resendOnce<T>(given: unknown, options: CallOptions, send: (call: Call) => Promise<T>): Promise<T> {
    const { key } = await this.make(given, options);
    const joined = this.#resends.get(key);
    const version = joined ?? this.#nextVersion(given, options);
    if (joined === undefined) this.#resends.set(key, version);
    try {
      return await send(await this.make(given, { ...options, version: await version }));
    } finally {
      if (joined === undefined) this.#resends.delete(key);
    }
  }

  /**
   * The version that was asked for. It follows the one before it: while that one is under way, in doubt or may be tried again,
   * it is the one to go on with.
   */
  async resendOf(given: unknown, options: CallOptions, version: number): Promise<Call> {
    const { engine } = this.#services;
    const [next, before] = [
      await this.make(given, { ...options, version }),
      await this.make(given, { ...options, version: version - 1 }),
    ];
    const { now } = engine.services.ledger.instant();
    const known = async ({ key, tenant }: Call) => {
      const stored = await engine.find(key, tenant);
      return stored === null || expired(stored.record, now) ? null : stored;
    };
    if ((await known(next)) !== null) return next;
    const last = await known(before);
    if (last !== null) return settledForGood(last) ? next : before;
    throw new NevertwiceError(
      "INVALID_INPUT",
      `${this.#definition.name}.resend: version ${version - 1} of this intent is not in the ledger: it was never sent, or is past its keep. Nothing was sent. Call the action itself, or call resend without after and version.`,
      { key: before.key },
    );
  }

  /** The version a resend gets: one above the latest, or the latest itself while it is not settled. */
  async #nextVersion(given: unknown, options: CallOptions): Promise<number> {
    let latest: Stored | null = null;
    for (let from = 1; from < MAX_VERSIONS; from += VERSIONS_A_LOOK) {
      const versions = Array.from({ length: VERSIONS_A_LOOK }, (_, i) => from + i);
      const calls = await Promise.all(versions.map((version) => this.make(given, { ...options, version })));
      const stored = await Promise.all(calls.map(async (call) => (await this.#services.engine.peek(call)).stored));
      // The last one there, not the first gap: an early version may be past its keep while a later one is in doubt.
      const last = stored.findLastIndex((one) => one !== null);
      latest = stored[last] ?? latest;
      if (last === VERSIONS_A_LOOK - 1) continue;
      return latest === null || settledForGood(latest) ? from + last + 1 : latest.record.version;
    }
    throw configError(
      `${this.#definition.name}: more than ${MAX_VERSIONS} versions of one intent. Put what makes them different into its key.`,
    );
  }
}

/** The version that was named; null: none was, so it is one above the latest. */
function versionToSend(where: string, after: unknown, version: unknown): number | null {
  for (const [option, value, least] of [
    ["after", after, 1],
    ["version", version, 2],
  ] as const) {
    if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= least)) continue;
    throw new NevertwiceError(
      "INVALID_INPUT",
      `${where}: ${option} is ${typeof value === "string" ? `the text ${JSON.stringify(value)}` : String(value)}; it takes a whole number from ${least} on. after is the version that was seen (1 is the first), version the one to send.`,
    );
  }
  if (after === undefined) return version === undefined ? null : (version as number);
  const next = (after as number) + 1;
  if (version === undefined || version === next) return next;
  throw new NevertwiceError(
    "INVALID_INPUT",
    `${where}: after is ${after} and version is ${version}, which are two different resends. The version after ${after} is ${next}; give one of the two options.`,
  );
}

function settledForGood(stored: Stored): boolean {
  return stored.record.state === "confirmed" || (stored.record.state === "failed" && stored.record.final);
}
