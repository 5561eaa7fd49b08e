/**
 * A tool that records instead of doing: the model has its answer at once, and what becomes of the outside call does not
 * touch it. A worker runs the action later, without the agent's process or its framework: so it is an action that is
 * handed over here, not a handler.
 */

import { checkAgent } from "../core/agent-name.ts";
import { effectOf } from "../core/effect.ts";
import { configError, isNevertwiceError, isStoreUnavailable, noSuchOption } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { State } from "../core/record.ts";
import type { Action } from "../engine/action.ts";
import type { Enqueued, EnqueueOptions } from "../engine/enqueue.ts";
import {
  isErrorAnswer,
  tellAccepted,
  tellErrorReplay,
  tellNotRecorded,
  tellRefusal,
  tellReplay,
  tellResultNotKept,
} from "./messages.ts";
import { callerOf, type GuardOptions, requireScope, requireWhose } from "./tool/options.ts";

type Terms = Omit<EnqueueOptions, "scope" | "tenant" | "agent">;

export interface QueuedToolOptions<I, X> extends Omit<GuardOptions<X>, "mode" | "onceMoreTool" | "turn"> {
  /** The tool's name as the model knows it; the action's unless given. */
  readonly name?: string;
  /** When and in which order it is run, and in which transaction it is recorded: the options of `action.enqueue`. */
  readonly enqueue?: Terms | ((input: I, extra: X) => Terms);
}

/** What was recorded, and what the model is told of it. */
export interface QueuedAnswer<R> {
  readonly text: string;
  readonly key: string;
  /** Whether this very call recorded it. */
  readonly created: boolean;
  /** conflict: the same intent is recorded with other values, and nothing was; unknown, the same in doubt. unavailable: the ledger did not answer. */
  readonly state: State | "conflict" | "unavailable";
  /** What it came to, once it is done. */
  readonly result?: R;
}

export interface QueuedTool<I, X, R> {
  /** The text for the model: any framework takes it as a tool's result. */
  (input: I, extra: X): Promise<string>;
  answer(input: I, extra: X): Promise<QueuedAnswer<R>>;
  readonly toolName: string;
}

const OPTIONS = ["name", "enqueue", "scope", "tenant", "agent", "statusTool"];

export function queuedTool<I, R, X = unknown>(
  action: Action<I, R>,
  options: QueuedToolOptions<I, X> = {},
): QueuedTool<I, X, R> {
  if (typeof action?.enqueue !== "function") {
    throw configError("queuedTool: the first argument must be an action, as nt.action() returns it: a worker runs it.");
  }
  const wrong = Object.keys(options).find((option) => !OPTIONS.includes(option));
  if (wrong !== undefined) {
    throw noSuchOption("queuedTool", wrong, OPTIONS);
  }
  const where = `queuedTool(${JSON.stringify(action.actionName)})`;
  requireWhose({ ...options, effect: effectOf(action) }, where);
  if (options.agent !== undefined && typeof options.agent !== "function") checkAgent(options.agent, "queuedTool");
  requireScope(options, where);
  const { name = action.actionName, statusTool } = options;
  const telling = { tool: name, statusTool };
  const answer = async (input: I, extra: X): Promise<QueuedAnswer<R>> => {
    const { enqueue: terms = {} } = options;
    const given = typeof terms === "function" ? terms(input, extra) : terms;
    try {
      const recorded = await action.enqueue(input, { ...given, ...callerOf(options, extra, name) });
      return { ...recorded, text: await tell(action, recorded, telling) };
    } catch (error) {
      const outcome = isNevertwiceError(error) ? (error.outcome as Outcome<unknown> | undefined) : undefined;
      if (isStoreUnavailable(error)) {
        const key = await action.keyOf(input, callerOf(options, extra, name));
        return { key, created: false, state: "unavailable", text: tellNotRecorded(name) };
      }
      if (outcome?.status !== "conflict" && outcome?.status !== "unknown") throw error;
      return { key: outcome.key, created: false, state: outcome.status, text: tellRefusal(outcome, telling) };
    }
  };
  const run = async (input: I, extra: X) => (await answer(input, extra)).text;
  return Object.assign(run, { answer, toolName: name });
}

async function tell<I, R>(
  action: Action<I, R>,
  { key, created, result }: Enqueued<R>,
  telling: { readonly tool: string; readonly statusTool: string | undefined },
): Promise<string> {
  // One that is recorded in an open transaction is not yet there to be looked at.
  const outcome = created ? null : await action.status({ key });
  if (outcome === null || outcome.status === "absent") return tellAccepted(key, telling);
  if (outcome.status !== "done") return tellRefusal(outcome, telling);
  if (outcome.resultOmitted !== undefined) return tellResultNotKept(outcome, outcome.resultOmitted, telling);
  const shown = typeof result === "string" ? result : JSON.stringify(result ?? null);
  return `${(isErrorAnswer(result) ? tellErrorReplay : tellReplay)(outcome, telling)}\n${shown}`;
}
