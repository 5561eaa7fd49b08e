/**
 * What a run has taken before, compared with what its function asks for now. A step that would run waits until every step
 * that may have happened before it has been asked for: otherwise a branch that a release renames, moves or removes would be done
 * again under its new name, and nobody would notice before the end. Finished steps wait for nothing.
 *
 * Branches go on side by side, so another one may still be on its way to ask for what is missing. The wait ends when it is
 * asked for, or with an error when nothing of the run has moved for a while: the program no longer takes these steps.
 */
import type { NevertwiceError } from "../core/errors.ts";
import type { Clock, Timer } from "../engine/clock.ts";
import { changedSteps, label, type NamedStep, type Rename, renamedBranch } from "./changed-steps.ts";
import { mayHaveHappened, type RecordedStep } from "./step-records.ts";

/** A step that the function has asked for. */
export interface AskedStep {
  /** As the ledger has it. */
  readonly name: string;
  /** As the function calls it: another name where `renamed` says so. */
  readonly called: string;
  readonly path: readonly string[];
  readonly place: number;
  /** What the ledger has under its place. */
  readonly recorded: RecordedStep | undefined;
  /** Its number among all steps of the run. */
  readonly order: number;
}

export interface StepOrderOptions {
  readonly run: string;
  readonly key: string;
  readonly version: number;
  readonly clock: Clock;
  readonly renamed: Readonly<Record<string, string>>;
}

interface Waiting {
  readonly asked: AskedStep;
  admit(): void;
  refuse(error: unknown): void;
}

// Counted in ticks, so that an event loop that stood still is not taken for a function that asks for nothing.
const TICK_MS = 250;
const QUIET_TICKS = 8;
// While a branch is open in which nothing waits: its function does something else, and may ask for more.
const QUIET_TICKS_BESIDE_A_BRANCH = 2_400;
const SHOWN = 8;

export class StepOrder {
  readonly #options: StepOrderOptions;
  readonly #rows = new Map<string, Map<number, RecordedStep>>();
  readonly #lastPlaces = new Map<string, number>();
  /** The rows above, and the branches that lead to them. */
  readonly #branches = new Set<string>();
  /** Recorded steps that may have happened, by their order; those before `#firstMissing` were asked for. */
  #needed: RecordedStep[] = [];
  #firstMissing = 0;
  readonly #askedPlaces = new Map<string, Set<number>>();
  readonly #asked: AskedStep[] = [];
  readonly #ran: string[] = [];
  readonly #openBranches = new Set<string>();
  /** All that this call has opened, and what it calls those that `renamed` names. */
  readonly #opened = new Map<string, readonly string[]>();
  readonly #calledBranches = new Map<string, string>();
  readonly #waiting = new Set<Waiting>();
  /** What those who wait were last compared with. */
  #awaited: RecordedStep | undefined;
  #lastOrder = 0;
  #underWay = 0;
  #quietTicks = 0;
  #timer: Timer | null = null;
  #broken: NevertwiceError | null = null;

  constructor(options: StepOrderOptions) {
    this.#options = options;
  }

  get asked(): readonly AskedStep[] {
    return this.#asked;
  }

  get recorded(): RecordedStep[] {
    return [...this.#rows.values()].flatMap((row) => [...row.values()]);
  }

  /** Called before the function begins, and for a row that older releases have left. */
  add(path: readonly string[] | null, steps: readonly RecordedStep[]): void {
    if (path !== null) this.#rowAt(path);
    for (const step of steps) {
      this.#rowAt(step.path).set(step.place, step);
      const last = this.#lastPlaces.get(rowKey(step.path)) ?? 0;
      this.#lastPlaces.set(rowKey(step.path), Math.max(last, step.place));
      this.#lastOrder = Math.max(this.#lastOrder, step.order);
    }
    const isMissing = (step: RecordedStep) => !this.#isAsked(step);
    const missing = [...this.#needed.slice(this.#firstMissing), ...steps.filter(mayHaveHappened)].filter(isMissing);
    this.#needed = missing.sort((a, b) => a.order - b.order);
    this.#firstMissing = 0;
    this.#moved();
  }

  knowsRow(path: readonly string[]): boolean {
    return this.#rows.has(rowKey(path));
  }

  /** The name that the ledger has for this branch: the old one, where `renamed` says so and the run has taken it. */
  branchName(path: readonly string[], name: string): string {
    if (this.#hasBranch([...path, name])) return name;
    const before = Object.entries(this.#options.renamed).find(
      ([old, now]) => now === name && this.#hasBranch([...path, old]),
    );
    return before?.[0] ?? name;
  }

  #hasBranch(path: readonly string[]): boolean {
    return this.#branches.has(rowKey(path));
  }

  branchOpened(path: readonly string[], called: string): void {
    this.#openBranches.add(rowKey(path));
    this.#opened.set(rowKey(path), path);
    this.#calledBranches.set(rowKey(path), called);
    this.#moved();
  }

  branchEnded(path: readonly string[]): void {
    this.#openBranches.delete(rowKey(path));
    this.#moved();
  }

  /** Called at once, in the order of the function. */
  ask(name: string, path: readonly string[], place: number): AskedStep {
    const found = this.#rows.get(rowKey(path))?.get(place);
    const recorded = found !== undefined && this.#isNamed(found, name) ? found : undefined;
    const asked = {
      name: recorded?.name ?? name,
      called: name,
      path,
      place,
      recorded,
      order: recorded?.order ?? this.#orderAt(path, place),
    };
    this.#asked.push(asked);
    const places = this.#askedPlaces.get(rowKey(path)) ?? new Set();
    this.#askedPlaces.set(rowKey(path), places.add(place));
    if (this.#broken !== null) throw this.#broken;
    if (found !== undefined && recorded === undefined && mayHaveHappened(found)) throw this.changedAt(found, name);
    this.#moved();
    return asked;
  }

  /** Resolves when the step may run, or be answered; rejects when the run's steps have changed. */
  admitted(asked: AskedStep): Promise<void> | null {
    if (this.#broken !== null) throw this.#broken;
    if (this.#mayGoOn(asked)) return null;
    return new Promise((admit, refuse) => {
      this.#waiting.add({ asked, admit, refuse });
      this.#moved();
    });
  }

  /** What a step does between its admission and its end. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      return await work();
    } finally {
      this.#underWay -= 1;
      this.#moved();
    }
  }

  /** Its function was called. */
  ran(asked: AskedStep): void {
    if (this.#ran.length < SHOWN) this.#ran.push(label(this.#inProgram(asked)));
  }

  /** The run's function has ended. Throws where it did not ask for what the run has taken. */
  end(): void {
    const missing = this.#missing();
    if (this.#broken !== null) throw this.#broken;
    if (missing !== undefined) throw this.#break(this.#changed(missing, "no longer takes it", undefined));
  }

  /** Nothing more is admitted. */
  close(error: unknown): void {
    this.#timer?.cancel();
    this.#timer = null;
    for (const { refuse } of this.#waiting) refuse(this.#broken ?? error);
    this.#waiting.clear();
  }

  /** The ledger has another step under this place. Nothing is admitted from here on. */
  changedAt(recorded: RecordedStep, name: string): NevertwiceError {
    // A name that the row has elsewhere has moved, and is not a new one.
    const isNew = recorded.name !== null && !this.#hasName(recorded.path, name);
    const rename = isNew ? { from: recorded.name as string, to: name } : undefined;
    const error = this.#break(this.#changed(recorded, `now calls ${JSON.stringify(name)} there`, rename));
    this.close(error);
    return error;
  }

  #hasName(path: readonly string[], name: string): boolean {
    return [...(this.#rows.get(rowKey(path))?.values() ?? [])].some((step) => step.name === name);
  }

  #isNamed(recorded: RecordedStep, name: string): boolean {
    if (recorded.name === null || recorded.name === name) return true;
    return Object.hasOwn(this.#options.renamed, recorded.name) && this.#options.renamed[recorded.name] === name;
  }

  #mayGoOn({ recorded, order }: AskedStep): boolean {
    if (recorded?.state === "confirmed") return true;
    const missing = this.#missing();
    return missing === undefined || missing.order >= order;
  }

  /**
   * After all that was asked for so far. A step without a record may also precede one that has it, in its own row: it was
   * called first and left nothing, because it stood in a transaction that was rolled back, or its process died too early.
   */
  #orderAt(path: readonly string[], place: number): number {
    const row = this.#rows.get(rowKey(path));
    const last = this.#lastPlaces.get(rowKey(path)) ?? 0;
    for (let next = place + 1; next <= last; next += 1) {
      const recorded = row?.get(next);
      if (recorded !== undefined && row?.get(place) === undefined) return Math.max(0, recorded.order - 0.5);
    }
    this.#lastOrder += 1;
    return this.#lastOrder;
  }

  #missing(): RecordedStep | undefined {
    while (this.#firstMissing < this.#needed.length && this.#isAsked(this.#needed[this.#firstMissing] as RecordedStep))
      this.#firstMissing += 1;
    return this.#needed[this.#firstMissing];
  }

  #isAsked({ path, place }: RecordedStep): boolean {
    return this.#askedPlaces.get(rowKey(path))?.has(place) === true;
  }

  #rowAt(path: readonly string[]): Map<number, RecordedStep> {
    const known = this.#rows.get(rowKey(path));
    if (known !== undefined) return known;
    const row = new Map<number, RecordedStep>();
    this.#rows.set(rowKey(path), row);
    for (const branch of waysTo(path)) this.#branches.add(branch);
    return row;
  }

  /** Something happened in the run: those who wait may go on, and the wait for the rest begins anew. */
  #moved(): void {
    if (this.#waiting.size === 0) return;
    this.#quietTicks = 0;
    const missing = this.#missing();
    if (missing !== this.#awaited) {
      for (const waiting of this.#waiting) {
        if (!this.#mayGoOn(waiting.asked)) continue;
        this.#waiting.delete(waiting);
        waiting.admit();
      }
      this.#awaited = missing;
    }
    if (this.#timer === null && this.#waiting.size > 0) this.#arm();
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(TICK_MS, () => this.#tick());
  }

  #tick(): void {
    this.#timer = null;
    const [first] = this.#waiting;
    if (first === undefined) return;
    this.#quietTicks = this.#underWay > 0 ? 0 : this.#quietTicks + 1;
    const most = this.#isBranchAtWork() ? QUIET_TICKS_BESIDE_A_BRANCH : QUIET_TICKS;
    const missing = this.#missing();
    if (this.#quietTicks >= most && missing !== undefined) {
      const called = label(this.#inProgram(first.asked));
      this.close(this.#break(this.#changed(missing, `goes on with ${called} without it`, undefined)));
    } else this.#arm();
  }

  /** A branch is open, and no step in it waits here. */
  #isBranchAtWork(): boolean {
    const waits = new Set([...this.#waiting].flatMap(({ asked }) => waysTo(asked.path)));
    return [...this.#openBranches].some((open) => !waits.has(open));
  }

  #break(error: NevertwiceError): NevertwiceError {
    this.#broken ??= error;
    return this.#broken;
  }

  #changed(missing: RecordedStep, what: string, rename: Rename | undefined): NevertwiceError {
    const { run, version } = this.#options;
    return changedSteps({
      run,
      version,
      missing,
      what,
      rename: rename ?? renamedBranch(missing.path, this.#recordedBranches(), [...this.#opened.values()]),
      ran: this.#ran,
      recorded: this.recorded,
      asked: this.#asked.map((asked) => ({ inLedger: asked, inProgram: this.#inProgram(asked) })),
    });
  }

  #recordedBranches(): string[][] {
    const keys = new Set(this.recorded.flatMap(({ path }) => waysTo(path)));
    return [...keys].map((key) => JSON.parse(key) as string[]);
  }

  /** Under the names that the program has for it. */
  #inProgram({ called, path }: AskedStep): NamedStep {
    const shown = path.map((branch, depth) => this.#calledBranches.get(rowKey(path.slice(0, depth + 1))) ?? branch);
    return { name: called, path: shown };
  }
}

function rowKey(path: readonly string[]): string {
  return JSON.stringify(path);
}

/** The branch, and those around it. */
function waysTo(path: readonly string[]): string[] {
  return path.map((_, depth) => rowKey(path.slice(0, depth + 1)));
}
