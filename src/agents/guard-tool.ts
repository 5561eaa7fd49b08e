/**
 * The guard every wrapper uses: one tool's handler, run once per intent. The intent key decides (scope, tool and declared
 * fields); a call id never does, because a model that plans again makes a new one for the same intent, and frameworks
 * run one id twice.
 */

import { createHash } from "node:crypto";
import { durationMs } from "../core/duration.ts";
import { configError, isStoreUnavailable, type NevertwiceError } from "../core/errors.ts";
import { canonicalInput } from "../core/key/canonical.ts";
import type { KeyOption } from "../core/key/parts.ts";
import type { Outcome } from "../core/outcome.ts";
import { warningsOf } from "../engine/action-warnings.ts";
import { AT_ONCE, type AtOnceOptions } from "../engine/call.ts";
import type { AttemptContext } from "../engine/context.ts";
import { OF_FENCE, type Resolution } from "../engine/operate.ts";
import { tellUnavailable } from "./messages.ts";
import { OBSERVE_ONLY, observed, saidObserving } from "./observe.ts";
import { actionFor, type GuardToolOptions, isThisVeryAttempt, live, ofTool, turnsOf } from "./tool/action.ts";
import { type Answer, answerOf, refusalError } from "./tool/answer.ts";
import { isControlFlowResult } from "./tool/control-flow.ts";
import { requireKeyOf } from "./tool/fields.ts";
import { callerOf, checkGuarding, checkToolOptions, type Guarding, requireScope } from "./tool/options.ts";
import { withReceipt } from "./tool/receipt.ts";
import { errorMeaning, keep, type Live, type ResultCodec } from "./tool/result.ts";
import { warnOfNewSession } from "./tool/session-money.ts";
import { repeatsOf } from "./tool/turns.ts";

export type { GuardToolOptions } from "./tool/action.ts";
export { type Answer, refusalError } from "./tool/answer.ts";
export type { ResultCodec } from "./tool/result.ts";

/** An attempt, as `currentAttempt()` names it. */
export type AttemptOf = Pick<AttemptContext, "key" | "fence">;

export interface GuardedTool<I, X, R> {
  /** The result, of this call or of the first; throws a NevertwiceError that says what to tell the model otherwise. */
  (input: I, extra: X): Promise<R>;
  /** The same without throwing for an expected outcome. A failure of this very call is thrown as it came; a ledger that cannot be reached is an answer. */
  answer(input: I, extra: X): Promise<Answer<R>>;
  /** A result that came after its call was given up: evidence of that attempt's success. */
  settleLate(of: AttemptOf, result: R): Promise<void>;
  readonly toolName: string;
}

/**
 * `guardTool(nt, { name: "send_mail", key: ["to"], scope: (call) => call.userId, errors: "not-done" }, handler)`. The handler's
 * second argument is what `scope` gets. `errors: "not-done"` only for a tool whose errors mean that nothing happened; without
 * it, an error that no rule knows is a doubt, which a person has to settle.
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
  checkToolOptions(options, name, ["name", "waits"]);
  const { turn } = options;
  const repeats = repeatsOf(options.repeats, `tool ${JSON.stringify(name)}`);
  if (repeats !== null && turn === undefined)
    throw configError(
      `tool ${JSON.stringify(name)}: repeats counts the identical calls of one turn, and nothing says here which turn a call belongs to. Give turn: (call) => ({ call, turn }), the id of the call and that of its turn.`,
    );
  if (typeof handler !== "function") {
    throw configError(`guardTool(${JSON.stringify(name)}): the third argument must be the tool's handler.`);
  }
  const actionOf = () => actionFor(nt, options as unknown as GuardToolOptions<unknown, unknown, unknown>);
  const { statusTool, onceMoreTool, doubt } = options;
  const heldFor = typeof doubt === "object" ? doubt.holdFor : undefined;
  const heldForMs =
    heldFor === undefined ? undefined : durationMs(heldFor, `tool ${JSON.stringify(name)}: doubt.holdFor`);
  const telling = { tool: name, statusTool, onceMoreTool, heldForMs };
  requireScope(options, `guardTool(${JSON.stringify(name)})`);
  const observes = options.mode === "observe";
  // Made here, so that what is wrong with its options is told to who writes them, not to a model at the first call.
  if (!options.readOnly) {
    const action = actionOf();
    if (observes && !saidObserving(nt)) warningsOf(action)?.warn("OBSERVE_ONLY", `tool ${name}: ${OBSERVE_ONLY}`);
  }
  const answer = async (input: I, extra: X): Promise<Answer<Awaited<R>>> => {
    if (options.readOnly) return { kind: "result", result: await handler(input, extra), note: null };
    const call = liveCall(options, handler, codec as ResultCodec<unknown>, extra);
    try {
      return await answering(call, input, extra);
    } finally {
      call.slot.leave?.();
      call.endsTurn?.();
    }
  };
  const answering = async (call: Live, input: I, extra: X): Promise<Answer<Awaited<R>>> => {
    const action = actionOf();
    const whose = async () => {
      requireKeyOf(input, options, name);
      const caller = callerOf(options, extra, name);
      warnOfNewSession(action, options, caller);
      call.base = () => live.run(call, () => action.keyOf(input, caller));
      if (await live.run(call, () => isThisVeryAttempt(action, input, caller))) return null;
      const of = repeats === null ? undefined : turn?.(extra);
      if (repeats === null || of === undefined) return caller;
      const sameOf = async (args: unknown) =>
        `${await live.run(call, () => action.keyOf(args, caller))} ${guardedText(args, options.free)}`;
      const { ordinal, leave } = await turnsOf(nt, options).of(of, await sameOf(input), repeats, name, sameOf);
      Object.assign(call, { ordinal, endsTurn: leave });
      return caller;
    };
    if (observes) return (await observed(action, call, input, whose)) as Answer<Awaited<R>>;
    const caller = await whose();
    if (caller === null) return { kind: "result", result: await handler(input, extra), note: null };
    let outcome: Outcome<unknown>;
    try {
      // A model has better to do than to wait for the next try; where it is to be made here, `retry` says so.
      const wait = options.waits?.(extra);
      const asked: AtOnceOptions = {
        ...caller,
        ...(wait !== undefined && { wait }),
        ...(options.retry === undefined && { [AT_ONCE]: true }),
      };
      outcome = await live.run(call, () => action.attempt(input, ofTool(call, asked)));
    } catch (error) {
      if (!isStoreUnavailable(error)) throw error;
      const text = tellUnavailable(error, name, call.work !== null);
      return { kind: "refused", text, outcome: null, error: error as NevertwiceError };
    }
    const given = await answerOf(outcome, call, telling);
    return withReceipt(given, outcome, call, action) as Answer<Awaited<R>>;
  };
  const run = async (input: I, extra: X): Promise<Awaited<R>> => {
    const given = await answer(input, extra);
    if (given.kind === "result") return given.result;
    throw refusalError(given, name);
  };
  const settleLate = async ({ key, fence }: AttemptOf, result: Awaited<R>): Promise<void> => {
    const call = liveCall(options, handler, codec as ResultCodec<unknown>, undefined as X);
    if (isControlFlowResult(result) || errorMeaning(call, result) !== "answer") return;
    const action = actionOf();
    const told: Resolution<unknown> = { as: "done", result: keep(call, result), ...LATE };
    await action.resolve({ key }, { ...told, [OF_FENCE]: fence } as typeof told);
  };
  return Object.assign(run, { answer, settleLate, toolName: name });
}

/** Another amount under the same key is no repeat, but in conflict with the first. */
function guardedText(args: unknown, free: readonly string[] = []): string {
  const text = args === undefined ? "" : canonicalInput(args, "input", free);
  return createHash("sha256").update(text).digest("base64url");
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
    limit: options.limit as Live["limit"],
    slot: {},
    ordinal: 1,
    endsTurn: undefined,
    base: null,
    work: null,
    attempt: null,
    fence: null,
    direct: null,
    stopped: null,
  };
}
