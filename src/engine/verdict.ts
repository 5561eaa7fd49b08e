/** What an error says about the effect: the action's own word first, then the built-in rules. */
import { classify, type Verdict } from "../core/classify.ts";
import { doubtReason } from "../core/errors.ts";
import type { Instant } from "../core/record.ts";
import { type Definition, isVerdict, notAVerdict } from "./definition.ts";
import type { Warnings } from "./events.ts";

interface VerdictServices {
  readonly ledger: { instant(): Instant };
  readonly warnings: Warnings;
}

export function verdictOn(definition: Definition, error: unknown, { ledger, warnings }: VerdictServices): Verdict {
  const own = ownVerdict(definition, error);
  if (own === undefined || own === null) return classify(error, ledger.instant().now);
  if (!isVerdict(own)) {
    const { name } = definition;
    const what = notAVerdict(own);
    warnings.warn("CLASSIFY_ANSWER", name, `action ${name}: ${what}`);
    return { kind: "doubt", why: what };
  }
  if (own === "not-sent") return { kind: "not-sent", retryAfterMs: null, cause: error };
  if (own === "doubt")
    return { kind: "doubt", why: doubtReason(error) ?? "the action's classify leaves this error in doubt" };
  return { kind: own, cause: error };
}

/** A classify that throws has said nothing, and nothing certain is known. */
function ownVerdict({ classify: own }: Definition, error: unknown): unknown {
  try {
    return own?.(error);
  } catch {
    return "doubt";
  }
}
