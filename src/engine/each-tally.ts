/** What `each` counts while it runs: the fates of its inputs, how fast they come, and failures in a row. */
import type { Outcome } from "../core/outcome.ts";
import { causeOf, isRemembered } from "./error-memory.ts";

export interface EachCounts {
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

export interface EachProgress extends EachCounts {
  /** Inputs a second, over the last 20 seconds. */
  readonly rate: number;
  /** How many inputs there are; absent where that is not known, as of a stream. */
  readonly total?: number;
}

export interface EachTrouble<I> {
  /** Which input it was, counted from 0. */
  readonly index: number;
  readonly input: I;
  /** Absent where the input has no key. */
  readonly key?: string;
  readonly why: unknown;
}

export interface EachFailure<I> extends EachTrouble<I> {
  /** failed: surely did not happen · unknown: may have happened */
  readonly status: "failed" | "unknown";
  /** Of a doubt: the error that led to it, where there was one. */
  readonly error?: unknown;
}

export interface EachReport<I> extends EachCounts {
  /** Whether the inputs were gone through to the end. */
  readonly complete: boolean;
  /** Set where `stopAfter` ended the run: how many inputs in a row had failed, and why the last one did. */
  readonly stopped?: { readonly inARow: number; readonly why: unknown };
  readonly failedInputs: readonly EachTrouble<I>[];
  readonly inDoubtInputs: readonly EachTrouble<I>[];
}

/** No call at all: no key, no fit with its schema, a damaged record. */
export interface Unfit {
  readonly status: "unfit";
  readonly error: unknown;
}

export type Fate = Outcome<unknown> | Unfit;

export interface TallyOptions {
  /** How many inputs that did not come through are kept. */
  readonly keep: number;
  /** 0: never. */
  readonly stopAfter: number;
  readonly total: number | undefined;
  /** Epoch ms: a doubt from before is of an earlier run. */
  readonly startedAt: number;
  monotonic(): number;
}

export class Tally<I> {
  readonly #options: TallyOptions;
  readonly #counts = { done: 0, sent: 0, replayed: 0, failed: 0, inDoubt: 0, elsewhere: 0 };
  readonly #failed: EachTrouble<I>[] = [];
  readonly #doubts: EachTrouble<I>[] = [];
  readonly #rate: Rate;
  #inARow = 0;
  #stopped: { readonly inARow: number; readonly why: unknown } | undefined;

  constructor(options: TallyOptions) {
    this.#options = options;
    this.#rate = new Rate(options.monotonic());
  }

  get isStopped(): boolean {
    return this.#stopped !== undefined;
  }

  /** Null: it did not fail. */
  count(index: number, input: I, fate: Fate): EachFailure<I> | null {
    this.#counts.done += 1;
    this.#rate.count(this.#counts.done, this.#options.monotonic());
    const failure = this.#failureOf({ index, input, ...("key" in fate && { key: fate.key }) }, fate);
    this.#watch(fate, failure);
    if (failure === null) return null;
    const { status, error: _, ...trouble } = failure;
    this.#counts[status === "failed" ? "failed" : "inDoubt"] += 1;
    const kept = status === "failed" ? this.#failed : this.#doubts;
    if (kept.length < this.#options.keep) kept.push(trouble);
    return failure;
  }

  #failureOf(of: Omit<EachTrouble<I>, "why">, fate: Fate): EachFailure<I> | null {
    switch (fate.status) {
      case "done":
        this.#counts[fate.replayed ? "replayed" : "sent"] += 1;
        return null;
      case "failed":
      case "unfit":
        return { ...of, status: "failed", why: fate.error };
      case "conflict":
        return { ...of, status: "failed", why: `conflict: differs in ${fate.differs.join(", ")}` };
      case "unknown":
        return { ...of, status: "unknown", why: doubtOf(fate), ...errorBehind(fate) };
      default:
        this.#counts.elsewhere += 1;
        return null;
    }
  }

  /** Only what was tried in this run says how the provider is: a send ends the row, and the rest leaves it as it is. */
  #watch(fate: Fate, failure: EachFailure<I> | null): void {
    if (fate.status === "done" && !fate.replayed) this.#inARow = 0;
    if (failure === null || !this.#isOfProvider(fate)) return;
    this.#inARow += 1;
    const { stopAfter } = this.#options;
    if (stopAfter > 0 && this.#inARow >= stopAfter)
      this.#stopped ??= { inARow: this.#inARow, why: failure.error ?? failure.why };
  }

  #isOfProvider(fate: Fate): boolean {
    // A final refusal is about its own input: the provider has answered.
    if (fate.status === "failed") return !fate.final && !isRemembered(fate.error);
    return fate.status === "unknown" && fate.since >= this.#options.startedAt;
  }

  progress(): EachProgress {
    const { total } = this.#options;
    return { ...this.#counts, rate: this.#rate.perSecond, ...(total !== undefined && { total }) };
  }

  report(complete: boolean): EachReport<I> {
    const byIndex = (a: EachTrouble<I>, b: EachTrouble<I>) => a.index - b.index;
    const [failedInputs, inDoubtInputs] = [this.#failed.sort(byIndex), this.#doubts.sort(byIndex)];
    // Where nothing was left, nothing was stopped.
    const stopped = complete || this.#stopped === undefined ? {} : { stopped: this.#stopped };
    return { ...this.#counts, complete, ...stopped, failedInputs, inDoubtInputs };
  }
}

function errorBehind(outcome: object): { readonly error?: unknown } {
  const error = causeOf(outcome);
  return error === undefined ? {} : { error };
}

const WINDOW_MS = 20_000;
const SAMPLE_MS = 500;

/** Of the last while: replays at the start are a hundred times as fast as what follows. */
class Rate {
  readonly #samples: { readonly at: number; readonly done: number }[];
  #last: { readonly at: number; readonly done: number };

  constructor(startedAt: number) {
    this.#last = { at: startedAt, done: 0 };
    this.#samples = [this.#last];
  }

  count(done: number, now: number): void {
    this.#last = { at: now, done };
    const newest = this.#samples.at(-1);
    if (newest === undefined || now - newest.at >= SAMPLE_MS) this.#samples.push(this.#last);
    while (this.#samples.length > 2 && now - (this.#samples[1]?.at ?? now) >= WINDOW_MS) this.#samples.shift();
  }

  get perSecond(): number {
    const first = this.#samples[0] ?? this.#last;
    const ms = this.#last.at - first.at;
    return ms <= 0 ? 0 : ((this.#last.done - first.done) * 1_000) / ms;
  }
}

function doubtOf({ why, differs = [] }: Extract<Outcome<unknown>, { readonly status: "unknown" }>): string {
  return differs.length === 0 ? why : `${why}; this input differs in ${differs.join(", ")}, and was not run`;
}
