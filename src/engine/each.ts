/** Many inputs through one action, so many at a time, with a report at the end. What was done before is not done again. */
import { isDamagedRecord } from "../core/damaged-record.ts";
import { formatDuration } from "../core/duration.ts";
import { configError, isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkScope, checkTenant } from "../core/key/key.ts";
import type { Outcome } from "../core/outcome.ts";
import type { CallOptions } from "./call.ts";
import { type EachFailure, type EachProgress, type EachReport, type Fate, Tally } from "./each-tally.ts";
import { type Inputs, iterate } from "./enqueue-many.ts";
import { requireGivenIn } from "./make-call.ts";

export interface EachOptions<I = unknown> extends Omit<CallOptions, "tx"> {
  /** Calls under way at once; 20 unless given. */
  readonly concurrency?: number;
  /** After each input: how far it has got. An error thrown here ends the run. */
  readonly onProgress?: (progress: EachProgress) => void;
  /** For each input that failed or is in doubt, as it happens; waited for. An error thrown here ends the run. */
  readonly onFailure?: (failure: EachFailure<I>) => void | Promise<void>;
  /**
   * Ends the run when so many inputs in a row failed or came into doubt: the provider is down. Nothing new is begun, and a
   * later run begins what is left. Only tries of this run count, and a send ends the row. Final refusals, conflicts,
   * inputs that are no call, and what an earlier run left count for nothing. 0, the default: it never ends for that.
   */
  readonly stopAfter?: number;
  /** How many inputs there are, for onProgress; of arrays and sets it is known. */
  readonly total?: number;
  /** Ends the run early: nothing new is begun, what runs is waited for. */
  readonly signal?: AbortSignal;
  /** How many inputs that did not come through are kept for the report; 1 000 unless given. All are counted. */
  readonly keep?: number;
}

interface Run<I, R> {
  readonly inputs: Inputs<I>;
  readonly options: EachOptions<I>;
  readonly action: string;
  readonly attempt: (input: I, options: CallOptions) => Promise<Outcome<R>>;
  readonly watch: KeepWatch;
}

interface KeepWatch {
  readonly keepMs: number | null;
  now(): number;
  monotonic(): number;
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

  see(outcome: Fate): void {
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
  const { concurrency = 20, keep = 1_000, stopAfter = 0, total, onProgress, onFailure, signal, ...call } = run.options;
  requireCount(concurrency, `${run.action}.each: concurrency`, 1);
  requireCount(keep, `${run.action}.each: keep`, 0);
  requireCount(stopAfter, `${run.action}.each: stopAfter`, 0);
  if (total !== undefined) requireCount(total, `${run.action}.each: total`, 0, Number.MAX_SAFE_INTEGER);
  // Wrong for every input alike: refused before the first, not counted as a failure of each.
  requireGivenIn(call, `${run.action}.each`);
  if (call.tenant !== undefined) checkTenant(call.tenant);
  if (call.scope !== undefined) checkScope(call.scope);
  const source = oneAtATime(iterate(run.inputs, `${run.action}.each`));
  const tally = new Tally<I>({
    keep,
    stopAfter,
    total: total ?? sizeOf(run.inputs),
    startedAt: run.watch.now(),
    monotonic: () => run.watch.monotonic(),
  });
  const remembered = new Remembered(run.watch, run.action);
  let broken: { readonly error: unknown } | null = null;
  let dropped = false;
  const isOver = () => broken !== null || signal?.aborted === true || tally.isStopped;
  const lane = async () => {
    while (!isOver()) {
      const next = await source.next();
      if (next.done) return;
      if (isOver()) {
        // Taken from the inputs while the run ended, and not begun: it is left to the next run.
        dropped = true;
        return;
      }
      const { index, input } = next.value;
      try {
        const fate = await fateOf(run, input, call);
        const failure = tally.count(index, input, fate);
        remembered.see(fate);
        if (failure !== null) await onFailure?.(failure);
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
  const isThrough = source.isAtEnd() && !dropped;
  const report = tally.report(failure === null && signal?.aborted !== true && (isThrough || !tally.isStopped));
  if (failure !== null) throw stopped(run.action, failure.error, report);
  return report;
}

/** An input that cannot be a call at all (no key, no fit with its schema, a damaged record) fails alone. */
async function fateOf<I, R>({ attempt }: Run<I, R>, input: I, call: CallOptions): Promise<Fate> {
  try {
    return await attempt(input, call);
  } catch (error) {
    if (isDamagedRecord(error)) return { status: "unfit", error };
    if (isNevertwiceError(error) && (error.code === "INVALID_INPUT" || error.code === "INVALID_KEY"))
      return { status: "unfit", error };
    throw error;
  }
}

function sizeOf(inputs: Inputs<unknown>): number | undefined {
  if (Array.isArray(inputs)) return inputs.length;
  return inputs instanceof Set ? inputs.size : undefined;
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
    isAtEnd: () => over,
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

function requireCount(value: number, where: string, least: number, most = MOST): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw configError(`${where} is ${String(value)}; it takes a whole number, ${least} or more.`);
}
