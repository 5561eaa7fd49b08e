/** Whose answer a caller gets, for a transport that can tell whether it has arrived. */
import type { Outcome } from "../../core/outcome.ts";
import { type Delivered, deliveredOf, fenceOf } from "../../engine/delivered.ts";
import type { Answer, Receipt } from "./answer.ts";
import type { Live } from "./result.ts";

/** The answer with its receipt, where the action is guarded until then. */
export function withReceipt(
  given: Answer<unknown>,
  outcome: Outcome<unknown>,
  call: Live,
  action: object,
): Answer<unknown> {
  const delivered = deliveredOf(action);
  return delivered === undefined ? given : { ...given, receipt: receiptOf(given, outcome, call, delivered) };
}

function receiptOf(given: Answer<unknown>, outcome: Outcome<unknown>, call: Live, delivered: Delivered): Receipt {
  const { key } = outcome;
  const isAnswer = given.kind === "result" || outcome.status === "done";
  const fence = isAnswer ? (call.fence ?? fenceOf(outcome)) : null;
  return {
    key,
    fence,
    isRepeat: call.fence === null,
    arrived: () => fence !== null && delivered.add(key, fence),
    takeBack: () => fence !== null && delivered.takeBack(key, fence),
  };
}
