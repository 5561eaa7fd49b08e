/** What a call tells the ledger when it claims its intent. */
import type { Stored } from "../core/store.ts";
import { type Call, intentOf } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
import type { EventSource } from "./ledger.ts";
import { differsFrom } from "./same-input.ts";

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
    // Another input got in between: its record is not ours to claim, and the next turn reports the conflict.
    if (current !== null && differsFrom(call, current, ledger.instant().now) !== null) return null;
    // Another try came in between: the next turn sees it, and its pause.
    if (call.paced && current !== null && (stored === null || current.fence !== stored.record.fence)) return null;
    const claim = {
      type: "claim",
      intent: intentOf(call, current, payloads),
      to: definition.manual || definition.prepare ? "claimed" : "sent",
      holder,
      leaseMs: definition.policy.leaseMs,
      newRound,
    } as const;
    if (call.resend === undefined && place === undefined) return claim;
    return { ...claim, ...call.resend, ...(place !== undefined && { place }) };
  };
}
