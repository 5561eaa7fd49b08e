/** Tools of Mastra: `execute` is wrapped; a tool that suspends has not happened yet. */
import { configError } from "../../core/errors.ts";
import { guardTool, type ResultCodec, refusalError } from "../guard-tool.ts";
import { ControlFlow } from "../tool/control-flow.ts";
import { requireKey } from "../tool/fields.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  type Guarding,
  type GuardOptions,
  type InputsOf,
  noConversation,
  requireWhose,
  type ToolsOptions,
} from "../tool/options.ts";
import { perSession } from "../tool/session-money.ts";
import { guardEach } from "../tool/set.ts";
import { requireFramework } from "./version.ts";

/** What Mastra hands to `execute` beside its input. */
export interface MastraCall {
  readonly agent?: { readonly agentId?: string; readonly threadId?: string; readonly toolCallId?: string };
  readonly threadId?: string;
  readonly toolCallId?: string;
  readonly workflow?: { readonly runId?: string };
  readonly [field: string]: unknown;
}

/** A tool by shape: what createTool() returns. */
export interface MastraTool {
  readonly id: string;
}

interface Executable extends MastraTool {
  execute?: (input: unknown, context: MastraCall) => unknown;
}

/**
 * The tools of an agent, by the names they have there, which the model knows them by; their ids may differ, or be the same:
 * `guardMastraTools(nt, tools, { tools: { send_mail: { key: ["to"], errors: "not-done" } } })`. `errors: "not-done"` only for a tool
 * whose errors mean that nothing happened.
 */
export function guardMastraTools<T extends Readonly<Record<string, MastraTool>>>(
  nt: Guarding,
  tools: T,
  options: ToolsOptions<MastraCall, InputsOf<NoInfer<T>>> = {},
): T {
  return guardEach<MastraTool, MastraCall>(tools, options as ToolsOptions<MastraCall>, {
    where: "guardMastraTools",
    guard: (tool, own, name) => guardNamed(nt, name, tool, own),
  }) as T;
}

/** One tool, by its id; the scope is the thread, or the workflow's run, unless `scope` says otherwise. */
export function guardMastraTool<T extends MastraTool>(
  nt: Guarding,
  tool: T,
  options: AnyToolOptions & GuardOptions<MastraCall> = {},
): T {
  return guardNamed(nt, tool?.id, tool, options);
}

function guardNamed<T extends MastraTool>(
  nt: Guarding,
  name: string,
  tool: T,
  options: AnyToolOptions & GuardOptions<MastraCall>,
): T {
  const { execute } = (tool ?? {}) as Executable;
  if (typeof execute !== "function") {
    throw configError("guardMastraTool: the second argument must be a tool made by createTool() that has execute().");
  }
  const where = `guardMastraTool(${JSON.stringify(name)})`;
  requireWhose(options, where);
  if (options.readOnly === true) return tool;
  requireFramework("@mastra/core", where);
  requireKey((tool as { inputSchema?: unknown }).inputSchema, options, where);
  const guarded = guardTool<AnyInput, MastraCall, unknown>(
    nt,
    {
      ...options,
      scope: options.scope === undefined ? perSession(threadOf(name)) : options.scope,
      agent: options.agent ?? agentId,
      name,
    },
    (input, context) => untilSuspended(context, (watched) => execute.call(tool, input, watched)),
    validationCodec,
  );
  const run = async (input: unknown, context: MastraCall = {}) => {
    const answer = await guarded.answer(input as AnyInput, context);
    if (answer.kind === "result") {
      return answer.note === null ? answer.result : noted(answer.result, answer.note);
    }
    throw refusalError(answer, name);
  };
  const copy = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool)) as T;
  return Object.assign(copy, { execute: run });
}

/** The id of a run that an agent makes for itself is new each time, and no conversation. */
function threadOf(tool: string): (call: MastraCall) => string {
  return ({ agent, threadId, workflow }) => {
    const thread = agent?.threadId ?? threadId ?? workflow?.runId;
    if (typeof thread === "string" && thread !== "") return thread;
    throw noConversation(
      tool,
      "it came without a thread",
      "give the agent a memory and the call a thread, agent.generate(prompt, { memory: { thread, resource } })",
    );
  };
}

function agentId({ agent }: MastraCall): string | undefined {
  return agent?.agentId;
}

/** An object keeps its fields, with the note beside them; a text gets it in front. */
function noted(result: unknown, note: string): unknown {
  if (typeof result === "string") return `${note}\n${result}`;
  return isPlain(result) ? { ...result, nevertwice: note } : result;
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// What Mastra returns before the tool's own function is begun. "Tool output validation failed" comes after it.
const NOT_BEGUN = /^(?:Tool input|Request context) validation failed/;

const validationCodec: ResultCodec<unknown> = {
  meaning: (result) => {
    if (!isValidationError(result)) return undefined;
    return NOT_BEGUN.test(String(result.message)) ? "not-done" : "doubt";
  },
  said: (result) => (isValidationError(result) ? "what it returned does not fit its outputSchema" : undefined),
};

function isValidationError(result: unknown): result is { readonly message?: unknown } {
  return isPlain(result) && (result as { error?: unknown }).error === true && "validationErrors" in result;
}

type Suspend = (...args: unknown[]) => unknown;

/** suspend() ends the call in the middle; its return value means nothing, and the tool runs again when it is resumed. */
async function untilSuspended(context: MastraCall, run: (watched: MastraCall) => unknown): Promise<unknown> {
  let suspended = false;
  const watch = <C extends object>(given: C | undefined): C | undefined => {
    const { suspend } = (given ?? {}) as { suspend?: Suspend };
    if (given === undefined || typeof suspend !== "function") return given;
    const noticed: Suspend = (...args) => {
      suspended = true;
      return suspend(...args);
    };
    return { ...given, suspend: noticed };
  };
  const watched = watch({ ...context }) as MastraCall;
  const inner = { agent: watch(context.agent), workflow: watch(context.workflow) };
  const given = Object.fromEntries(Object.entries(inner).filter(([, value]) => value !== undefined));
  const result = await run({ ...watched, ...given });
  if (suspended) throw new ControlFlow("returned", result);
  return result;
}
