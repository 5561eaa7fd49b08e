/** What an error says about the effect: the action's own word first, then the built-in rules. */
import { classify, type Verdict } from "../core/classify.ts";
import { entryLabel, entryOf } from "../core/entry-name.ts";
import { doubtReason } from "../core/errors.ts";
import type { Instant } from "../core/record.ts";
import { isUniqueViolation } from "../core/sql-error.ts";
import { isUnclassified, unclassifiedWarning } from "../core/way-out.ts";
import { type Definition, isVerdict, notAVerdict } from "./definition.ts";
import type { Warnings } from "./events.ts";
import { ExistsFailed } from "./exists.ts";

interface VerdictServices {
  readonly ledger: { instant(): Instant };
  readonly warnings: Warnings;
}

/** `requests`: see classify. */
export function verdictOn(
  definition: Definition,
  error: unknown,
  { ledger, warnings }: VerdictServices,
  requests: number,
): Verdict {
  const own = ownVerdict(definition, error instanceof ExistsFailed ? error.violation : error);
  if (own === undefined || own === null) {
    warnOfViolation(definition, error, warnings);
    return builtIn(error, ledger.instant().now, isElsewhere(definition) ? null : requests);
  }
  const because = doubtReason(own);
  if (because !== undefined) return { kind: "doubt", why: because };
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

/** Nothing was written, but whether it had been before could not be found out: the next try asks again. */
function builtIn(error: unknown, now: number, requests: number | null): Verdict {
  if (!(error instanceof ExistsFailed)) return classify(error, now, requests);
  const verdict = classify(error.violation, now, requests);
  return verdict.kind === "doubt" ? verdict : { kind: "not-sent", retryAfterMs: null, cause: error };
}

/**
 * Whether a database that refused says nothing about the effect: a mail or a payment is not a row, unless `exists` says that it is; and
 * the effects of a job are those of the calls in it.
 */
function isElsewhere({ name, policy, exists }: Definition): boolean {
  const { kind } = entryOf(name);
  return kind === "job" || kind === "run" || (policy.effect !== null && exists === undefined);
}

function warnOfViolation(definition: Definition, error: unknown, warnings: Warnings): void {
  const { name, exists } = definition;
  if (exists !== undefined || isElsewhere(definition) || !isUniqueViolation(error)) return;
  warnings.warn(
    "ROW_EXISTS",
    name,
    `${entryLabel(name)}: the database refused a row because its unique key is there already. If that row means that the effect was had, say so: \`exists: (error, input) => result\` finds it and returns its result, and the intent is done. Without it the intent has failed, and every later call runs into the same row.`,
  );
}

/** A classify that throws has said nothing, and nothing certain is known. */
function ownVerdict({ classify: own }: Definition, error: unknown): unknown {
  try {
    return own?.(error);
  } catch {
    return "doubt";
  }
}

/** Once per kind of error, and only where a person has to settle it: whoever wrote the code knows what it means. */
export function warnOfUnclassified(warnings: Warnings, definition: Definition, why: string): void {
  const { name, policy, writtenAs } = definition;
  if (policy.doubt.kind !== "hold" || !isUnclassified(why)) return;
  warnings.warn("UNCLASSIFIED_ERROR", name, unclassifiedWarning(name, why, writtenAs, policy.doubt.forMs), why);
}
