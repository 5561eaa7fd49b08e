/** The action behind a guarded tool: defined once per name, run with the handler and the context of the call at hand. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Duration } from "../../core/duration.ts";
import { ownName } from "../../core/entry-name.ts";
import { configError, type DoubtBecause, doubtBecause } from "../../core/errors.ts";
import { prepareInput } from "../../core/key/canonical.ts";
import { keyStandsFor } from "../../core/key/definition.ts";
import type { LimitOptions } from "../../core/limit.ts";
import type { Action } from "../../engine/action.ts";
import { warningsOf } from "../../engine/action-warnings.ts";
import { type CallOptions, OF_TOOL, type ToolCallOptions } from "../../engine/call.ts";
import type { CheckContext } from "../../engine/check-context.ts";
import { currentAttempt } from "../../engine/context.ts";
import { type Formerly, runOfTool, type Verdictish } from "../../engine/definition.ts";
import { ControlFlow, isControlFlowError } from "./control-flow.ts";
import { type AnyToolOptions, type Guarding, type GuardOptions, policyOf, type ToolOptions } from "./options.ts";
import { ErrorResult, keep, type Live } from "./result.ts";
import { toolResultId } from "./result-id.ts";
import { verdictFor } from "./thrown.ts";
import { Turns } from "./turns.ts";

export type GuardToolOptions<I, X, R> = ToolOptions<I, R> &
  GuardOptions<X> & {
    readonly name: string;
    /** How long this call waits for one that is under way; the tool's own `wait` unless given. */
    readonly waits?: (extra: X) => Duration | undefined;
    readonly [OF_PROXY]?: true;
  };

/** A tool of the MCP proxy: whoever runs it has a config and no code, and is advised so. */
export const OF_PROXY = Symbol("of the proxy");

export const live = new AsyncLocalStorage<Live>();

interface Registered {
  readonly action: Action<unknown, unknown>;
  readonly fixed: string;
  readonly turns: Turns;
}

const registries = new WeakMap<Guarding, Map<string, Registered>>();

/**
 * Tools are often built anew for each request or session. An action is defined once per name; a second guard of the same
 * tool shares it, and each call brings its own handler along.
 */
export function actionFor(
  nt: Guarding,
  options: GuardToolOptions<unknown, unknown, unknown>,
): Action<unknown, unknown> {
  const registry = registries.get(nt) ?? new Map<string, Registered>();
  registries.set(nt, registry);
  const name = options.action ?? options.name;
  const fixed = fixedOptions(options);
  const known = registry.get(name);
  if (known === undefined) {
    const action = defineToolAction(nt, name, options);
    registry.set(name, { action, fixed, turns: new Turns() });
    return action;
  }
  if (known.fixed === fixed) return known.action;
  throw configError(
    `tool ${JSON.stringify(options.name)}: the action ${JSON.stringify(name)} is guarded already with other options. Two tools under one name would take each other for repeats: give one of them another \`action\`, or the same options.`,
  );
}

/** Those of all guards of the tool: it may be guarded anew for each call. */
export function turnsOf(nt: Guarding, { action, name }: { readonly action?: string; readonly name: string }): Turns {
  return registries.get(nt)?.get(action ?? name)?.turns ?? new Turns();
}

/** What an action cannot vary from call to call. Functions may be made anew for each guard, so only their presence counts. */
function fixedOptions({ key, free, formerly, doubt, check, limit, ...options }: AnyToolOptions): string {
  const settle = typeof doubt === "object" ? { ...doubt, probe: doubt.probe !== undefined } : doubt;
  const present = (_name: string, value: unknown) => (typeof value === "function" ? true : value);
  return JSON.stringify([key, free, settle, policyOf({ ...options }), formerly, check !== undefined, limit], present);
}

function defineToolAction(
  nt: Guarding,
  name: string,
  options: GuardToolOptions<unknown, unknown, unknown>,
): Action<unknown, unknown> {
  const { key = defaultKey(options.free ?? []), resultId, check, limit } = options;
  const own = ownName(name);
  if (own !== null)
    throw configError(
      `tool ${JSON.stringify(options.name)}: ${own}: give the tool the option \`action\`, the name of its records.`,
    );
  const action: Action<unknown, unknown> = nt.action<unknown, unknown>(name, {
    ...policyOf(options),
    ...(options.free !== undefined && { free: options.free }),
    ...(options.formerly !== undefined && { formerly: options.formerly as Formerly<unknown> }),
    // The key function of this call's own guard; the sweeper, which makes no calls, uses the first.
    ...(typeof key === "function"
      ? {
          key: keyStandsFor(
            (input: unknown) => ((live.getStore()?.key ?? key) as (input: unknown) => readonly unknown[])(input),
            options.key === undefined ? { free: options.free ?? [] } : key,
          ),
        }
      : { key: key as readonly never[] }),
    // Likewise: the check of this call's own guard.
    ...(check !== undefined && {
      check: async (input: unknown, context: CheckContext) => {
        const call = live.getStore();
        try {
          await (call?.check ?? check)(input, context);
        } catch (error) {
          if (call !== undefined) call.stopped = { error };
          throw error;
        }
      },
    }),
    ...(limit !== undefined && { limit: ofThisCall(limit) }),
    classify: (error: unknown) =>
      classify(error, (what) =>
        warningsOf(action)?.warn("ERRORS_ANSWER", `tool ${options.name}: ${what}.`),
      ) as Verdictish,
    resultId: resultId === undefined ? toolResultId : (kept: unknown) => resultId(kept),
    run: runOfTool((input: unknown) => runLive(input), options[OF_PROXY] === true ? "proxy" : "tool"),
  });
  return action;
}

/** The destination as this call's own guard names it. */
function ofThisCall(limit: LimitOptions<unknown>): LimitOptions<unknown> {
  const { by } = limit ?? {};
  if (typeof by !== "function") return limit;
  return { ...limit, by: (input) => (live.getStore()?.limit?.by ?? by)(input) };
}

/** All arguments that are not free. A tool without any is one intent in its scope, where an action would be refused. */
function defaultKey(free: readonly string[]) {
  return (input: unknown): readonly unknown[] => {
    const part = input === undefined ? null : prepareInput(input, "input", free);
    const none = part === null || part === "" || (typeof part === "object" && Object.keys(part as object).length === 0);
    return [none ? "no arguments" : part];
  };
}

// Of attempts that run a tool: the key of the intent, whose further versions have keys of their own.
const bases = new WeakMap<object, () => Promise<string>>();

/** A tool that was guarded twice would wait for itself: inside the attempt at its own intent, the inner guard lets it run. */
export async function isThisVeryAttempt(
  action: Action<unknown, unknown>,
  input: unknown,
  whose: CallOptions,
): Promise<boolean> {
  const around = currentAttempt();
  if (around === undefined) return false;
  const key = await action.keyOf(input, whose);
  return around.key === key || (await bases.get(around)?.()) === key;
}

async function runLive(input: unknown): Promise<unknown> {
  const call = live.getStore();
  // The sweeper has no framework's context to hand to a handler: the next call of the tool goes on with it.
  if (call === undefined) throw new ControlFlow("thrown", new Error("a tool is only run by a call"));
  call.direct = null;
  const attempt = currentAttempt();
  call.attempt = attempt ?? null;
  call.fence = attempt?.fence ?? null;
  if (attempt !== undefined && call.base !== null) bases.set(attempt, call.base);
  // Outside of this call's context: a tool that calls a guarded tool of its own must not be taken for this one.
  const work = live.exit(async () => call.handler(input, call.extra));
  call.work = work;
  const value = await work.catch((error: unknown) => {
    throw isControlFlowError(error) ? new ControlFlow("thrown", error) : error;
  });
  return keep(call, value);
}

function classify(error: unknown, warn: (message: string) => void): Verdictish | DoubtBecause | undefined {
  if (error instanceof ControlFlow) return "refused";
  if (error instanceof ErrorResult) {
    if (error.misjudged !== undefined) warn(error.misjudged);
    return error.meaning === "doubt" ? doubtBecause(error.misjudged ?? ANSWERED_WITH_ERROR) : error.meaning;
  }
  const call = live.getStore();
  return call === undefined ? undefined : verdictFor(error, call);
}

const ANSWERED_WITH_ERROR = "it answered with an error that leaves open whether it happened";

/** The options of a call, with what only a tool's call has. */
export function ofTool<O extends CallOptions>(call: Live, options: O, observed = false): O & ToolCallOptions {
  const { ordinal, limit, slot } = call;
  return { ...options, [OF_TOOL]: { observed, ordinal, ...(limit !== undefined && { slot }) } };
}
