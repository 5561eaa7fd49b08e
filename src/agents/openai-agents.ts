/**
 * Tools of the OpenAI Agents SDK. The factory `tool()` is wrapped, so that inference survives: what it makes is what it
 * made before, with a guarded `execute`. A finished tool would be too late: it turns errors into text before anybody
 * could tell a failure from a result.
 */
import { configError } from "../core/errors.ts";
import { guardTool } from "./guard-tool.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  type Guarding,
  type GuardOptions,
  optionsOfTool,
  type ToolsOptions,
} from "./tool-options.ts";

/** What `execute` gets beside its input. */
export interface OpenAiCall {
  /** The run's own context object, `context` of `run(agent, input, { context })`; it survives a serialized RunState. */
  readonly runContext: { readonly context?: unknown } | undefined;
  readonly details: { readonly toolCall?: { readonly callId?: string } } | undefined;
}

interface ToolDefinition {
  readonly name?: string;
  readonly execute: (input: unknown, runContext?: unknown, details?: unknown) => unknown;
}

type ToolFactory = (...args: never[]) => unknown;

/** `const tool = guardOpenAiTools(nt, sdkTool, { tools: { send_mail: { key: ["to"] } } })`, used like `tool` itself. */
export function guardOpenAiTools<F extends ToolFactory>(
  nt: Guarding,
  tool: F,
  options: ToolsOptions<OpenAiCall> = {},
): F {
  if (typeof tool !== "function") {
    throw configError("guardOpenAiTools: the second argument must be the SDK's own tool() function.");
  }
  const make = tool as unknown as (definition: ToolDefinition) => unknown;
  const guarded = (definition: ToolDefinition) => {
    const name = definition.name ?? definition.execute?.name;
    const own = name ? optionsOfTool(options, name) : null;
    return make(own === null || !name ? definition : guardDefinition(nt, name, definition, own));
  };
  return guarded as unknown as F;
}

function guardDefinition(
  nt: Guarding,
  name: string,
  definition: ToolDefinition,
  options: AnyToolOptions & GuardOptions<OpenAiCall>,
): ToolDefinition {
  const guarded = guardTool<AnyInput, OpenAiCall, unknown>(nt, { ...options, name }, (input, { runContext, details }) =>
    definition.execute(input, runContext, details),
  );
  return {
    ...definition,
    name,
    async execute(input, runContext, details) {
      const call = { runContext, details } as OpenAiCall;
      const answer = await guarded.answer(input as AnyInput, call);
      // Text, not an exception: the SDK's words for one are "please try again".
      if (answer.kind === "refused") return answer.text;
      return answer.note === null ? answer.result : `${answer.note}\n${shown(answer.result)}`;
    },
  };
}

function shown(result: unknown): string {
  return typeof result === "string" ? result : JSON.stringify(result);
}
