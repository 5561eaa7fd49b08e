/**
 * The steps of a run. A step's place in the run is its key and its name is what must match: a release that renames,
 * removes or reorders steps of a run under way meets another name at that place, which is a conflict and runs nothing.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Duration } from "../core/duration.ts";
import { configError, NevertwiceError, noSuchOption } from "../core/errors.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { LedgerRecord } from "../core/record.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Action } from "../engine/action.ts";
import { requireGivenIn } from "../engine/call.ts";
import type { AttemptContext } from "../engine/context.ts";
import type { ActionOptions, Probe, Verdictish } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";

export interface StepOptions<R> extends PolicyOptions<Probe<unknown, R>> {
  /** A second opinion on an error that the step threw; undefined leaves it to the built-in rules. */
  readonly classify?: (error: unknown) => Verdictish | undefined;
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

export interface StepsOf {
  /** The run's name. */
  readonly name: string;
  readonly key: string;
  readonly keep: Duration | "forever";
  readonly tenant: string;
  readonly version: number;
  /** The branches that lead here. */
  readonly path: readonly string[];
  readonly attempt: number;
  readonly signal: AbortSignal;
  /** The run's function has returned, or thrown. */
  hasEnded(): boolean;
}

export interface StepServices {
  readonly engine: Engine;
  adHoc<I, R, D>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
}

/** What the ledger keeps as a step's input. */
export interface StepInput {
  readonly step: string;
  readonly path: readonly string[];
  readonly place: number;
}

const OPTIONS = new Set("keep lease timeout wait doubt retry whenStoreDown classify".split(" "));
const MOST_STEPS = 10_000;
/** The run whose step is at work here. */
const insideStepOf = new AsyncLocalStorage<string>();

export function stepAction(run: string): string {
  return `step:${run}`;
}

export class StepSequence {
  readonly run: Run;
  readonly #services: StepServices;
  readonly #of: StepsOf;
  readonly #names = new Set<string>();
  readonly #branches: StepSequence[] = [];
  #places = 0;

  constructor(services: StepServices, of: StepsOf) {
    this.#services = services;
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

  /** A step at the next place was taken by an earlier release, and this one has no use for it any more. */
  async end(): Promise<void> {
    for (const branch of this.#branches) await branch.end();
    const place = this.#places + 1;
    const key = await this.#action(() => undefined, {}).keyOf(this.#input("", place), this.#callOptions());
    const stored = await this.#services.engine.services.ledger.read(key);
    if (stored !== null) throw this.#changed(stored.record, place, "no longer takes it");
  }

  async #step<R>(
    name: string,
    run: (context: AttemptContext) => R | Promise<R>,
    given: StepOptions<R> = {},
  ): Promise<R> {
    requireGivenIn(given, `${this.#where}: step ${JSON.stringify(name)}`);
    const { tx, ...policy } = given;
    this.#checkName(name, "step");
    if (typeof run !== "function")
      throw configError(
        `${this.#where}: step ${JSON.stringify(name)} needs the function that does it: run.step("${name}", async (ctx) => …)`,
      );
    this.#checkOptions(name, policy);
    this.#places += 1;
    const place = this.#places;
    if (place > MOST_STEPS) throw configError(`${this.#where}: more than ${MOST_STEPS} steps. Split it into runs.`);
    const action = this.#action(run, policy);
    const input = this.#input(name, place);
    const options = { ...this.#callOptions(), ...(tx !== undefined && { tx }) };
    try {
      return await action(input, options);
    } catch (error) {
      throw error instanceof NevertwiceError && error.code === "KEY_CONFLICT"
        ? await this.#conflict(error, place, name)
        : error;
    }
  }

  async #branch<R>(name: string, body: (branch: Run) => R | Promise<R>): Promise<R> {
    this.#checkName(name, "branch");
    const branch = new StepSequence(this.#services, this.#inBranch(name));
    this.#branches.push(branch);
    return body(branch.run);
  }

  #inBranch(name: string): StepsOf {
    const of = this.#of;
    return Object.create(of, { path: { value: [...of.path, name] } }) as StepsOf;
  }

  #action<R>(run: (context: AttemptContext) => R | Promise<R>, policy: PolicyOptions<Probe<unknown, R>>) {
    return this.#services.adHoc<StepInput, R, undefined>(stepAction(this.#of.name), {
      keep: this.#of.keep,
      ...(policy as PolicyOptions<Probe<StepInput, R>>),
      key: ({ path, place }) => [this.#of.key, path.length === 0 ? "main" : path, place],
      run: (_, context) => insideStepOf.run(this.#of.key, () => run(context)),
    });
  }

  #input(step: string, place: number): StepInput {
    return { step, path: this.#of.path, place };
  }

  /** The run's key is the scope: all steps of a run are found by it. */
  #callOptions() {
    const { key, tenant, version } = this.#of;
    return { scope: key, version, ...(tenant !== "" && { tenant }) };
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
        `${this.#where}: two steps are called ${JSON.stringify(name)}. Give each a name of its own, such as ${JSON.stringify(`${name}-2`)}; in a loop, put what it is about into the name.`,
      );
    this.#names.add(name);
  }

  async #conflict(error: NevertwiceError, place: number, name: string): Promise<NevertwiceError> {
    const stored = error.key === undefined ? null : await this.#services.engine.services.ledger.read(error.key);
    return stored === null ? error : this.#changed(stored.record, place, `now calls ${JSON.stringify(name)} there`);
  }

  /** F41. */
  #changed(record: LedgerRecord, place: number, what: string): NevertwiceError {
    const outcome = { status: "conflict", key: record.key, differs: ["step"] } as const;
    return new NevertwiceError(
      "KEY_CONFLICT",
      `${this.#where}: step ${place} of this run was ${nameOf(record)} (${record.state}), and the program ${what}. Nothing was run. Steps of a run under way must keep their names and their order: bring the old ones back until it has ended, or begin anew on purpose with { version: ${record.version + 1} }.`,
      { key: record.key, outcome },
    );
  }
}

function nameOf({ input }: LedgerRecord): string {
  if (input === null || !("json" in input)) return "another step";
  return JSON.stringify((JSON.parse(input.json) as Partial<StepInput>).step ?? "?");
}
