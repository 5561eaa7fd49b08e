/**
 * The steps of a run. A step's place in the run is its key and its name is what must match: a release that renames,
 * removes or reorders steps of a run under way meets another name at that place, which is a conflict and runs nothing.
 * step-order.ts compares across branches; step-records.ts reads and keeps the list.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { configError, NevertwiceError, noSuchOption } from "../core/errors.ts";
import { type Keep, keepFrom } from "../core/keep.ts";
import { inheritedKeep, inheritedTerms, type PolicyOptions, resolveKeep, type SharedTerms } from "../core/policy.ts";
import { unstorableIn } from "../core/storable-text.ts";
import { asCheck, type CheckContext } from "../engine/check-context.ts";
import type { AttemptContext } from "../engine/context.ts";
import { type Probe, runOfContext, type Verdictish } from "../engine/definition.ts";
import { requireGivenIn } from "../engine/make-call.ts";
import { namedError, rememberStep } from "./step-errors.ts";
import { type AskedStep, StepOrder } from "./step-order.ts";
import { type StepInput, StepRecords, type StepServices, type StepsOwner, stepAction } from "./step-records.ts";

export interface StepOptions<R> extends PolicyOptions<Probe<unknown, R>> {
  /** A second opinion on an error that the step threw; undefined leaves it to the built-in rules. */
  readonly classify?: (error: unknown) => Verdictish | undefined;
  /** Runs before the claim, where this call would claim: what it throws was surely not sent, and leaves no record of the step. */
  readonly check?: (context: CheckContext) => unknown;
  /** The step's effect is a row under a unique key: when it throws its violation, the result that is there. */
  readonly exists?: (error: unknown) => R | undefined | Promise<R | undefined>;
  /** The step is a write in your own database: it commits with this transaction, or not at all. */
  readonly tx?: unknown;
}

export interface Run {
  /** The run's key. */
  readonly key: string;
  /** How often the run was taken up, this time included. */
  readonly attempt: number;
  /** Aborted when another process has taken the run over. */
  readonly signal: AbortSignal;
  /** Runs once; when the run is called again, a finished step returns its result. */
  step<R>(name: string, run: (context: AttemptContext) => R | Promise<R>, options?: StepOptions<R>): Promise<R>;
  /** Steps in a row of their own, for branches that go on side by side: their order among each other does not matter. */
  branch<R>(name: string, body: (branch: Run) => R | Promise<R>): Promise<R>;
}

export interface StepsOf extends StepsOwner, SharedTerms {
  /** How long the steps are kept once the run has ended. */
  readonly keep: Keep;
  /** The branches that lead here. */
  readonly path: readonly string[];
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** The run's function has returned, or thrown. */
  hasEnded(): boolean;
}

const OPTIONS = new Set("keep lease timeout wait doubt retry whenStoreDown classify effect exists check".split(" "));
const MOST_STEPS = 10_000;
/** The run whose step is at work here. */
const insideStepOf = new AsyncLocalStorage<string>();

/** What all rows of a run share. */
interface Shared {
  readonly services: StepServices;
  readonly records: StepRecords;
  readonly order: StepOrder;
  /** How long each step is kept after the run; those that are not here, as the run is. */
  readonly keeps: Map<AskedStep, number | null>;
  /** Rows of the run may be in the ledger without a record of their branch, as an older release has left them. */
  readonly looksForRows: boolean;
}

/** Reads what the run has taken so far, and gives the steps for its function. */
export async function stepsOf(
  services: StepServices,
  of: StepsOf,
  renamed: Readonly<Record<string, string>>,
): Promise<StepSequence> {
  const { clock } = services.engine.services;
  const records = new StepRecords(services, of);
  const order = new StepOrder({ run: of.name, key: of.key, version: of.version, clock, renamed });
  // The first time there is nothing to read.
  const recorded = of.attempt > 1 ? await records.all() : [];
  order.add([], recorded);
  const looksForRows = of.attempt > 1 && (recorded.length === 0 || recorded.some((step) => step.order === 0));
  return new StepSequence({ services, records, order, keeps: new Map(), looksForRows }, of);
}

export class StepSequence {
  readonly run: Run;
  readonly #shared: Shared;
  readonly #of: StepsOf;
  readonly #names = new Set<string>();
  #places = 0;
  /** The first places of the row that are finished, and those behind a gap. */
  #behind = 0;
  readonly #finished = new Set<number>();
  #ready: Promise<void> | null = null;
  #noting: Promise<void> | null = null;

  constructor(shared: Shared, of: StepsOf) {
    this.#shared = shared;
    this.#of = of;
    this.run = {
      key: of.key,
      attempt: of.attempt,
      get signal() {
        return of.signal;
      },
      step: (name, run, options) => this.#step(name, run, options),
      branch: (name, body) => this.#branch(name, body),
    };
  }

  /** The run's function has returned: it must have asked for all that the run has taken. */
  end(): void {
    this.#shared.order.end();
  }

  /** No step begins any more. */
  close(error: unknown): void {
    this.#shared.order.close(error);
  }

  /** The run has ended. */
  async release(): Promise<void> {
    const { order, records, keeps, services } = this.#shared;
    const keepMs = keepFrom(this.#of.keep, services.engine.services.ledger.instant().now);
    const keepOf = (step: AskedStep) => (keeps.has(step) ? (keeps.get(step) ?? null) : keepMs);
    const asked = order.asked.map((step) => ({ ...step, keepMs: keepOf(step) }));
    const called = new Set(asked.map(({ path, place }) => JSON.stringify([path, place])));
    const others = order.recorded.filter(({ path, place }) => !called.has(JSON.stringify([path, place])));
    await records.release([...asked, ...others.map((step) => ({ ...step, keepMs }))], keepMs);
  }

  async #step<R>(
    name: string,
    run: (context: AttemptContext) => R | Promise<R>,
    given: StepOptions<R> = {},
  ): Promise<R> {
    requireGivenIn(given, `${this.#where}: step ${JSON.stringify(name)}`);
    const { tx, keep, check, ...options } = given;
    const policy = { ...options, ...(check !== undefined && { check: asCheck(check) }) };
    this.#checkName(name, "step");
    if (typeof run !== "function")
      throw configError(
        `${this.#where}: step ${JSON.stringify(name)} needs the function that does it: run.step("${name}", async (ctx) => …)`,
      );
    this.#checkOptions(name, policy);
    const where = `${this.#where}: step ${JSON.stringify(name)}`;
    const keepOfRun = () => keepFrom(this.#of.keep, this.#shared.services.engine.services.ledger.instant().now);
    const keepMs = keep === undefined ? inheritedKeep(policy.effect, keepOfRun(), where) : resolveKeep(keep, where);
    this.#places += 1;
    const place = this.#places;
    if (place > MOST_STEPS) throw configError(`${this.#where}: more than ${MOST_STEPS} steps. Split it into runs.`);
    if (this.#ready !== null) await this.#ready;
    const { order } = this.#shared;
    const asked = order.ask(name, this.#of.path, place);
    if (keepMs !== undefined) this.#shared.keeps.set(asked, keepMs);
    await order.admitted(asked);
    const result = await order.during(() => this.#take(asked, run, policy, tx));
    // A transaction of the caller's may yet be rolled back, and its step with it.
    if (tx === undefined) this.#finish(place);
    return result;
  }

  async #take<R>(
    asked: AskedStep,
    run: (context: AttemptContext) => R | Promise<R>,
    policy: PolicyOptions<Probe<unknown, R>>,
    tx: unknown,
  ): Promise<R> {
    const { name, path, place, recorded, order } = asked;
    const { services, records } = this.#shared;
    if (recorded === undefined && !records.isNoted(path)) await this.#note();
    const input: StepInput = { step: name, path, place, order, behind: recorded?.behind ?? this.#behind };
    const action = services.adHoc<StepInput, R, undefined>(stepAction(this.#of.name), {
      ...(policy as PolicyOptions<Probe<StepInput, R>>),
      ...inheritedTerms(policy, this.#of, `${this.#where}: step ${JSON.stringify(name)}`),
      ...records.stepOptions(),
      run: runOfContext((context) => {
        this.#shared.order.ran(asked);
        return insideStepOf.run(this.#of.key, () => run(context));
      }, run.length),
    });
    try {
      return await action(input, { ...records.callOptions(), ...(tx !== undefined && { tx }) });
    } catch (error) {
      if (error instanceof NevertwiceError && error.key !== undefined && isOfAnotherStep(error))
        throw await this.#conflict(error, error.key, asked);
      const step = { run: this.#of.name, path, step: name };
      const named = namedError(error, await action.keyOf(input, records.callOptions()), step);
      rememberStep(named, step);
      throw named;
    }
  }

  /** Once for all steps of the row. */
  #note(): Promise<void> {
    this.#noting ??= this.#shared.records.noteBranch(this.#of.path).finally(() => {
      this.#noting = null;
    });
    return this.#noting;
  }

  #finish(place: number): void {
    this.#finished.add(place);
    while (this.#finished.delete(this.#behind + 1)) this.#behind += 1;
  }

  async #branch<R>(name: string, body: (branch: Run) => R | Promise<R>): Promise<R> {
    this.#checkName(name, "branch");
    const { order, looksForRows } = this.#shared;
    const path = [...this.#of.path, order.branchName(this.#of.path, name)];
    const branch = new StepSequence(this.#shared, Object.create(this.#of, { path: { value: path } }) as StepsOf);
    if (looksForRows && !order.knowsRow(path)) branch.#ready = branch.#look();
    order.branchOpened(path, name);
    try {
      return await body(branch.run);
    } finally {
      order.branchEnded(path);
    }
  }

  /** The row, as an older release has left it. */
  async #look(): Promise<void> {
    const { records, order } = this.#shared;
    order.add(this.#of.path, await records.row(this.#of.path));
  }

  get #where(): string {
    return `run ${this.#of.name}${this.#of.path.map((branch) => ` → ${branch}`).join("")}`;
  }

  #checkOptions(name: string, policy: object): void {
    const wrong = Object.keys(policy).find((option) => !OPTIONS.has(option));
    if (wrong === undefined) return;
    throw noSuchOption(`${this.#where}: step ${JSON.stringify(name)}`, wrong, [...OPTIONS, "tx"]);
  }

  #checkName(name: unknown, what: "step" | "branch"): void {
    if (this.#of.hasEnded())
      throw configError(
        `${this.#where}: the ${what} ${JSON.stringify(name)} was called after the run had ended. Nothing was run. Wait for every step (await, or Promise.all) before the run's function returns.`,
      );
    // A finished step is not called again, so what it calls would be missing from the order when the run is taken up.
    if (insideStepOf.getStore() === this.#of.key)
      throw configError(
        `${this.#where}: the ${what} ${JSON.stringify(name)} was called inside a step. Nothing was run by it. Steps stand side by side in the run's own function, or in a branch.`,
      );
    if (typeof name !== "string" || name.trim() === "")
      throw configError(
        `${this.#where}: a ${what}'s name must be a text that is not blank; got ${JSON.stringify(name)}.`,
      );
    const unstorable = unstorableIn(name);
    if (unstorable !== null)
      throw configError(`${this.#where}: the ${what}'s name ${JSON.stringify(name)} cannot be kept: ${unstorable}.`);
    if (this.#names.has(name))
      throw configError(
        `${this.#where}: two steps are called ${JSON.stringify(name)}. Names of steps and branches must be unique. Give each a name of its own, such as ${JSON.stringify(`${name}-2`)}; in a loop, put what it is about into the name.`,
      );
    this.#names.add(name);
  }

  /** Another process has taken the place since this one read the list. */
  async #conflict(error: NevertwiceError, key: string, { called, path, place }: AskedStep): Promise<NevertwiceError> {
    const found = (await this.#shared.records.row(path)).find((step) => step.place === place);
    return found === undefined || found.key !== key ? error : this.#shared.order.changedAt(found, called);
  }
}

/** The place was taken by a step of another name: it happened, is under way, or may have happened. */
function isOfAnotherStep({ code, outcome }: NevertwiceError): boolean {
  const differs = (outcome as { readonly differs?: readonly string[] } | undefined)?.differs;
  return code === "KEY_CONFLICT" || (code === "OUTCOME_UNKNOWN" && differs !== undefined);
}
