/**
 * Inside a durable engine: the guard stands inside the step, the scope is the workflow's own id, and an outcome that
 * nobody knows must end the engine's retries. An engine that retries a doubt asks the ledger again and again, and the
 * answer does not change until somebody settles it. Engines come in by shape; nothing of theirs is imported.
 */
import { configError, isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Action } from "../engine/action.ts";
import type { CallOptions } from "../engine/call.ts";

/** Runs an action in a step: the result, or an error that the engine does not retry where retrying is pointless. */
export type RunInStep = <I, R>(action: Action<I, R>, input: I, options?: CallOptions) => Promise<R>;

export interface DurableOptions {
  /** The workflow's id: the same on every replay and retry. */
  readonly scope: string | undefined;
  /** Turns an error into the engine's own word for "do not retry". */
  readonly stop: (error: NevertwiceError) => unknown;
}

const POINTLESS: ReadonlySet<string> = new Set([
  "OUTCOME_UNKNOWN",
  "KEY_CONFLICT",
  "RESULT_UNAVAILABLE",
  "INVALID_KEY",
  "INVALID_INPUT",
  "CONFIG",
]);

/** In doubt, in conflict, done without a result, refused for good, or asked wrongly: the same call again gets the same answer. */
export function isPointlessToRetry(error: unknown): error is NevertwiceError {
  if (!isNevertwiceError(error)) return false;
  if (error.code === "FAILED")
    return (error.outcome as Outcome<unknown> | undefined)?.status === "failed" && isFinal(error);
  return POINTLESS.has(error.code);
}

function isFinal(error: NevertwiceError): boolean {
  return (error.outcome as { final?: boolean }).final === true;
}

export function inStep({ scope, stop }: DurableOptions): RunInStep {
  if (typeof scope !== "string" || scope === "") {
    throw configError(
      "inStep: there is no workflow id to use as the scope. Call it inside a step of a running workflow.",
    );
  }
  return async (action, input, options = {}) => {
    try {
      return await action(input, { scope, ...options });
    } catch (error) {
      throw isPointlessToRetry(error) ? stop(error) : error;
    }
  };
}

/** Temporal: in an activity, with `activityInfo()` and `ApplicationFailure` of @temporalio. */
export function temporalActivity(
  info: { readonly workflowExecution?: { readonly workflowId: string } },
  {
    ApplicationFailure,
  }: { readonly ApplicationFailure: { nonRetryable(message: string, type?: string, ...details: unknown[]): unknown } },
): RunInStep {
  return inStep({
    scope: info.workflowExecution?.workflowId,
    stop: (error) => ApplicationFailure.nonRetryable(error.message, error.code, { key: error.key }),
  });
}

/** DBOS: in a step. Give the step `retriesAllowed: true, shouldRetry: (error) => !isPointlessToRetry(error)`. */
export function dbosStep({ workflowID }: { readonly workflowID: string | undefined }): RunInStep {
  return inStep({ scope: workflowID, stop: (error) => error });
}

/** Restate: inside `ctx.run`, with the context and `TerminalError` of the SDK. */
export function restateRun(
  context: { request(): { readonly id: unknown } },
  { TerminalError }: { readonly TerminalError: new (message: string) => unknown },
): RunInStep {
  return inStep({ scope: String(context.request().id), stop: (error) => new TerminalError(error.message) });
}

/** Inngest: inside `step.run`, with the function's `runId` and `NonRetriableError`. */
export function inngestStep(
  { runId }: { readonly runId: string },
  { NonRetriableError }: { readonly NonRetriableError: new (message: string, options?: { cause: unknown }) => unknown },
): RunInStep {
  return inStep({ scope: runId, stop: (error) => new NonRetriableError(error.message, { cause: error }) });
}

/** Trigger.dev: in a task's `run`, with its `ctx` and `AbortTaskRunError`. */
export function triggerTask(
  { run }: { readonly run: { readonly id: string } },
  { AbortTaskRunError }: { readonly AbortTaskRunError: new (message: string) => unknown },
): RunInStep {
  return inStep({ scope: run.id, stop: (error) => new AbortTaskRunError(error.message) });
}

/** Vercel Workflow: in a "use step" function, with `getWorkflowMetadata()` and `FatalError`. */
export function vercelStep(
  { workflowRunId }: { readonly workflowRunId: string },
  { FatalError }: { readonly FatalError: new (message: string) => unknown },
): RunInStep {
  return inStep({ scope: workflowRunId, stop: (error) => new FatalError(error.message) });
}

/** LangGraph: in a `task` or node, with its config. Give it `retry: { retryOn: (error) => !isPointlessToRetry(error) }`. */
export function langGraphTask({
  configurable,
}: {
  readonly configurable?: Readonly<Record<string, unknown>>;
}): RunInStep {
  const thread = configurable?.thread_id;
  return inStep({ scope: thread === undefined ? undefined : String(thread), stop: (error) => error });
}

/** OpenWorkflow: inside `step.run`, with the run's own id. Its steps take a retryPolicy; leave it at one attempt. */
export function openWorkflowStep({ id }: { readonly id: string }): RunInStep {
  return inStep({ scope: id, stop: (error) => error });
}
