/** What a worker may be told, checked once. */
import { type Duration, durationMs } from "../core/duration.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import type { Definition } from "../engine/definition.ts";
import { type TenantChoice, tenantOf } from "../engine/tenancy.ts";

export interface WorkerOptions extends TenantChoice {
  /** The actions it runs, or their names; all that are defined by the time it starts, unless given. */
  readonly actions?: readonly (string | { readonly actionName: string })[];
  /** Intents under way at once in this process; 20 unless given. */
  readonly concurrency?: number;
  /** How often it looks for work that nobody announced; "500ms" unless given. */
  readonly poll?: Duration;
}

export interface WorkerSettings {
  readonly actions: readonly string[] | null;
  readonly concurrency: number;
  readonly tenant: string | undefined;
  readonly pollMs: number;
}

const OPTIONS = new Set(["actions", "concurrency", "tenant", "tenants", "poll"]);
const MOST_AT_ONCE = 10_000;
const SHORTEST_POLL_MS = 5;

/** `confinedTo`: the tenant that the nevertwice() behind it keeps to. */
export function readWorkerOptions(options: WorkerOptions, confinedTo: string | undefined): WorkerSettings {
  for (const option of Object.keys(options)) {
    if (OPTIONS.has(option)) continue;
    throw noSuchOption("worker", option, OPTIONS);
  }
  const tenant = tenantOf(options, confinedTo, "worker");
  const { actions, concurrency = 20, poll = "500ms" } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MOST_AT_ONCE)
    throw configError(
      `worker: concurrency is ${String(concurrency)}; it takes a whole number from 1 to ${MOST_AT_ONCE}.`,
    );
  const pollMs = durationMs(poll, "worker: poll");
  if (pollMs < SHORTEST_POLL_MS)
    throw configError(`worker: poll is ${pollMs}ms; give at least ${SHORTEST_POLL_MS}ms. New work announces itself.`);
  return { actions: actions === undefined ? null : actions.map(nameOf), concurrency, tenant, pollMs };
}

function nameOf(action: string | { readonly actionName: string }): string {
  const name = typeof action === "string" ? action : (action as { actionName?: unknown } | null)?.actionName;
  if (typeof name === "string") return name;
  throw configError("worker: actions takes what nt.action() returned, or names of actions.");
}

/** The definitions behind the names; work of an action that this program does not know is left to others. */
export function chosenDefinitions(
  names: readonly string[] | null,
  defined: ReadonlyMap<string, Definition>,
): readonly Definition[] {
  const chosen = names === null ? [...defined.values()] : names.map((name) => definedAs(name, defined));
  if (chosen.length > 0) return chosen;
  throw configError("worker: there is no action to run. Define them with nt.action() before the worker starts.");
}

function definedAs(name: string, defined: ReadonlyMap<string, Definition>): Definition {
  const definition = defined.get(name);
  if (definition !== undefined) return definition;
  const known = [...defined.keys()].map((one) => JSON.stringify(one)).join(", ");
  throw configError(
    `worker: there is no action ${JSON.stringify(name)} in this nevertwice(). It has: ${known || "none"}. Define it with nt.action() of the same nevertwice() first.`,
  );
}
