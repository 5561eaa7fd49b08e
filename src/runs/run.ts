/**
 * A run: several steps that together make one piece of work. Each step is an intent of its own; a run that is called
 * again gets the results of finished steps from the ledger and goes on with the first that is not.
 *
 * The run itself has a record too. Nothing leaves the house under it, so while the body runs it is `claimed`, kept by
 * heartbeats for as long as the body takes; a run whose process died is simply taken up again when the lease is over.
 */
import type { Duration } from "../core/duration.ts";
import { entryAction } from "../core/entry-name.ts";
import { configError, messageOf, NevertwiceError, noSuchOption, rejectedMark } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import type { Keep } from "../core/keep.ts";
import { errorForOutcome, type Outcome } from "../core/outcome.ts";
import { nextStep, type Step } from "../core/plan.ts";
import { resolveKeep, resolvePolicy, type SharedTerms, withDefaultKeep } from "../core/policy.ts";
import type { Payload } from "../core/record.ts";
import { redact } from "../core/redact.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { Call, CallDefaults } from "../engine/call.ts";
import { defineAction } from "../engine/definition.ts";
import { by } from "../engine/events.ts";
import { warnOfShortKeep } from "../engine/key-warnings.ts";
import { Pulse } from "../engine/lease-keeper.ts";
import { intentOf, makeCall } from "../engine/make-call.ts";
import { DEFAULT_LIMITS, losesMeaningAsJson } from "../engine/payloads.ts";
import { setImmediate } from "../engine/real-timers.ts";
import { closedError, type Holding } from "../engine/under-way.ts";
import { WaitBudget } from "../engine/wait-budget.ts";
import { withStep } from "./step-errors.ts";
import type { StepServices } from "./step-records.ts";
import { type Run, type StepSequence, stepsOf } from "./steps.ts";

export interface RunOptions {
  /** Raise it when a release changes the steps on purpose: runs begun before keep theirs, this one begins anew. */
  readonly version?: number;
  /** Steps and branches that have new names, from the old name to the new one: runs under way go on with what they have. */
  readonly renamed?: Readonly<Record<string, string>>;
  readonly tenant?: string;
  /** Who acts: kept on the records of the run and of its steps. nevertwice({ agent }) unless given. */
  readonly agent?: string;
  /** How long a run and its steps are kept after it has ended. Until then they do not expire. */
  readonly keep?: Duration | "forever";
  /** How long a run whose process died is left alone. Its steps have the same lease unless they have their own. */
  readonly lease?: Duration;
  /** How long each step may take, unless it says so itself: 5/6 of its lease unless given. The run itself has no timeout. */
  readonly timeout?: Duration;
  /** What becomes of a step in doubt, unless the step says so itself: "hold" unless given. */
  readonly doubt?: "hold" | "retry" | { readonly resendWithin: Duration };
  /** How long to wait for another process that is at the same run. */
  readonly wait?: Duration;
}

/** What runs need of nevertwice(). */
export interface RunServices extends StepServices {
  readonly defaults: CallDefaults;
  readonly used: () => void;
}

export type RunId = string | number | readonly unknown[];

const OPTIONS = new Set(["version", "renamed", "tenant", "agent", "keep", "lease", "timeout", "doubt", "wait"]);
const DEFAULT_KEEP = "90d";
const UNTIL_ENDED: Keep = { keepMs: null, guardUntil: null, tooShortFor: null };
// Every turn changes the record, waits or returns.
const MAX_TURNS = 10_000;
// A run may be taken up again as often as it takes: its steps are what is counted.
const ATTEMPTS = 1_000;

export function runAction(name: string): string {
  return entryAction("run", name);
}

export async function startRun<R>(
  services: RunServices,
  name: string,
  id: RunId,
  body: (run: Run) => R | Promise<R>,
  options: RunOptions = {},
): Promise<R> {
  check(name, id, body, options);
  services.used();
  const { call, keep } = runCall(services, name, id, options);
  const taken = await services.engine.during(() => take(services, call));
  if ("outcome" in taken) {
    const { outcome } = taken;
    if (outcome.status === "done" && outcome.resultOmitted === undefined) return outcome.result as R;
    throw errorForOutcome(outcome, `run ${name}`);
  }
  return await new RunExecution<R>(services, call, taken.stored, name, { ...options, kept: keep }).run(body);
}

function check(name: string, id: unknown, body: unknown, options: RunOptions): void {
  const where = `run(${JSON.stringify(name)}, …)`;
  if (typeof name !== "string" || name.trim() === "" || name.length > 150)
    throw configError(`${where}: a run's name must be a text of 1 to 150 characters that is not blank.`);
  const unstorable = unstorableIn(name);
  if (unstorable !== null) throw configError(`${where}: its name cannot be kept: ${unstorable}. Leave it out.`);
  if (id === undefined || id === null || (typeof id === "string" && id.trim() === ""))
    throw new NevertwiceError(
      "INVALID_KEY",
      `${where}: its id is ${JSON.stringify(id)}. Give the id of what the run is for, such as a lead's or an order's: one id, one run.`,
    );
  if (typeof body !== "function")
    throw configError(`${where}: the third argument must be the function that takes the steps: async (run) => …`);
  for (const option of Object.keys(options)) {
    if (!OPTIONS.has(option)) throw noSuchOption(where, option, OPTIONS);
  }
  resolveKeep(options.keep ?? DEFAULT_KEEP, where);
  termsOfSteps(options, where);
  checkRenamed(options.renamed, where);
}

/** What the run says for its steps. */
function termsOfSteps({ timeout, doubt }: RunOptions, where: string): Pick<SharedTerms, "timeoutMs" | "doubt"> {
  if (typeof doubt === "object" && doubt !== null && "probe" in doubt)
    throw configError(
      `${where}: doubt.probe asks about one effect, and a run has several steps. Give it to the step: run.step(name, fn, { doubt: { probe, quietFor: "2m" } }).`,
    );
  const { timeoutMs } = resolvePolicy(
    { ...(timeout !== undefined && { timeout }), ...(doubt !== undefined && { doubt }) },
    where,
  );
  return { timeoutMs: timeout === undefined ? null : timeoutMs, doubt: doubt ?? null };
}

function checkRenamed(renamed: unknown, where: string): void {
  if (renamed === undefined) return;
  const isName = (name: unknown) => typeof name === "string" && name.trim() !== "";
  const names = isPlainObject(renamed) ? Object.entries(renamed) : null;
  if (names === null || !names.every((pair) => pair.every(isName)))
    throw configError(
      `${where}: renamed takes the old and the new names of steps and branches: { "old name": "new name" }; got ${described(renamed)}.`,
    );
  const twice = names.find(([, name], at) => names.findIndex(([, other]) => other === name) !== at);
  if (twice !== undefined)
    throw configError(`${where}: renamed has two old names for ${JSON.stringify(twice[1])}. Each name has one.`);
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function described(value: unknown): string {
  if (typeof value === "string" || Array.isArray(value) || isPlainObject(value)) return JSON.stringify(value);
  return value === null ? "null" : `a value of type ${value instanceof Map ? "Map" : typeof value}`;
}

/** The call does not expire until it has ended; `keep` is how long it is kept from then on. */
function runCall(
  services: RunServices,
  name: string,
  id: RunId,
  options: RunOptions,
): { readonly call: Call; readonly keep: Keep } {
  const parts = Array.isArray(id) ? (id as readonly unknown[]) : [id];
  const definition = defineAction<{ id: RunId }, unknown, undefined>(runAction(name), {
    key: () => parts,
    doubt: "retry",
    retry: { attempts: ATTEMPTS },
    ...withDefaultKeep(options.keep === undefined ? {} : { keep: options.keep }, DEFAULT_KEEP),
    ...(options.lease !== undefined && { lease: options.lease }),
    ...(options.wait !== undefined && { wait: options.wait }),
    run: () => undefined,
  });
  requireGiven(`run(${JSON.stringify(name)}, …)`, options, ["tenant"]);
  const { version, tenant, agent } = options;
  const given = {
    ...(version !== undefined && { version }),
    ...(tenant !== undefined && { tenant }),
    ...(agent !== undefined && { agent }),
  };
  const call = makeCall(definition, { id }, { id }, given, services.defaults);
  warnOfShortKeep(call, services.engine.services.warnings);
  return { call: { ...call, keep: UNTIL_ENDED }, keep: call.keep };
}

type Taken = { readonly stored: Stored } | { readonly outcome: Outcome<unknown> };

/** Claims the run, or says how it stands. The rules are core's; here they are only carried out. */
async function take({ engine }: RunServices, call: Call): Promise<Taken> {
  const { ledger, payloads, newHolder, events, clock, random, underWay } = engine.services;
  const { policy } = call.definition;
  const { leaseMs } = policy;
  const budget = new WaitBudget({ clock, random, underWay: underWay.inside ? undefined : underWay }, call.waitMs);
  const answer = (stored: Stored): Taken => ({ outcome: engine.describe(stored.record) as Outcome<unknown> });
  let stored = await ledger.read(call.key);
  for (let turn = 0; turn < MAX_TURNS; turn += 1) {
    engine.requireOpen();
    const step: Step = nextStep(stored?.record ?? null, {
      policy,
      at: ledger.instant(),
      newRound: true,
      sameBytes: true,
    });
    switch (step.do) {
      case "claim": {
        const applied = await ledger.apply(stored, (current) => ({
          type: "claim",
          intent: intentOf(call, current, payloads),
          to: "claimed",
          holder: newHolder(),
          leaseMs,
          newRound: true,
        }));
        if (applied.ok) return { stored: applied.stored };
        stored = applied.stored;
        break;
      }
      // Its process died between the last step and the record of its end: the steps are all there.
      case "lapse":
        stored = (await ledger.apply(stored, { type: "lapse" })).stored;
        break;
      case "resend": {
        const { permit } = step;
        const applied = await ledger.apply(stored, {
          type: "resend",
          permit,
          holder: newHolder(),
          leaseMs,
          newRound: true,
          agent: call.agent,
        });
        if (applied.ok) return { stored: applied.stored };
        stored = applied.stored;
        break;
      }
      case "wait-for-holder":
        if (!(await budget.change(ledger, call.key))) return answer(stored as Stored);
        stored = await ledger.read(call.key);
        break;
      default:
        if (stored?.record.state === "confirmed")
          events.emit({
            type: "replayed",
            action: call.definition.name,
            key: call.key,
            ...by(call),
            attempt: stored.record.attempt,
          });
        return answer(stored as Stored);
    }
  }
  throw configError(`run ${call.definition.name}: its record kept changing under this call. Call again.`);
}

class RunExecution<R> implements Holding {
  readonly #services: RunServices;
  readonly #call: Call;
  readonly #name: string;
  readonly #options: RunOptions & { readonly kept: Keep };
  readonly #pulse: Pulse;
  #hasEnded = false;
  /** Handed back by close(). */
  #released: NevertwiceError | null = null;
  #ended: Promise<unknown> = Promise.resolve();
  #steps: StepSequence | null = null;

  constructor(
    services: RunServices,
    call: Call,
    stored: Stored,
    name: string,
    options: RunOptions & { readonly kept: Keep },
  ) {
    this.#services = services;
    this.#call = call;
    this.#name = name;
    this.#options = options;
    const { heart } = services.engine.services;
    // No timeout: each step has its own. Heartbeats keep the run for as long as its process lives.
    this.#pulse = new Pulse(heart, {
      leaseMs: call.definition.policy.leaseMs,
      timeoutMs: Number.POSITIVE_INFINITY,
      stored,
    });
  }

  async run(body: (run: Run) => R | Promise<R>): Promise<R> {
    const forget = this.#services.engine.services.underWay.hold(this);
    const ended = this.#run(body);
    this.#ended = ended;
    try {
      return await ended;
    } finally {
      forget();
    }
  }

  /**
   * close() has waited for the steps under way. A body that ends now is waited for; one that does something else in between
   * is not, since nobody knows for how long: its record is handed back, and whoever calls the run next goes on at once.
   */
  async release(): Promise<void> {
    await new Promise((turn) => setImmediate(turn));
    if (this.#hasEnded) {
      await this.#ended.catch(() => {});
      return;
    }
    this.#released = closedError(
      ` The run ${this.#name} was handed back before its function had ended; what it did in steps is not done again.`,
    );
    this.#hasEnded = true;
    this.#pulse.abort(this.#released);
    this.#steps?.close(this.#released);
    await this.#giveBack(this.#released);
    this.#pulse.end();
  }

  async #run(body: (run: Run) => R | Promise<R>): Promise<R> {
    const { clock, events, underWay } = this.#services.engine.services;
    const startedAt = clock.monotonic();
    try {
      // Claimed while close() came: not begun, and handed back.
      underWay.requireOpen();
      const steps = await this.#services.engine.during(() =>
        stepsOf(this.#services, this.#stepsOf(), this.#options.renamed ?? {}),
      );
      this.#steps = steps;
      const result = await this.#result(body, steps);
      if (this.#released !== null) throw this.#released;
      steps.end();
      await this.#confirm(result);
      await this.#release(steps);
      const { key, definition } = this.#call;
      events.emit({
        type: "executed",
        action: definition.name,
        key,
        attempt: this.#pulse.stored.record.attempt,
        ms: clock.monotonic() - startedAt,
      });
      return result;
    } catch (error) {
      if (this.#released === null) await this.#giveBack(error);
      throw error;
    } finally {
      this.#pulse.end();
    }
  }

  /** From its end on, a step that was not waited for would run beside whoever takes the run up next. */
  async #result(body: (run: Run) => R | Promise<R>, steps: StepSequence): Promise<R> {
    try {
      return await body(steps.run);
    } finally {
      this.#hasEnded = true;
      steps.close(configError(`run ${this.#name}: the run had ended before this step began. Nothing was run by it.`));
    }
  }

  /** What was kept until the run had ended goes when its `keep` is over. */
  async #release(steps: StepSequence | null): Promise<void> {
    try {
      await steps?.release();
    } catch (error) {
      // The run has ended all the same. Its records are kept for longer than they need to be.
      const why = redact(messageOf(error));
      this.#services.engine.services.logger.warn(`nevertwice: run ${this.#name}: its records do not expire: ${why}`);
    }
  }

  #stepsOf() {
    const pulse = this.#pulse;
    const hasEnded = () => this.#hasEnded;
    return {
      name: this.#name,
      key: this.#call.key,
      keep: this.#options.kept,
      tenant: this.#call.tenant,
      version: this.#call.version,
      agent: this.#call.agent,
      leaseMs: this.#call.definition.policy.leaseMs,
      ...termsOfSteps(this.#options, `run ${this.#name}`),
      path: [] as string[],
      attempt: pulse.stored.record.attempt,
      hasEnded,
      get signal() {
        return pulse.signal;
      },
    };
  }

  async #confirm(result: R): Promise<void> {
    const { ledger, payloads } = this.#services.engine.services;
    const { tenant, key, fence } = this.#pulse.stored.record;
    const { leaseMs } = this.#call.definition.policy;
    const { hold } = this.#pulse;
    if (this.#pulse.stored.record.state === "claimed") {
      const marked = await ledger.apply(this.#pulse.stored, { type: "mark", hold, leaseMs, timeoutMs: 0, draft: null });
      if (marked.ok) this.#pulse.stored = marked.stored;
    }
    // Lost to another process meanwhile: the steps are done all the same, and that is what is told.
    const stored = payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence });
    // Its steps have provider's ids; the run itself has had no effect.
    await ledger.apply(this.#pulse.stored, { type: "confirm", hold, result: stored });
    this.#warnOfLoss(result, stored);
  }

  #warnOfLoss(result: R, stored: Payload | null): void {
    const { warnings } = this.#services.engine.services;
    const { name } = this.#call.definition;
    const omitted = stored !== null && "omitted" in stored ? stored.omitted : null;
    const loss = losesMeaningAsJson(result);
    if (omitted !== null)
      warnings.warn(
        "RESULT_NOT_STORED",
        name,
        `run ${this.#name}: what its function returned is not stored: ${omitted}. That it has ended is on record, but the next call throws RESULT_UNAVAILABLE. Return less, such as an id.`,
      );
    else if (loss !== null)
      warnings.warn("RESULT_NOT_PLAIN", name, `run ${this.#name}: its function returned ${loss}. Return plain data.`);
  }

  /** Not finished: the next call takes it up where it stands. */
  async #giveBack(error: unknown): Promise<void> {
    const { ledger, events } = this.#services.engine.services;
    const { key, definition } = this.#call;
    const refused = rejectedMark(error) !== undefined;
    const applied = await ledger
      .apply(this.#pulse.stored, {
        type: "not-sent",
        hold: this.#pulse.hold,
        error: withStep(toStoredError(rejectedMark(error)?.cause ?? error), error),
        retryAt: null,
        final: refused,
      })
      // The error of the body is what the caller must hear; the lease ends by itself.
      .catch(() => null);
    if (applied?.ok && refused) await this.#release(this.#steps);
    if (applied?.ok)
      events.emit({
        type: "failed",
        action: definition.name,
        key,
        attempt: applied.stored.record.attempt,
        final: refused,
      });
  }
}
