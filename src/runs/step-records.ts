/**
 * What the ledger has of a run's steps. They are read by key, never by a search: the steps of a row (the run's own function, or
 * a branch) have the keys of their places, and each branch has a numbered record with its name. So the list of a run costs the
 * same on every store and in a ledger of any size, and a step costs no write more than its own.
 */
import { entryAction } from "../core/entry-name.ts";
import { NevertwiceError } from "../core/errors.ts";
import { expired, type LedgerRecord, type State } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Action } from "../engine/action.ts";
import type { ActionOptions } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";

/** What the ledger keeps as a step's input. */
export interface StepInput {
  readonly step: string;
  readonly path: readonly string[];
  readonly place: number;
  /** How many steps of the run had been called before it, itself included. Absent in records of older releases. */
  readonly order?: number;
  /** How many of the first places of its row were finished when it was called: their records must be there. */
  readonly behind?: number;
}

interface BranchInput {
  readonly number: number;
  readonly path: readonly string[];
}

export interface RecordedStep {
  readonly key: string;
  /** Null: sealed by a key that is not here. */
  readonly name: string | null;
  readonly path: readonly string[];
  readonly place: number;
  /** 0 where the record does not say. */
  readonly order: number;
  readonly behind: number;
  readonly state: State;
  readonly expired: boolean;
}

/** The run whose steps they are. */
export interface StepsOwner {
  readonly name: string;
  readonly key: string;
  readonly tenant: string;
  readonly version: number;
  readonly agent: string | null;
  /** Of the run: steps and branches have it too, unless a step has its own. */
  readonly leaseMs: number;
}

export interface StepServices {
  readonly engine: Engine;
  adHoc<I, R, D>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
}

// Read at once. A run that was begun and has no steps costs two reads of the smallest size; rows may have gaps, because
// steps side by side are recorded in any order, so a row ends where a whole block is missing.
const FIRST_BLOCK = 16;
const LARGEST_BLOCK = 256;
const MOST_BRANCHES = 10_000;
const MOST_PLACES = 10_000;
const RELEASED_AT_ONCE = 256;

export function stepAction(run: string): string {
  return entryAction("step", run);
}

export function branchAction(run: string): string {
  return entryAction("branch", run);
}

/** May have happened: a program that does not ask for it any more could do it again under another name. */
export function mayHaveHappened({ state }: Pick<RecordedStep, "state">): boolean {
  return state === "confirmed" || state === "unknown" || state === "sent";
}

export class StepRecords {
  readonly #services: StepServices;
  readonly #of: StepsOwner;
  readonly #steps: Action<StepInput, unknown>;
  readonly #branches: Action<BranchInput, undefined>;
  readonly #noted = new Set<string>();
  #branchCount = 0;

  constructor(services: StepServices, of: StepsOwner) {
    this.#services = services;
    this.#of = of;
    this.#steps = services.adHoc<StepInput, unknown, undefined>(stepAction(of.name), {
      ...this.stepOptions(),
      run: () => undefined,
    });
    // A name, no effect: recorded again where its end is not known.
    this.#branches = services.adHoc<BranchInput, undefined, undefined>(branchAction(of.name), {
      keep: "forever",
      doubt: "retry",
      lease: of.leaseMs,
      key: ({ number }) => [of.key, "branch", number],
      run: () => undefined,
    });
  }

  /** What all steps of the run have in common. They are kept until the run has ended, and released then. */
  stepOptions() {
    return {
      keep: "forever" as const,
      free: ["order", "behind"] as const,
      key: ({ path, place }: StepInput) => [this.#of.key, path.length === 0 ? "main" : path, place],
    };
  }

  /** The run's key is the scope: all steps of a run are found by it. */
  callOptions() {
    const { key, tenant, version, agent } = this.#of;
    return { scope: key, version, ...(tenant !== "" && { tenant }), ...(agent !== null && { agent }) };
  }

  /** All steps that the run has taken so far, as far as their rows are recorded. */
  async all(): Promise<RecordedStep[]> {
    const paths = await this.#blocks(
      MOST_BRANCHES,
      (number) => this.#branchKey(number),
      (stored) => this.#pathOf(stored),
    );
    this.#branchCount = paths.length;
    const steps = await this.row([]);
    for (const path of paths) {
      if (path === null) continue;
      this.#noted.add(JSON.stringify(path));
      steps.push(...(await this.row(path)));
    }
    return steps;
  }

  /** The steps of one row. Throws where one that was finished is missing. */
  async row(path: readonly string[]): Promise<RecordedStep[]> {
    const found = await this.#blocks(
      MOST_PLACES,
      (place) => this.#stepKey(path, place),
      (stored) => this.#stepOf(stored),
    );
    const row = found.flatMap((step, index) => (step === null ? [] : [{ ...step, path, place: index + 1 }]));
    const firstMissing = found.indexOf(null) + 1;
    const after = firstMissing === 0 ? undefined : row.find((step) => step.behind >= firstMissing);
    if (after !== undefined) throw this.#lost(path, firstMissing, after);
    const gone = row.find((step) => step.expired && mayHaveHappened(step));
    if (gone !== undefined) throw this.#lost(path, gone.place, gone);
    return row;
  }

  isNoted(path: readonly string[]): boolean {
    return path.length === 0 || this.#noted.has(JSON.stringify(path));
  }

  /** Recorded before its first step begins, so that the step is found whatever the next release calls the branch. */
  async noteBranch(path: readonly string[]): Promise<void> {
    await this.#writeBranch(path);
    this.#noted.add(JSON.stringify(path));
  }

  async #writeBranch(path: readonly string[]): Promise<void> {
    for (let number = this.#branchCount + 1; number <= MOST_BRANCHES; number = this.#branchCount + 1) {
      this.#branchCount = number;
      const outcome = await this.#branches.attempt({ number, path }, this.callOptions());
      if (outcome.status === "done") return;
      // Another process was at the run a moment ago, and has recorded another branch under this number.
      if (outcome.status !== "conflict" && !(outcome.status === "unknown" && outcome.differs !== undefined))
        throw new NevertwiceError(
          "STORE_UNAVAILABLE",
          `run ${this.#of.name}: the branch ${JSON.stringify(path.join(" › "))} could not be recorded (${outcome.status}). None of its steps was run. Call the run again.`,
          { key: outcome.key, outcome },
        );
    }
    throw new NevertwiceError(
      "CONFIG",
      `run ${this.#of.name}: more than ${MOST_BRANCHES} branches. Split it into runs.`,
    );
  }

  /** The run has ended: from now on its steps are kept for as long as each of them says, and all else as long as the run. */
  async release(
    steps: readonly { path: readonly string[]; place: number; keepMs: number | null }[],
    runKeepMs: number | null,
  ): Promise<void> {
    const all = [
      ...steps.map(({ path, place, keepMs }) => ({ key: () => this.#stepKey(path, place), keepMs })),
      ...Array.from({ length: this.#branchCount }, (_, index) => ({
        key: () => this.#branchKey(index + 1),
        keepMs: runKeepMs,
      })),
      // Last: while the run guards its id, nobody asks for its steps.
      { key: async () => this.#of.key, keepMs: runKeepMs },
    ].filter(({ keepMs }) => keepMs !== null);
    for (let from = 0; from < all.length; from += RELEASED_AT_ONCE) {
      const some = all.slice(from, from + RELEASED_AT_ONCE);
      await Promise.all(some.map(async ({ key, keepMs }) => this.#services.engine.retain(await key(), keepMs)));
    }
  }

  #stepKey(path: readonly string[], place: number): Promise<string> {
    return this.#steps.keyOf({ step: "", path, place }, this.callOptions());
  }

  #branchKey(number: number): Promise<string> {
    return this.#branches.keyOf({ number, path: [] }, this.callOptions());
  }

  /** What is under the first keys, up to the first block without a record. */
  async #blocks<T>(
    most: number,
    keyOf: (number: number) => Promise<string>,
    read: (stored: Stored) => T,
  ): Promise<(T | null)[]> {
    const { ledger } = this.#services.engine.services;
    const found: (T | null)[] = [];
    for (let size = FIRST_BLOCK; found.length < most; size = Math.min(2 * size, LARGEST_BLOCK)) {
      const numbers = Array.from({ length: size }, (_, index) => found.length + index + 1);
      const block = await Promise.all(numbers.map(async (number) => ledger.read(await keyOf(number))));
      found.push(...block.map((stored) => (stored === null ? null : read(stored))));
      if (block.every((stored) => stored === null)) break;
    }
    while (found.at(-1) === null) found.pop();
    return found;
  }

  #pathOf({ record }: Stored): readonly string[] | null {
    return (this.#inputOf(record) as BranchInput | undefined)?.path ?? null;
  }

  #stepOf({ record }: Stored): RecordedStep {
    const input = this.#inputOf(record) as Partial<StepInput> | undefined;
    return {
      key: record.key,
      name: input?.step ?? null,
      path: [],
      place: 0,
      order: input?.order ?? 0,
      behind: input?.behind ?? 0,
      state: record.state,
      expired: expired(record, this.#services.engine.services.ledger.instant().now),
    };
  }

  #inputOf(record: LedgerRecord): unknown {
    return this.#services.engine.services.payloads.load(record, "input").value;
  }

  #lost(path: readonly string[], place: number, step: RecordedStep): NevertwiceError {
    const where = `run ${this.#of.name}${path.map((branch) => ` → ${branch}`).join("")}`;
    const name = JSON.stringify(step.name);
    const which = step.place === place ? ` (${name})` : `, which had ended before ${name} began,`;
    const outcome = { status: "conflict", key: step.key, differs: ["step"] } as const;
    return new NevertwiceError(
      "KEY_CONFLICT",
      `${where}: the record of step ${place}${which} has expired or was removed. Nothing was run: the step has happened, and would happen again. Begin anew on purpose with { version: ${this.#of.version + 1} }; all steps then run again.`,
      { key: step.key, outcome },
    );
  }
}
