/**
 * The guard every wrapper uses: one tool's handler, run once per intent. The intent key decides (scope, tool and declared
 * fields); a call id never does, because a model that plans again makes a new one for the same intent, and frameworks
 * run one id twice.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { prepareInput } from "../core/canonical.ts";
import { classify as classifyError } from "../core/classify.ts";
import { configError, isStoreUnavailable, messageOf, NevertwiceError } from "../core/errors.ts";
import { keyStandsFor } from "../core/key-definition.ts";
import type { KeyOption } from "../core/key-parts.ts";
import { errorForOutcome, type Outcome } from "../core/outcome.ts";
import { namedError, ReturnedError, returnedError } from "../core/returned-error.ts";
import { isUnclassified } from "../core/way-out.ts";
import type { Action } from "../engine/action.ts";
import { AT_ONCE, type AtOnceOptions, type CallOptions } from "../engine/call.ts";
import type { CheckContext } from "../engine/check.ts";
import { currentAttempt } from "../engine/context.ts";
import { type Formerly, runOfTool } from "../engine/definition.ts";
import { isRemembered } from "../engine/error-memory.ts";
import { requestsOf } from "../engine/requests-seen.ts";
import { leaveUnjudged } from "../engine/result-warnings.ts";
import { ControlFlow, isControlFlowError, isControlFlowResult, isGraphCommand } from "./control-flow.ts";
import { answerSoundsInterrupted, resultSoundsInterrupted } from "./interrupted.ts";
import { tellRefusal, tellReplay, tellResultNotKept, tellUnavailable } from "./tell.ts";
import { verdictOnThrown } from "./thrown.ts";
import {
  type AnyToolOptions,
  callerOf,
  checkGuarding,
  checkToolOptions,
  type ErrorMeaning,
  type Guarding,
  type GuardOptions,
  policyOf,
  type ToolOptions,
} from "./tool-options.ts";
import { toolResultId } from "./tool-result-id.ts";

/** The outcome of a call, for a wrapper to put into its framework's words. */
export type Answer<R> =
  /** note: what to say before the result of a repeat; null: this very call ran. */
  | { readonly kind: "result"; readonly result: R; readonly note: string | null }
  /** Not done, or not known, or done without a result to show. `result`: what the tool itself answered, where it did. */
  | {
      readonly kind: "refused";
      readonly text: string;
      /** Null: the ledger could not be asked. */
      readonly outcome: Outcome<unknown> | null;
      /** What the ledger said when it could not be asked: for operators, not for the model. */
      readonly error?: NevertwiceError | undefined;
      readonly result?: R | undefined;
    };

type Refused = Extract<Answer<unknown>, { readonly kind: "refused" }>;

/** A refusal for frameworks that take it as an exception: the model's words, and behind them what operators need. */
export function refusalError({ text, outcome, error }: Omit<Refused, "kind">, tool: string): NevertwiceError {
  if (outcome === null) return new NevertwiceError("STORE_UNAVAILABLE", text, { key: error?.key, cause: error });
  const { code } = errorForOutcome(outcome, tool);
  const cause = outcome.status === "failed" ? outcome.error : undefined;
  return new NevertwiceError(code, text, { key: outcome.key, outcome, cause });
}

/** How a framework's results are read and kept. */
export interface ResultCodec<R> {
  /** Whether the result says that the tool failed. */
  isError?(result: R): boolean;
  /** What an answer of the framework itself means, whatever `errors` says: one given before the tool began is "not-done". */
  meaning?(result: R): ErrorMeaning | undefined;
  /** What the tool said, for the model. */
  said?(result: R): string | undefined;
  /** A form that survives JSON, and back. */
  pack?(result: R): unknown;
  unpack?(stored: unknown): R;
}

export interface GuardedTool<I, X, R> {
  /** The result, of this call or of the first; throws a NevertwiceError that says what to tell the model otherwise. */
  (input: I, extra: X): Promise<R>;
  /** The same without throwing for an expected outcome. A failure of this very call is thrown as it came; a ledger that cannot be reached is an answer. */
  answer(input: I, extra: X): Promise<Answer<R>>;
  /** A result that came after its call was given up: evidence, which settles the doubt about that key. */
  settleLate(key: string, result: R): Promise<void>;
  readonly toolName: string;
}

export type GuardToolOptions<I, X, R> = ToolOptions<I, R> & GuardOptions<X> & { readonly name: string };

/** One call on its way through the engine; found again in `run` by its async context. */
interface Live {
  readonly handler: (input: unknown, extra: unknown) => unknown;
  readonly extra: unknown;
  readonly key: KeyOption<unknown> | undefined;
  readonly codec: ResultCodec<unknown>;
  readonly errors: ToolOptions<unknown>["errors"];
  readonly check: AnyToolOptions["check"];
  readonly classify: AnyToolOptions["classify"];
  /** The handler's own promise, once it has begun: it may outlive the attempt's timeout. */
  work: Promise<unknown> | null;
  /** The result as the handler gave it, before it was packed. */
  direct: { readonly value: unknown } | null;
}

const live = new AsyncLocalStorage<Live>();

/**
 * `guardTool(nt, { name: "send_mail", key: ["to"], errors: "not-done" }, handler)`. `errors: "not-done"` only for a tool whose
 * errors mean that nothing happened; without it, an error that no rule knows is a doubt, which a person has to settle.
 */
export function guardTool<I, X = undefined, R = unknown>(
  nt: Guarding,
  options: GuardToolOptions<I, X, R>,
  handler: (input: I, extra: X) => R | Promise<R>,
  codec: ResultCodec<Awaited<R>> = {},
): GuardedTool<I, X, Awaited<R>> {
  checkGuarding(nt, "guardTool");
  const { name } = options ?? {};
  if (typeof name !== "string" || name.trim() === "") {
    throw configError("guardTool: name is missing. Give the tool's name: it is part of every key.");
  }
  checkToolOptions(options, name, ["name"]);
  if (typeof handler !== "function") {
    throw configError(`guardTool(${JSON.stringify(name)}): the third argument must be the tool's handler.`);
  }
  // Made here, so that what is wrong with its options is told to who writes them, not to a model at the first call.
  if (!options.readOnly) actionFor(nt, options as unknown as GuardToolOptions<unknown, unknown, unknown>);
  const answer = async (input: I, extra: X): Promise<Answer<Awaited<R>>> => {
    if (options.readOnly) return { kind: "result", result: await handler(input, extra), note: null };
    const call = liveCall(options, handler, codec as ResultCodec<unknown>, extra);
    const action = actionFor(nt, options as unknown as GuardToolOptions<unknown, unknown, unknown>);
    const caller = callerOf(options, extra, name);
    if (await live.run(call, () => isThisVeryAttempt(action, input, caller))) {
      return { kind: "result", result: await handler(input, extra), note: null };
    }
    let outcome: Outcome<unknown>;
    try {
      // A model has better to do than to wait for the next try; where it is to be made here, `retry` says so.
      const asked: AtOnceOptions = options.retry === undefined ? { ...caller, [AT_ONCE]: true } : caller;
      outcome = await live.run(call, () => action.attempt(input, asked));
    } catch (error) {
      if (!isStoreUnavailable(error)) throw error;
      const text = tellUnavailable(error, name, call.work !== null);
      return { kind: "refused", text, outcome: null, error: error as NevertwiceError };
    }
    return (await answerOf(outcome, call, options)) as Answer<Awaited<R>>;
  };
  const run = async (input: I, extra: X): Promise<Awaited<R>> => {
    const given = await answer(input, extra);
    if (given.kind === "result") return given.result;
    throw refusalError(given, name);
  };
  const settleLate = async (key: string, result: Awaited<R>): Promise<void> => {
    const call = liveCall(options, handler, codec as ResultCodec<unknown>, undefined as X);
    if (isControlFlowResult(result) || errorMeaning(call, result) !== "answer") return;
    const action = actionFor(nt, options as unknown as GuardToolOptions<unknown, unknown, unknown>);
    await action.resolve({ key }, { as: "done", result: keep(call, result), ...LATE });
  };
  return Object.assign(run, { answer, settleLate, toolName: name });
}

/** A tool that was guarded twice would wait for itself: inside the attempt at its own intent, the inner guard lets it run. */
async function isThisVeryAttempt(
  action: Action<unknown, unknown>,
  input: unknown,
  whose: CallOptions,
): Promise<boolean> {
  const around = currentAttempt();
  return around !== undefined && around.key === (await action.keyOf(input, whose));
}

const LATE = { by: "nevertwice", reason: "its own answer came after the call had been given up" };

function liveCall<I, X, R>(
  options: GuardToolOptions<I, X, R>,
  handler: (input: I, extra: X) => unknown,
  codec: ResultCodec<unknown>,
  extra: X,
): Live {
  return {
    handler: handler as Live["handler"],
    extra,
    key: options.key as KeyOption<unknown> | undefined,
    codec,
    errors: options.errors as Live["errors"],
    check: options.check as Live["check"],
    classify: options.classify,
    work: null,
    direct: null,
  };
}

// ---- the action behind a tool --------------------------------------------------------------------------------------

interface Registered {
  readonly action: Action<unknown, unknown>;
  readonly fixed: string;
}

const registries = new WeakMap<Guarding, Map<string, Registered>>();

/**
 * Tools are often built anew for each request or session. An action is defined once per name; a second guard of the same
 * tool shares it, and each call brings its own handler along.
 */
function actionFor(nt: Guarding, options: GuardToolOptions<unknown, unknown, unknown>): Action<unknown, unknown> {
  const registry = registries.get(nt) ?? new Map<string, Registered>();
  registries.set(nt, registry);
  const name = options.action ?? options.name;
  const fixed = fixedOptions(options);
  const known = registry.get(name);
  if (known === undefined) {
    const action = defineToolAction(nt, name, options);
    registry.set(name, { action, fixed });
    return action;
  }
  if (known.fixed === fixed) return known.action;
  throw configError(
    `tool ${JSON.stringify(options.name)}: the action ${JSON.stringify(name)} is guarded already with other options. Two tools under one name would take each other for repeats: give one of them another \`action\`, or the same options.`,
  );
}

/** What an action cannot vary from call to call. Functions may be made anew for each guard, so only their presence counts. */
function fixedOptions({ key, free, formerly, doubt, check, ...options }: AnyToolOptions): string {
  const settle = typeof doubt === "object" ? { ...doubt, probe: doubt.probe !== undefined } : doubt;
  const present = (_name: string, value: unknown) => (typeof value === "function" ? true : value);
  return JSON.stringify([key, free, settle, policyOf({ ...options }), formerly, check !== undefined], present);
}

function defineToolAction(
  nt: Guarding,
  name: string,
  options: GuardToolOptions<unknown, unknown, unknown>,
): Action<unknown, unknown> {
  const { key = defaultKey(options.free ?? []), resultId, check } = options;
  return nt.action<unknown, unknown>(name, {
    ...policyOf(options),
    ...(options.free !== undefined && { free: options.free }),
    ...(options.formerly !== undefined && { formerly: options.formerly as Formerly<unknown> }),
    // The key function of this call's own guard; the sweeper, which makes no calls, uses the first.
    ...(typeof key === "function"
      ? {
          key: keyStandsFor(
            (input: unknown) => ((live.getStore()?.key ?? key) as (input: unknown) => readonly unknown[])(input),
            options.key === undefined ? { free: options.free ?? [] } : key,
          ),
        }
      : { key: key as readonly never[] }),
    // Likewise: the check of this call's own guard.
    ...(check !== undefined && {
      check: (input: unknown, context: CheckContext) => (live.getStore()?.check ?? check)(input, context),
    }),
    classify,
    resultId: resultId === undefined ? toolResultId : (kept: unknown) => resultId(kept),
    run: runOfTool(runLive),
  });
}

/** All arguments that are not free. A tool without any is one intent in its scope, where an action would be refused. */
function defaultKey(free: readonly string[]) {
  return (input: unknown): readonly unknown[] => {
    const part = input === undefined ? null : prepareInput(input, "input", free);
    const none = part === null || part === "" || (typeof part === "object" && Object.keys(part as object).length === 0);
    return [none ? "no arguments" : part];
  };
}

async function runLive(input: unknown): Promise<unknown> {
  const call = live.getStore();
  // The sweeper has no framework's context to hand to a handler: the next call of the tool goes on with it.
  if (call === undefined) throw new ControlFlow("thrown", new Error("a tool is only run by a call"));
  call.direct = null;
  // Outside of this call's context: a tool that calls a guarded tool of its own must not be taken for this one.
  const work = live.exit(async () => call.handler(input, call.extra));
  call.work = work;
  const value = await work.catch((error: unknown) => {
    throw isControlFlowError(error) ? new ControlFlow("thrown", error) : error;
  });
  return keep(call, value);
}

/** What the ledger keeps of a result; what must not be kept is thrown, for `classify` to read. */
function keep(call: Live, value: unknown): unknown {
  if (isControlFlowResult(value)) throw new ControlFlow("returned", value);
  const meaning = errorMeaning(call, value);
  if (meaning === "not-done") throw new ErrorResult(value, "refused");
  if (meaning === "doubt") throw new ErrorResult(value, saidBySomebody(call, value) ? "doubt" : undefined);
  const failure = call.errors === "answer" ? null : returnedError(value);
  if (failure instanceof ReturnedError) throw new ErrorResult(value, meaningOfReturned(failure, call));
  call.direct = { value };
  if (isGraphCommand(value)) return { [NOT_KEPT]: "it was an order to the graph" };
  const kept = call.codec.pack === undefined ? value : call.codec.pack(value);
  if (call.errors === undefined && call.codec.isError?.(value) !== true) leaveUnjudged(kept);
  return kept;
}

/** A client that returns its failures (supabase-js): they mean what they would mean had it thrown them. */
function meaningOfReturned(failure: ReturnedError, call: Live): "refused" | "doubt" | undefined {
  const said = verdictOnThrown(failure, call);
  if (said !== undefined) return said === "doubt" ? "doubt" : "refused";
  const verdict = classifyError(failure, 0, requestsOf(currentAttempt() ?? null));
  if (verdict.kind !== "doubt") return "refused";
  return isUnclassified(verdict.why) ? undefined : "doubt";
}

const NOT_KEPT = "nevertwice:not-kept";

function errorMeaning(call: Live, value: unknown): ErrorMeaning {
  const fixed = call.codec.meaning?.(value);
  if (fixed !== undefined) return fixed;
  const isKnown = call.codec.isError?.(value) === true;
  // An object that only names an error is one where the tool's options say what its errors mean.
  if (!isKnown && (call.errors === undefined || !isNamedError(value))) return "answer";
  const { errors = "doubt" } = call;
  if (typeof errors === "function") return (errors as (result: unknown) => ErrorMeaning)(value);
  const interrupted = isKnown ? resultSoundsInterrupted : answerSoundsInterrupted;
  return errors === "not-done" && interrupted(value) ? "doubt" : errors;
}

/** What a client is known to return for a failure is judged as if it had been thrown. */
function isNamedError(value: unknown): boolean {
  return namedError(value) !== null && !(returnedError(value) instanceof ReturnedError);
}

function saidBySomebody(call: Live, value: unknown): boolean {
  return call.errors !== undefined || call.codec.meaning?.(value) !== undefined;
}

class ErrorResult extends Error {
  override readonly name = "ErrorResult";
  readonly value: unknown;
  /** undefined: in doubt, because nobody said what the tool's errors mean. */
  readonly meaning: "refused" | "doubt" | undefined;

  constructor(value: unknown, meaning: "refused" | "doubt" | undefined) {
    super("the tool answered with an error");
    this.value = value;
    this.meaning = meaning;
  }
}

function classify(error: unknown) {
  if (error instanceof ControlFlow) return "refused";
  if (error instanceof ErrorResult) return error.meaning;
  const call = live.getStore();
  return call === undefined ? undefined : verdictOnThrown(error, call);
}

// ---- from outcome to answer ----------------------------------------------------------------------------------------

async function answerOf<I, X, R>(
  outcome: Outcome<unknown>,
  call: Live,
  options: GuardToolOptions<I, X, R>,
): Promise<Answer<unknown>> {
  const telling = { tool: options.name, statusTool: options.statusTool };
  if (outcome.status === "done") return doneAnswer(outcome, call, telling);
  if (outcome.status === "failed") {
    const { error } = outcome;
    if (error instanceof ControlFlow) return passThrough(error);
    if (error instanceof ErrorResult) return { kind: "result", result: error.value, note: null };
    const isOwn = !isRemembered(error);
    // With the time of the next try, where there is one: the error alone would not say it.
    if (isOwn && outcome.retryAt === undefined) throw error;
    return { kind: "refused", text: tellRefusal(outcome, telling), outcome };
  }
  if (outcome.status === "unknown" && call.work !== null) return lateAnswer(outcome, call, telling);
  return { kind: "refused", text: tellRefusal(outcome, telling), outcome };
}

type Telling = { readonly tool: string; readonly statusTool: string | undefined };
type Unknown = Extract<Outcome<unknown>, { readonly status: "unknown" }>;

function doneAnswer(
  outcome: Extract<Outcome<unknown>, { readonly status: "done" }>,
  call: Live,
  telling: Telling,
): Answer<unknown> {
  if (!outcome.replayed && call.direct !== null) return { kind: "result", result: call.direct.value, note: null };
  const stored = outcome.result as Record<string, unknown> | null | undefined;
  const lost =
    outcome.resultOmitted ?? (typeof stored === "object" ? (stored?.[NOT_KEPT] as string | undefined) : undefined);
  if (lost !== undefined) return { kind: "refused", text: tellResultNotKept(outcome, lost, telling), outcome };
  const result = call.codec.unpack === undefined ? outcome.result : call.codec.unpack(outcome.result);
  return { kind: "result", result, note: tellReplay(outcome, telling) };
}

function passThrough({ how, value }: ControlFlow): Answer<unknown> {
  if (how === "thrown") throw value;
  return { kind: "result", result: value, note: null };
}

/**
 * The attempt is over for the ledger, so that others hear of the doubt; the handler may still be at work. Whoever made
 * the call waits for it, as without the guard, and its late answer is evidence that confirms the record.
 */
async function lateAnswer(outcome: Unknown, call: Live, telling: Telling): Promise<Answer<unknown>> {
  const { said } = call.codec;
  let failure: { readonly said: string | undefined; readonly result?: unknown };
  try {
    const value = await call.work;
    if (errorMeaning(call, value) === "answer") return { kind: "result", result: value, note: null };
    failure = { said: said?.(value), result: value };
  } catch (error) {
    if (isControlFlowError(error)) throw error;
    failure = { said: messageOf(error) };
  }
  return {
    kind: "refused",
    text: tellRefusal(outcome, { ...telling, said: failure.said }),
    outcome,
    result: failure.result,
  };
}
