/** O10: the store is down, and this action would rather run unguarded than not at all. */
import type { Outcome } from "../core/outcome.ts";
import type { Call } from "./call.ts";
import { contextOf, runAs } from "./context.ts";
import { withCause } from "./error-memory.ts";
import type { ExecutionServices } from "./execution.ts";
import { runOrExists } from "./exists.ts";
import { requestsOf, watchRequests } from "./requests-seen.ts";
import { failureIn } from "./result-warnings.ts";
import { verdictOn } from "./verdict.ts";

export async function runUnguarded(services: ExecutionServices, call: Call): Promise<Outcome<unknown>> {
  const { events, ledger } = services;
  const { definition, key, tenant, input } = call;
  events.emit({ type: "bypassed", action: definition.name, key });
  const { signal } = new AbortController();
  const pulse = { signal, ended: false };
  const context = contextOf({
    attempt: { key, tenant, attempt: 1, fence: 0 },
    deadline: ledger.instant().now + definition.policy.timeoutMs,
    log: services.logger,
    pulse,
    sent: async () => {},
    owner: services.underWay,
  });
  try {
    watchRequests();
    const { run, exists } = definition;
    const result = await runAs(context, async () => {
      const draft = definition.prepare ? await definition.prepare(input, context) : undefined;
      return (exists === undefined ? run : runOrExists(run, exists))(input, context, draft);
    });
    const failure = failureIn(services.warnings, definition.name, result);
    if (failure !== null) throw failure;
    return { status: "done", key, result, replayed: false, attempt: 1, at: ledger.instant().now };
  } catch (error) {
    // Nothing is recorded, so nothing is retried; but what surely did not happen is not called a doubt.
    const verdict = verdictOn(definition, error, services, requestsOf(context));
    if (verdict.kind !== "doubt") {
      return { status: "failed", key, error: verdict.cause, final: verdict.kind === "rejected" };
    }
    const why = "it failed while the ledger was down, and nothing was recorded";
    return withCause({ status: "unknown", key, since: ledger.instant().now, attempt: 1, why }, error);
  } finally {
    pulse.ended = true;
  }
}
