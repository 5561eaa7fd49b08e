/** What an error says about the effect: the action's own word first, then the built-in rules. */
import { classify, type Verdict } from "../core/classify.ts";
import type { Definition } from "./definition.ts";

export function verdictOn(definition: Definition, error: unknown, now: number): Verdict {
  const own = ownVerdict(definition, error);
  if (own === "not-sent") return { kind: "not-sent", retryAfterMs: null, cause: error };
  if (own === "refused" || own === "rejected") return { kind: own, cause: error };
  if (own === "doubt") return { kind: "doubt", why: "the action calls this error doubt" };
  return classify(error, now);
}

/** A classify that throws has said nothing, and nothing certain is known. */
function ownVerdict({ classify: own }: Definition, error: unknown) {
  try {
    return own?.(error);
  } catch {
    return "doubt";
  }
}
