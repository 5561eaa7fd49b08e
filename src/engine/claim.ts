/** What a call tells the ledger when it claims its intent. */
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
import type { EventSource } from "./ledger.ts";
import { intentOf } from "./make-call.ts";
import { otherInputIfKnown } from "./same-input.ts";

export interface Claiming {
  /** As this call saw it, and with it the place in its order at which its turn has come. */
  readonly stored: Stored | null;
  readonly newRound: boolean;
  readonly holder: string;
}

export function claimOf(
  { payloads, ledger }: Pick<ExecutionServices, "payloads" | "ledger">,
  call: Call,
  { stored, newRound, holder }: Claiming,
): EventSource {
  const place = stored?.record.terms?.place;
  const { definition } = call;
  return (current) => {
    const other = current === null ? null : otherInputIfKnown(call, current, ledger.instant());
    // Another input got in between, and its record is not to be corrected: the next turn reports what it is.
    if (other !== null && other.meets !== "new-round") return null;
    // Another try came in between: the next turn sees it, and its pause.
    if (call.paced && current !== null && (stored === null || current.fence !== stored.record.fence)) return null;
    const claim = {
      type: "claim",
      intent: intentOf(call, current, payloads),
      to: definition.manual || definition.prepare ? "claimed" : "sent",
      holder,
      leaseMs: definition.policy.leaseMs,
      newRound,
      ...(other !== null && { otherInput: true }),
    } as const;
    if (call.resend === undefined && place === undefined) return claim;
    return { ...claim, ...call.resend, ...(place !== undefined && { place }) };
  };
}
