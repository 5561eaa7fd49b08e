/** From the outcome of a guarded call to what its caller gets. */
import { messageOf, NevertwiceError } from "../../core/errors.ts";
import { errorForOutcome, type Outcome } from "../../core/outcome.ts";
import { isRemembered } from "../../engine/error-memory.ts";
import { settledLate } from "../../engine/late-settling.ts";
import {
  type Telling as AnyTelling,
  tellErrorReplay,
  tellRefusal,
  tellReplay,
  tellResultNotKept,
} from "../messages.ts";
import { ControlFlow, isControlFlowError } from "./control-flow.ts";
import { ErrorResult, errorMeaning, failureIn, isErrorAnswer, type Live, NOT_KEPT } from "./result.ts";

/** For a transport that can tell whether an answer has arrived. */
export interface Receipt {
  readonly key: string;
  /** Of the attempt whose answer it is. Null: the caller has been put off, and the answer is still owed to it. */
  readonly fence: number | null;
  /** The answer of an earlier call, or of one that was under way. */
  readonly isRepeat: boolean;
  /** It has arrived at everybody who asked: the same call is a new one from now on. */
  arrived(): void;
  /** It had not arrived after all. False: it is too late to say so. */
  takeBack(): boolean;
}

/**
 * The outcome of a call, for a wrapper to put into its framework's words. `receipt`: where the tool is guarded until its answer
 * has arrived.
 */
export type Answer<R> =
  /** note: what to say before the result of a repeat; null: this very call ran. */
  | { readonly kind: "result"; readonly result: R; readonly note: string | null; readonly receipt?: Receipt }
  /** Not done, or not known, or done without a result to show. `result`: what the tool itself answered, where it did. */
  | {
      readonly kind: "refused";
      readonly text: string;
      /** Null: the ledger could not be asked. */
      readonly outcome: Outcome<unknown> | null;
      /** What the ledger said when it could not be asked: for operators, not for the model. */
      readonly error?: NevertwiceError | undefined;
      readonly result?: R | undefined;
      readonly receipt?: Receipt;
    };

type Refused = Extract<Answer<unknown>, { readonly kind: "refused" }>;

/** A refusal for frameworks that take it as an exception: the model's words, and behind them what operators need. */
export function refusalError({ text, outcome, error }: Omit<Refused, "kind">, tool: string): NevertwiceError {
  if (outcome === null) return new NevertwiceError("STORE_UNAVAILABLE", text, { key: error?.key, cause: error });
  const { code } = errorForOutcome(outcome, tool);
  const cause = outcome.status === "failed" ? outcome.error : undefined;
  return new NevertwiceError(code, text, { key: outcome.key, outcome, cause });
}

export async function answerOf(outcome: Outcome<unknown>, call: Live, telling: Telling): Promise<Answer<unknown>> {
  if (outcome.status === "done") return doneAnswer(outcome, call, telling);
  if (outcome.status === "failed") {
    const { error } = outcome;
    if (error instanceof ControlFlow) return passThrough(error);
    if (error instanceof ErrorResult) return { kind: "result", result: error.value, note: null };
    const isOwn = !isRemembered(error);
    // With the time of the next try, where there is one: the error alone would not say it.
    if (isOwn && outcome.retryAt === undefined && call.codec.tellsFailures !== true) throw error;
    return { kind: "refused", text: tellRefusal(outcome, telling), outcome };
  }
  if (outcome.status === "unknown" && call.work !== null) return lateAnswer(outcome, call, telling);
  return { kind: "refused", text: tellRefusal(outcome, telling), outcome };
}

type Telling = Pick<AnyTelling, "tool" | "statusTool" | "onceMoreTool" | "heldForMs">;
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
  const kept = ownCopy(outcome.result);
  const result = call.codec.unpack === undefined ? kept : call.codec.unpack(kept);
  const wasError = isErrorAnswer(call, result) || call.codec.isKeptError?.(kept) === true;
  return { kind: "result", result, note: (wasError ? tellErrorReplay : tellReplay)(outcome, telling) };
}

/**
 * As a later repeat reads it from the ledger. A call that waited for another one of this process is handed that one's own
 * object, and what a wrapper notes or a program changes on it must not reach the call that ran.
 */
function ownCopy(result: unknown): unknown {
  if (typeof result !== "object" || result === null) return result;
  try {
    return JSON.parse(JSON.stringify(result));
  } catch {
    return result;
  }
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
    const returned = call.errors === "answer" ? null : failureIn(call, value);
    if (returned === null && errorMeaning(call, value) === "answer") {
      await settledLate(call.attempt);
      return { kind: "result", result: value, note: null };
    }
    failure = { said: returned?.message ?? said?.(value), result: value };
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
