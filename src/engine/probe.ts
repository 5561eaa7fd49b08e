/** Asking the provider whether an attempt in doubt happened. A probe that lags, throws or gives another answer settles nothing (F27). */
import { configError } from "../core/errors.ts";
import { NO_RESULT, RESULT_NOT_GIVEN } from "../core/kept-result.ts";
import { providerKey } from "../core/key/provider-key.ts";
import type { LedgerRecord, Payload } from "../core/record.ts";
import { hasTriesLeft } from "../core/retry.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";
import { probeAs } from "./context.ts";
import type { ProbeContext } from "./definition.ts";
import { by } from "./events.ts";
import type { ExecutionServices } from "./execution.ts";
import type { Applied } from "./ledger.ts";
import { type Bound, DEFAULT_LIMITS, type Payloads } from "./payloads.ts";

export type SettledAnswer =
  /** Without a result where the probe gave none. */
  { readonly as: "done"; readonly result?: unknown } | { readonly as: "not-done" } | { readonly as: "unknown" };

const LONGEST_PROBE_MS = 30_000;

interface Probing {
  readonly quietForMs: number;
  /** The first claim of this call would begin a new round of tries. */
  readonly fresh: boolean;
}

/** Asks, and writes down what the answer settles; null: it settles nothing. */
export async function settleByProbe(
  services: ExecutionServices,
  call: Call,
  stored: Stored,
  { quietForMs, fresh }: Probing,
): Promise<Applied | null> {
  const { ledger, payloads, providerIds, events } = services;
  const { definition } = call;
  const { record } = stored;
  const answer = await askProbe(services, call, record);
  if (answer.as === "unknown") return null;
  const { tenant, key, fence, action } = record;
  const fact =
    answer.as === "done"
      ? {
          as: "done" as const,
          result: resultOf(answer, payloads, { tenant, key, fence }),
          providerId: providerIds.of(definition, answer.result),
        }
      : { as: "not-done" as const, noneLeft: !fresh && !hasTriesLeft(definition.policy, record, ledger.instant().now) };
  const applied = await ledger.apply(stored, { type: "probed", fence, quietForMs, answer: fact });
  if (applied.ok) events.emit({ type: "settled", action, key, ...by(record), as: answer.as, how: "probe" });
  return applied;
}

function resultOf(answer: { readonly result?: unknown }, payloads: Payloads, bound: Bound): Payload | null {
  if (!("result" in answer)) return RESULT_NOT_GIVEN.probe;
  const { result } = answer;
  return result === undefined ? NO_RESULT : payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, bound);
}

async function askProbe(services: ExecutionServices, call: Call, record: LedgerRecord): Promise<SettledAnswer> {
  const { probe, policy, name } = call.definition;
  if (probe === undefined) throw configError(`action ${name}: there is no probe to ask.`);
  const abort = new AbortController();
  const context: ProbeContext = {
    key: record.key,
    scope: record.scope,
    attempt: record.attempt,
    firstSentAt: record.firstSentAt ?? record.updatedAt,
    lastSentAt: record.lastSentAt ?? record.updatedAt,
    signal: abort.signal,
    providerKey: (format) => providerKey(record.key, format),
  };
  const limitMs = Math.min(policy.timeoutMs, LONGEST_PROBE_MS);
  return new Promise((resolve) => {
    const timer = services.clock.after(limitMs, () => {
      abort.abort(new DOMException("The probe took too long.", "TimeoutError"));
      resolve({ as: "unknown" });
    });
    const end = (answer: SettledAnswer) => {
      timer.cancel();
      resolve(answer);
    };
    Promise.resolve()
      .then(() => probeAs(services.underWay, () => probe(call.input, context)))
      // An answer that cannot even be read says nothing either.
      .then((answer) => understood(answer, services, name))
      .then(end, () => end({ as: "unknown" }));
  });
}

function understood(answer: unknown, services: ExecutionServices, action: string): SettledAnswer {
  const as = typeof answer === "string" ? answer : (answer as { as?: unknown } | null | undefined)?.as;
  if (as === "not-done" || as === "unknown") return { as };
  if (as === "done" && typeof answer === "object") {
    const { result } = answer as { result?: unknown };
    return "result" in (answer as object) ? { as, result } : { as };
  }
  services.warnings.warn(
    "PROBE_ANSWER",
    action,
    `action ${action}: its probe must answer { as: "done", result }, "not-done" or "unknown"; anything else counts as "unknown".`,
  );
  return { as: "unknown" };
}
