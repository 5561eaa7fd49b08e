/** mode: "observe": every call runs, and the ledger records what would have been prevented. Nothing that a model reads changes. */
import { messageOf } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Action } from "../engine/action.ts";
import { warningsOf } from "../engine/action-warnings.ts";
import { AT_ONCE, type AtOnceOptions, type CallOptions } from "../engine/call.ts";
import { live, ofTool } from "./tool/action.ts";
import type { Answer } from "./tool/answer.ts";
import type { Guarding } from "./tool/options.ts";
import { withReceipt } from "./tool/receipt.ts";
import type { Live } from "./tool/result.ts";

export const OBSERVE_ONLY =
  'mode is "observe": every call runs, repeats too. The ledger records what would have been prevented (nevertwice prevented). To guard, leave mode out.';

const said = new WeakSet<Guarding>();

/** Whether it was said before that nothing is prevented; from now on it was. */
export function saidObserving(nt: Guarding): boolean {
  if (said.has(nt)) return true;
  said.add(nt);
  return false;
}

/** `caller`: whose call it is; null: an attempt at this very intent is what it is made in. */
export async function observed(
  action: Action<unknown, unknown>,
  call: Live,
  input: unknown,
  caller: () => Promise<CallOptions | null>,
): Promise<Answer<unknown>> {
  let outcome: Outcome<unknown> | null = null;
  try {
    const whose = await caller();
    // The answer is not waited for, and a failed try is not made again: without the guard it would not be either.
    const asked: AtOnceOptions = { ...whose, wait: 0, [AT_ONCE]: true };
    if (whose !== null) outcome = await live.run(call, () => action.attempt(input, ofTool(call, asked, true)));
  } catch (error) {
    if (call.work === null)
      warningsOf(action)?.warn(
        "OBSERVE_UNRECORDED",
        `tool ${action.actionName}: a call was run and not recorded, under mode: "observe". A guarded call would have been refused: ${messageOf(error)}`,
      );
  }
  // The tool's own word is no part of what the ledger would have answered.
  if (call.stopped !== null) throw call.stopped.error;
  // As it came, whatever the ledger made of it.
  const result = call.work === null ? await call.handler(input, call.extra) : await call.work;
  const given = { kind: "result", result, note: null } as const;
  // One that ran beside another has an answer of its own, and is owed none of that other's.
  const isBeside = call.fence === null && outcome?.status !== "done";
  return outcome === null || isBeside ? given : withReceipt(given, outcome, call, action);
}
