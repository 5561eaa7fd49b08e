/** Many inputs through one action, so many at a time, with a report at the end. What was done before is not done again. */
import { isDamagedRecord } from "../core/damaged-record.ts";
import { formatDuration } from "../core/duration.ts";
import { configError, isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkScope, checkTenant } from "../core/key.ts";
import type { Outcome } from "../core/outcome.ts";
import { type CallOptions, requireGivenIn } from "./call.ts";
import { type Inputs, iterate } from "./enqueue-many.ts";

export interface EachOptions extends Omit<CallOptions, "tx"> {
  /** Calls under way at once; 20 unless given. */
  readonly concurrency?: number;
  /** After each input: how far it has got. An error thrown here ends the run. */
  readonly onProgress?: (progress: EachProgress) => void;
  /** Ends the run early: nothing new is begun, what runs is waited for. */
  readonly signal?: AbortSignal;
  /** How many inputs that did not come through are kept for the report; 1 000 unless given. All are counted. */
  readonly keep?: number;
}

export interface EachProgress {
  /** Inputs taken so far whose fate is known. */
  readonly done: number;
  /** Effects that happened in this run. */
  readonly sent: number;
  /** Done before, and not again. */
  readonly replayed: number;
  /** Surely did not happen. */
  readonly failed: number;
  /** May have happened: resolve them. */
  readonly inDoubt: number;
  /** In another process's hands, or queued. */
  readonly elsewhere: number;
}

export interface EachReport<I> extends EachProgress {
  /** Whether the inputs were gone through to the end. */
  readonly complete: boolean;
  readonly failedInputs: readonly EachTrouble<I>[];
  readonly inDoubtInputs: readonly EachTrouble<I>[];
}

export interface EachTrouble<I> {
  /** Which input it was, counted from 0. */
  readonly index: number;
  readonly input: I;
  /** Absent where the input has no key. */
  readonly key?: string;
  readonly why: unknown;
}

interface Run<I, R> {
  readonly inputs: Inputs<I>;
  readonly options: EachOptions;
  readonly action: string;
  readonly attempt: (input: I, options: CallOptions) => Promise<Outcome<R>>;
  readonly watch: KeepWatch;
}

interface KeepWatch {
  readonly keepMs: number | null;
  now(): number;
  warn(code: string, message: string): void;
}

/**
 * Started again, a run sends what is missing for as long as what it did first is known. Who is past half of that time is
 * warned while there is time: the records cannot be kept longer afterwards.
 */
class Remembered {
  readonly #watch: KeepWatch;
  readonly #action: string;
  #oldest: number;

  constructor(watch: KeepWatch, action: string) {
    this.#watch = watch;
    this.#action = action;
    this.#oldest = watch.now();
  }

  see(outcome: Outcome<unknown> | Unfit): void {
    const { keepMs } = this.#watch;
    if (keepMs === null) return;
    if (outcome.status === "done") this.#oldest = Math.min(this.#oldest, outcome.at);
    if (this.#watch.now() - this.#oldest <= keepMs / 2) return;
    this.#watch.warn(
      "KEEP_SHORT_FOR_EACH",
      `action ${this.#action}: the first inputs of each() were done more than half of keep (${formatDuration(keepMs)}) ago. If it is started again once keep is over, they are done again: start it with the inputs that are left, and give keep more time before such a run, or "forever".`,
    );
  }
}

const MOST = 1_000_000;

export async function runEach<I, R>(run: Run<I, R>): Promise<EachReport<I>> {
  const { concurrency = 20, onProgress, signal, keep = 1_000, ...call } = run.options;
  requireCount(concurrency, `${run.action}.each: concurrency`, 1);
  requireCount(keep, `${run.action}.each: keep`, 0);
  // Wrong for every input alike: refused before the first, not counted as a failure of each.
  requireGivenIn(call, `${run.action}.each`);
  if (call.tenant !== undefined) checkTenant(call.tenant);
  if (call.scope !== undefined) checkScope(call.scope);
  const source = oneAtATime(iterate(run.inputs, `${run.action}.each`));
  const tally = new Tally<I>(keep);
  const remembered = new Remembered(run.watch, run.action);
  let broken: { readonly error: unknown } | null = null;
  const lane = async () => {
    while (broken === null && signal?.aborted !== true) {
      const next = await source.next();
      if (next.done) return;
      const { index, input } = next.value;
      try {
        const outcome = await outcomeOf(run, input, call);
        tally.count(index, input, outcome);
        remembered.see(outcome);
        onProgress?.(tally.progress());
      } catch (error) {
        // The store is down, or the run itself is set up wrongly: the next input would fare no better.
        broken ??= { error };
      }
    }
  };
  const lanes = Array.from({ length: concurrency }, lane);
  const ended = await Promise.allSettled(lanes);
  await source.close();
  const failure = broken ?? ended.map(rejection).find((one) => one !== null) ?? null;
  const report = tally.report(failure === null && signal?.aborted !== true);
  if (failure !== null) throw stopped(run.action, failure.error, report);
  return report;
}

/** An input that cannot be a call at all (no key, no fit with its schema, a damaged record) fails alone. */
async function outcomeOf<I, R>({ attempt }: Run<I, R>, input: I, call: CallOptions): Promise<Outcome<R> | Unfit> {
  try {
    return await attempt(input, call);
  } catch (error) {
    if (isDamagedRecord(error)) return { status: "unfit", error };
    if (isNevertwiceError(error) && (error.code === "INVALID_INPUT" || error.code === "INVALID_KEY"))
      return { status: "unfit", error };
    throw error;
  }
}

interface Unfit {
  readonly status: "unfit";
  readonly error: unknown;
}

class Tally<I> {
  readonly #keep: number;
  readonly #counts = { done: 0, sent: 0, replayed: 0, failed: 0, inDoubt: 0, elsewhere: 0 };
  readonly #failed: EachTrouble<I>[] = [];
  readonly #doubts: EachTrouble<I>[] = [];

  constructor(keep: number) {
    this.#keep = keep;
  }

  count(index: number, input: I, outcome: Outcome<unknown> | Unfit): void {
    this.#counts.done += 1;
    const trouble = { index, input, ...("key" in outcome && { key: outcome.key }) };
    switch (outcome.status) {
      case "done":
        this.#counts[outcome.replayed ? "replayed" : "sent"] += 1;
        break;
      case "failed":
      case "unfit":
        this.#fail({ ...trouble, why: outcome.error });
        break;
      case "conflict":
        this.#fail({ ...trouble, why: `conflict: differs in ${outcome.differs.join(", ")}` });
        break;
      case "unknown":
        this.#counts.inDoubt += 1;
        if (this.#doubts.length < this.#keep) this.#doubts.push({ ...trouble, why: doubtOf(outcome) });
        break;
      default:
        this.#counts.elsewhere += 1;
    }
  }

  #fail(trouble: EachTrouble<I>): void {
    this.#counts.failed += 1;
    if (this.#failed.length < this.#keep) this.#failed.push(trouble);
  }

  progress(): EachProgress {
    return { ...this.#counts };
  }

  report(complete: boolean): EachReport<I> {
    const byIndex = (a: EachTrouble<I>, b: EachTrouble<I>) => a.index - b.index;
    const [failedInputs, inDoubtInputs] = [this.#failed.sort(byIndex), this.#doubts.sort(byIndex)];
    return { ...this.#counts, complete, failedInputs, inDoubtInputs };
  }
}

function doubtOf({ why, differs = [] }: Extract<Outcome<unknown>, { readonly status: "unknown" }>): string {
  return differs.length === 0 ? why : `${why}; this input differs in ${differs.join(", ")}, and was not run`;
}

/** Lanes pull from one source in turn, and never more than they can run: a stream of any length fits into memory. */
function oneAtATime<I>(inputs: AsyncIterable<I> | Iterable<I>) {
  const iterator =
    Symbol.asyncIterator in inputs ? inputs[Symbol.asyncIterator]() : (inputs as Iterable<I>)[Symbol.iterator]();
  let index = 0;
  let over = false;
  let turn: Promise<unknown> = Promise.resolve();
  const pull = async (): Promise<IteratorResult<{ index: number; input: I }>> => {
    if (over) return { done: true, value: undefined };
    const next = await iterator.next();
    if (next.done) {
      over = true;
      return { done: true, value: undefined };
    }
    index += 1;
    return { done: false, value: { index: index - 1, input: next.value } };
  };
  return {
    next: () => {
      const mine = turn.then(pull);
      turn = mine.catch(() => {
        over = true;
      });
      return mine;
    },
    /** Lets a source that was not read to its end close its file. */
    close: async () => {
      await turn;
      if (!over) await iterator.return?.();
    },
  };
}

function rejection(one: PromiseSettledResult<void>): { readonly error: unknown } | null {
  return one.status === "rejected" ? { error: one.reason } : null;
}

function stopped<I>(action: string, error: unknown, report: EachReport<I>): unknown {
  if (!isNevertwiceError(error)) return error;
  const { done, sent, replayed } = report;
  return new NevertwiceError(
    error.code,
    `${action}.each stopped after ${done} inputs (${sent} sent, ${replayed} done before): ${error.message} Start it again with the same inputs: what was done is not done twice. How far it got is in this error's outcome.`,
    { cause: error, outcome: report, key: error.key },
  );
}

function requireCount(value: number, where: string, least: number): void {
  if (Number.isInteger(value) && value >= least && value <= MOST) return;
  throw configError(`${where} is ${String(value)}; it takes a whole number, ${least} or more.`);
}
