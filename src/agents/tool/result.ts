/** What a tool's result or error means, and what the ledger keeps of it. */
import { classify as classifyError } from "../../core/classify.ts";
import { messageOf } from "../../core/errors.ts";
import type { KeyOption } from "../../core/key/parts.ts";
import { namedError, ReturnedError, returnedError, unwrapped } from "../../core/returned-error.ts";
import { isUnclassified } from "../../core/way-out.ts";
import type { Slot } from "../../engine/call.ts";
import { currentAttempt } from "../../engine/context.ts";
import { requestsOf } from "../../engine/requests-seen.ts";
import { leaveUnjudged } from "../../engine/result-warnings.ts";
import { ControlFlow, isControlFlowResult, isGraphCommand } from "./control-flow.ts";
import { answerSoundsInterrupted, resultSoundsInterrupted } from "./interrupted.ts";
import { type AnyToolOptions, type ErrorMeaning, isErrorMeaning, type ToolOptions } from "./options.ts";
import { verdictOnThrown } from "./thrown.ts";

/** How a framework's results are read and kept. */
export interface ResultCodec<R> {
  /** Whether the result says that the tool failed; undefined: only the tool's own `errors` can tell. */
  isError?(result: R): boolean | undefined;
  /** The same of a result as it was kept, where that cannot be seen once it is unpacked. */
  isKeptError?(stored: unknown): boolean;
  /** What an answer of the framework itself means, whatever `errors` says: one given before the tool began is "not-done". */
  meaning?(result: R): ErrorMeaning | undefined;
  /** What the tool said, for the model. */
  said?(result: R): string | undefined;
  /** What stands for the result where its own form hides what it says. */
  says?(result: R): unknown;
  /** A failure of this very call is told like one before it, and not thrown. */
  readonly tellsFailures?: true;
  /** A form that survives JSON, and back. */
  pack?(result: R): unknown;
  unpack?(stored: unknown): R;
}

/** One call on its way through the engine; found again in `run` by its async context. */
export interface Live {
  readonly handler: (input: unknown, extra: unknown) => unknown;
  readonly extra: unknown;
  readonly key: KeyOption<unknown> | undefined;
  readonly codec: ResultCodec<unknown>;
  readonly errors: ToolOptions<unknown>["errors"];
  readonly check: AnyToolOptions["check"];
  readonly classify: AnyToolOptions["classify"];
  readonly limit: AnyToolOptions["limit"];
  /** Which of the identical calls of its turn it is. */
  ordinal: number;
  endsTurn: (() => void) | undefined;
  /** Its place under the limit, if it has one. */
  readonly slot: Slot;
  /** The key of its intent as a first call has it, whichever version is being run. */
  base: (() => Promise<string>) | null;
  /** The handler's own promise, once it has begun: it may outlive the attempt's timeout. */
  work: Promise<unknown> | null;
  /** In which it runs. */
  attempt: object | null;
  /** Of the attempt that ran it, once it has begun; null: this call did not run it. */
  fence: number | null;
  /** The result as the handler gave it, before it was packed. */
  direct: { readonly value: unknown } | null;
  /** What the tool's own check threw. */
  stopped: { readonly error: unknown } | null;
}

/** What the ledger keeps of a result; what must not be kept is thrown, for `classify` to read. */
export function keep(call: Live, value: unknown): unknown {
  if (isControlFlowResult(value)) throw new ControlFlow("returned", value);
  const { meaning, misjudged } = judged(call, value);
  if (meaning === "not-done") throw new ErrorResult(value, "refused");
  if (meaning === "doubt") throw new ErrorResult(value, saidBySomebody(call, value) ? "doubt" : undefined, misjudged);
  const failure = failureIn(call, value);
  if (failure !== null && call.errors !== "answer") throw new ErrorResult(value, meaningOfReturned(failure, call));
  call.direct = { value };
  if (isGraphCommand(value)) return { [NOT_KEPT]: "it was an order to the graph" };
  // JSON has nothing of an Error.
  const kept = isError(value) ? { error: messageOf(value) } : (call.codec.pack?.(value) ?? value);
  if (call.errors === undefined && call.codec.isError?.(value) !== true) leaveUnjudged(currentAttempt());
  return kept;
}

/** What a result says, whatever its wrapping. */
function saidIn({ codec }: Pick<Live, "codec">, value: unknown): unknown {
  return unwrapped(codec.says?.(value) ?? value);
}

/** What the tool returned in place of throwing it: an Error, or what a client is known to return for a failure. */
export function failureIn(call: Pick<Live, "codec">, value: unknown): Error | null {
  const said = saidIn(call, value);
  if (isError(said)) return said;
  const returned = returnedError(said);
  return returned instanceof ReturnedError ? returned : null;
}

function isError(value: unknown): value is Error {
  return value instanceof Error || Object.prototype.toString.call(value) === "[object Error]";
}

/** A tool or a client that returns its failures (supabase-js): they mean what they would mean had it thrown them. */
function meaningOfReturned(failure: Error, call: Live): "refused" | "doubt" | undefined {
  const said = verdictOnThrown(failure, call);
  if (said !== undefined) return said === "doubt" ? "doubt" : "refused";
  const verdict = classifyError(failure, 0, requestsOf(currentAttempt() ?? null));
  if (verdict.kind !== "doubt") return "refused";
  return isUnclassified(verdict.why) ? undefined : "doubt";
}

export const NOT_KEPT = "nevertwice:not-kept";

export function errorMeaning(call: Live, value: unknown): ErrorMeaning {
  return judged(call, value).meaning;
}

/** `misjudged`: what the tool's own `errors` did instead of saying one of its words; it counts as doubt, and is reported. */
interface Judged {
  readonly meaning: ErrorMeaning;
  readonly misjudged?: string;
}

function judged(call: Live, value: unknown): Judged {
  const fixed = call.codec.meaning?.(value);
  if (fixed !== undefined) return understood(fixed);
  const said = call.codec.isError?.(value);
  const { errors = "doubt" } = call;
  const ask = errors as (result: unknown) => unknown;
  // An object that only names an error is one where the tool's options say what its errors mean.
  if (said !== true && (call.errors === undefined || !isNamedError(call, value))) {
    // Where the framework has no word for a failed result, a function is asked about each of them.
    const isAsked = said === undefined && typeof errors === "function" && failureIn(call, value) === null;
    return isAsked ? asked(ask, value, "answer") : { meaning: "answer" };
  }
  if (typeof errors === "function") return asked(ask, value, "doubt");
  if (errors !== "not-done") return { meaning: errors };
  const interrupted = said === true ? resultSoundsInterrupted(value) : answerSoundsInterrupted(saidIn(call, value));
  return { meaning: interrupted ? "doubt" : errors };
}

/** `unsaid`: what holds where it says nothing. */
function asked(errors: (result: unknown) => unknown, value: unknown, unsaid: ErrorMeaning): Judged {
  try {
    return understood(errors(value) ?? unsaid);
  } catch (error) {
    return misjudged(`threw ${nameOf(error)}`);
  }
}

/** Taken for a good answer, what cannot be understood would be called done. */
function understood(word: unknown): Judged {
  if (isErrorMeaning(word)) return { meaning: word };
  return misjudged(
    `answered ${typeof word === "string" ? JSON.stringify(word.slice(0, 40)) : `a value of type ${typeof word}`}`,
  );
}

function misjudged(what: string): Judged {
  return {
    meaning: "doubt",
    misjudged: `its option errors ${what}: it answers "doubt", "not-done" or "answer", for a good result "answer". Anything else counts as "doubt"`,
  };
}

function nameOf(error: unknown): string {
  return error instanceof Error ? `a ${error.constructor.name}` : `a ${typeof error}`;
}

/** A result that names an error, and is none that is judged as if it had been thrown. */
function isNamedError(call: Live, value: unknown): boolean {
  return namedError(saidIn(call, value)) !== null && failureIn(call, value) === null;
}

/** A result that says that the tool failed, whatever `errors` makes of it. */
export function isErrorAnswer(call: Live, result: unknown): boolean {
  const { isError: told } = call.codec;
  return told?.(result) === true || namedError(saidIn(call, result)) !== null || failureIn(call, result) !== null;
}

function saidBySomebody(call: Live, value: unknown): boolean {
  return call.errors !== undefined || call.codec.meaning?.(value) !== undefined;
}

export class ErrorResult extends Error {
  override readonly name = "ErrorResult";
  readonly value: unknown;
  /** undefined: in doubt, because nobody said what the tool's errors mean. */
  readonly meaning: "refused" | "doubt" | undefined;
  readonly misjudged: string | undefined;

  constructor(value: unknown, meaning: "refused" | "doubt" | undefined, misjudged?: string) {
    super("the tool answered with an error");
    this.value = value;
    this.meaning = meaning;
    this.misjudged = misjudged;
  }
}
