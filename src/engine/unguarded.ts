/** O10: the store is down, and this action would rather run unguarded than not at all. O15: but not twice in this process. */
import type { Outcome } from "../core/outcome.ts";
import type { LedgerRecord } from "../core/record.ts";
import { toStoredError } from "../core/stored-error.ts";
import { type LedgerEvent, transition } from "../core/transition.ts";
import type { Call } from "./call.ts";
import { stoppedByCheck } from "./check.ts";
import { contextOf, runAs } from "./context.ts";
import { withCause } from "./error-memory.ts";
import { about } from "./events.ts";
import type { ExecutionServices } from "./execution.ts";
import { runOrExists } from "./exists.ts";
import { intentOf } from "./make-call.ts";
import { DEFAULT_LIMITS } from "./payloads.ts";
import { requestsOf, watchRequests } from "./requests-seen.ts";
import { failureIn } from "./result-warnings.ts";
import { otherInputIfKnown } from "./same-input.ts";
import { verdictOn } from "./verdict.ts";

/** `requests`: that it made to others before it failed. `unsent`: it failed before the effect could begin. */
type Ended =
  | { readonly result: unknown }
  | { readonly error: unknown; readonly requests: number; readonly unsent: boolean };

/** `holder`: of the claim that got no answer. It may have been written all the same. */
export async function runUnguarded(services: ExecutionServices, call: Call, holder: string): Promise<Outcome<unknown>> {
  const { events, ledger, unguarded } = services;
  // A doubt that is run again is not asked about: it may have happened already.
  const isChecked = call.checking !== undefined && unguarded.recordOf(call.key)?.state !== "unknown";
  const stopped = isChecked ? await stoppedByCheck(services, call) : null;
  if (stopped !== null) return stopped;
  const record = claimed(services, call, unguarded.recordOf(call.key)?.holder ?? holder);
  unguarded.remember({ call, record, claimed: false });
  events.emit({ type: "bypassed", ...about(call) });
  const { outcome, event, value } = conclude(services, call, record, await effect(services, call, record));
  const change = transition(record, event, ledger.instant());
  if (outcome.status === "unknown")
    events.emit({ type: "unknown", ...about(call), attempt: outcome.attempt, why: outcome.why });
  unguarded.remember({ call, record: change.ok ? change.record : record, value, claimed: false });
  return outcome;
}

/** As the ledger would have it, so that what follows from it is decided by the same rules. */
function claimed({ ledger, payloads, unguarded }: ExecutionServices, call: Call, holder: string): LedgerRecord {
  const { leaseMs } = call.definition.policy;
  const before = unguarded.recordOf(call.key);
  const taking = { holder, leaseMs, newRound: true } as const;
  const otherInput = before !== null && otherInputIfKnown(call, before, ledger.instant()) !== null;
  const claim = { type: "claim", intent: intentOf(call, before, payloads), to: "sent", otherInput, ...taking } as const;
  const again = { type: "resend", permit: { because: "asked-for" }, ...taking } as const;
  const change = transition(before, before?.state === "unknown" ? again : claim, ledger.instant());
  if (change.ok) return change.record;
  throw new Error(`an intent that may not run again was run while the store was down: ${change.refusal}`);
}

async function effect(services: ExecutionServices, call: Call, { attempt }: LedgerRecord): Promise<Ended> {
  const { definition, key, tenant, input } = call;
  const pulse = { signal: new AbortController().signal, ended: false };
  const phase = { mayHaveLeft: !definition.manual && definition.prepare === undefined };
  const context = contextOf({
    attempt: { key, tenant, attempt, fence: 0 },
    deadline: services.ledger.instant().now + definition.policy.timeoutMs,
    log: services.logger,
    pulse,
    sent: async () => {
      phase.mayHaveLeft = true;
    },
    owner: services.underWay,
  });
  try {
    watchRequests();
    const { run, exists } = definition;
    const result = await runAs(context, async () => {
      const draft = definition.prepare ? await definition.prepare(input, context) : undefined;
      if (!definition.manual) phase.mayHaveLeft = true;
      return (exists === undefined ? run : runOrExists(run, exists))(input, context, draft);
    });
    const failure = failureIn(services.warnings, definition, result, context);
    return failure === null ? { result } : { error: failure, requests: requestsOf(context), unsent: false };
  } catch (error) {
    return { error, requests: requestsOf(context), unsent: !phase.mayHaveLeft };
  } finally {
    pulse.ended = true;
  }
}

interface Conclusion {
  readonly outcome: Outcome<unknown>;
  readonly event: LedgerEvent;
  readonly value?: unknown;
}

/** Nothing is recorded yet, so nothing is retried; but what surely did not happen is not called a doubt. */
function conclude(services: ExecutionServices, call: Call, record: LedgerRecord, ended: Ended): Conclusion {
  const { ledger, payloads } = services;
  const { definition, key, tenant } = call;
  const { attempt, fence } = record;
  const hold = { fence, holder: record.holder as string };
  const { now } = ledger.instant();
  if ("result" in ended) {
    const { result } = ended;
    const payload = payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence });
    const outcome = { status: "done", key, result, replayed: false, attempt, at: now } as const;
    return { outcome, event: { type: "confirm", hold, result: payload }, value: result };
  }
  const judged = verdictOn(definition, ended.error, services, ended.requests);
  const verdict = ended.unsent && judged.kind === "doubt" ? ({ kind: "refused", cause: ended.error } as const) : judged;
  if (verdict.kind !== "doubt") {
    const final = verdict.kind === "rejected";
    const error = toStoredError(verdict.cause);
    const outcome = { status: "failed", key, error: verdict.cause, final } as const;
    return { outcome, event: { type: "not-sent", hold, error, retryAt: null, final } };
  }
  const why = "it failed while the ledger was down";
  const outcome = withCause({ status: "unknown", key, since: now, attempt, why }, ended.error);
  return { outcome, event: { type: "doubt", hold, why, error: toStoredError(ended.error) } };
}
